"""What the driver and the process around ask of a replica's core, whoever tells its role.

Responsible for: the one list of inputs, for `ReplicaCore` (controllers elect) and `FixedCore` (the
configuration says), and of what others may know, for these and a member of a majority group.
Refuses to know: rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from brokers.ha.epochs import EpochHistory
from brokers.replica.effects import Effect
from brokers.replica.ha_address import HaAddressSource
from brokers.replica.ha_status import HaStatus
from brokers.replica.roles import RoleNotice


class CoreView(Protocol):
    """What the broker around a replica knows of it, whichever way its set replicates. `clean`: what
    it holds can be vouched for.
    """

    broker_id: int

    @property
    def is_master(self) -> bool: ...
    @property
    def clean(self) -> bool: ...
    @property
    def master_epoch(self) -> int: ...
    @property
    def master_id(self) -> int | None: ...
    @property
    def sync_state_set(self) -> tuple[int, ...]: ...
    @property
    def acknowledging_members(self) -> tuple[int, ...]: ...
    @property
    def set_epoch(self) -> int: ...
    @property
    def confirm_offset(self) -> int:
        """Consumers see nothing beyond it."""
        ...

    def joins_with_tables(self, has_tables: Callable[[int], bool]) -> None:
        """Who is asked whether a replica that joins has the tables of its master."""
        ...


class Core(CoreView, Protocol):
    """Inputs return effects, in the order in which they are to be done. Times are ms of one
    monotonic clock.
    """

    incarnation: str

    @property
    def file_bytes(self) -> int:
        """Size of a log file."""
        ...

    @property
    def epochs(self) -> EpochHistory: ...
    @property
    def epoch_seen(self) -> int: ...
    @property
    def log_end(self) -> int: ...
    @property
    def acknowledged_offset(self) -> int:
        """Sends below it are answered."""
        ...

    def write_refusal(self) -> str | None: ...
    def ha_status(self, peer_of: Callable[[int], str], now_ms: int) -> HaStatus: ...

    def on_role_notice(
        self, notice: RoleNotice, now_ms: int, *, disk_hangs: bool = False
    ) -> list[Effect]: ...
    def on_alter_result(
        self,
        token: int,
        code: int | None,
        members: tuple[int, ...] | None,
        set_epoch: int | None,
        master_epoch: int | None,
        now_ms: int,
    ) -> list[Effect]: ...
    def ha_address_told(
        self, master_address: str, ha_address: str, word: HaAddressSource, now_ms: int
    ) -> list[Effect]: ...

    def link_opened(
        self, link_id: int, *, outbound: bool, now_ms: int, peer: str = ""
    ) -> list[Effect]: ...
    def link_data(self, link_id: int, data: bytes | memoryview, now_ms: int) -> list[Effect]: ...
    def link_closed(self, link_id: int, reason: str, now_ms: int) -> list[Effect]: ...
    def link_flow(self, link_id: int, *, blocked: bool, now_ms: int) -> list[Effect]: ...
    def connect_failed(self, now_ms: int) -> list[Effect]: ...

    def log_grew(self, end_offset: int, now_ms: int) -> list[Effect]: ...
    def log_trimmed(self, min_offset: int, now_ms: int) -> list[Effect]: ...
    def truncated(self, ok: bool, end_offset: int, now_ms: int) -> list[Effect]: ...
    def compared(
        self, offset: int, equal_bytes: int, all_bytes: int, now_ms: int
    ) -> list[Effect]: ...
    def log_stuck(self, offset: int, reason: str, now_ms: int) -> list[Effect]: ...
    def record_found(
        self, broker_id: int, offset: int, found: bool, now_ms: int
    ) -> list[Effect]: ...
    def storage_failed(self, reason: str, end_offset: int, now_ms: int) -> list[Effect]: ...
    def storage_full(self, reason: str, end_offset: int, now_ms: int) -> list[Effect]: ...
    def tick(self, now_ms: int) -> list[Effect]: ...
