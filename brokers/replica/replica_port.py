"""What a broker asks of its replica, whichever way its set replicates (D10).

Responsible for: the one list, for a replica of an in-sync set (`brokers/process/replica.py`) and
for a member of a majority group (`brokers/process/majority/replica.py`). Refuses to know: either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from brokers.ha.epochs import EpochHistory
from brokers.replica.core_port import CoreView
from brokers.replica.ha_address import HaAddressSource
from brokers.replica.ha_status import HaStatus
from brokers.replica.hooks import ReplicaHooks
from brokers.replica.roles import RoleNotice
from brokers.replica.waiters import Confirmation
from brokers.store.log.group_commit import Flushed
from brokers.store.store import MessageStore


class Replica(Protocol):
    """Open, and not running yet: `begin` runs it once its id is known. `flushed`: None where a
    confirmation says so already. `failed` raises once it cannot go on.
    """

    @property
    def store(self) -> MessageStore: ...
    @property
    def incarnation(self) -> str:
        """Of this start."""
        ...

    @property
    def core(self) -> CoreView | None:
        """None before it runs."""
        ...

    @property
    def broker_id(self) -> int | None: ...
    @property
    def epochs(self) -> EpochHistory: ...
    @property
    def flushed(self) -> Callable[[int], asyncio.Future[Flushed]] | None: ...

    def begin(
        self, broker_id: int, hooks: ReplicaHooks, attach: Callable[[CoreView], None]
    ) -> CoreView:
        """Run; `attach` gets the core before anything is heard of it. OSError when its port is
        taken.
        """
        ...

    def report_start(self, report: Callable[[str, Mapping[str, object]], None]) -> None: ...
    async def stop(self) -> None:
        """It has no role any more, and nobody's wait goes on. The store stays open."""
        ...

    def close(self) -> None:
        """Behind `stop`: the store, and the mark of an orderly end."""
        ...

    # -- what others tell it

    def notice(self, notice: RoleNotice, *, disk_hangs: bool = False) -> None: ...
    def ha_address_told(
        self, master_address: str, ha_address: str, word: HaAddressSource
    ) -> None: ...
    def storage_failed(self, reason: str) -> None: ...
    def log_grew(self, end_offset: int) -> None: ...
    def log_trimmed(self) -> None: ...
    def note_clean(self) -> None: ...
    def keep_held_job(self) -> Callable[[], None] | None: ...

    # -- what holds before and after its id is known

    def ha_status(self) -> HaStatus: ...
    def clean(self) -> bool: ...
    def leads(self) -> bool: ...
    def write_refusal(self) -> str | None: ...
    def confirmation(self, end_offset: int, timeout_ms: int) -> asyncio.Future[Confirmation]: ...
    def wanted_offset(self) -> int | None:
        """From where others still copy, None without any."""
        ...

    def failed(self) -> asyncio.Future[None]: ...
