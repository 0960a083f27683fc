"""One replica's store in a folder of its own: opened, killed, without power, looked through and
repaired by the product's code.

Responsible for: its lives, the damage that was done to it, asking the others for what is damaged.
Refuses to know: who leads, what was acknowledged, when anything happens.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from brokers.ha.epochs import EpochHistory
from brokers.process.scrubber import Scrubber
from brokers.remoting.command import RemotingCommand
from brokers.service.reading.query_requests import QueryRequests
from brokers.service.reading.repair import Repairs
from brokers.store.files.disk import sync_directory
from brokers.store.log import segments
from brokers.store.log.integrity import BadRecord
from brokers.store.log.scan import end_of_valid_log
from brokers.store.store import MessageStore, StoreConfig
from tests.simulation.store.medium import Medium

SCRUB_BYTES_PER_S = 1 << 40
LIVED_MS = 10_000
ROUNDS_MAX = 40


class WorldClock:
    """As `brokers.clock.Clock`, standing still until it is moved on."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms


class Replica:
    """`damaged`: starts of messages whose bytes here were changed where checksums, places or
    lengths show it; `altered`: where nothing shows it; `misled`: of those whose entries were
    changed. `trusted_end`: above it bytes may be torn, since power was lost; `flushed_end`: what
    the last loss of power could not take.
    """

    def __init__(self, number: int, root: Path, medium: Medium, config: StoreConfig) -> None:
        self.number, self.root, self.medium, self.config = number, root, medium, config
        self.epochs = EpochHistory.of()
        self.damaged: set[int] = set()
        self.altered: set[int] = set()
        self.misled: set[int] = set()
        self.trusted_end: int | None = None
        self.flushed_end = 0
        self.ends_damaged = False
        self.clock = WorldClock()
        self.found_at_start: tuple[BadRecord, ...] = ()
        self.store: MessageStore | None = None

    @property
    def name(self) -> str:
        return f"replica {self.number}"

    @property
    def is_up(self) -> bool:
        return self.store is not None

    @property
    def opened(self) -> MessageStore:
        assert self.store is not None, f"{self.name} is down"
        return self.store

    def start(self, *, same_boot: bool) -> MessageStore:
        """Opens and recovers. LogError."""
        store = self.store = MessageStore(self.root, self.config, same_boot=same_boot)
        self.found_at_start = store.recovery.damaged
        # as the run marker does, which is written as soon as the store is open
        sync_directory(self.root)
        self.epochs = self.epochs.truncate_suffix(store.log_end)
        if not same_boot:
            limit = store.recovery.durable_end
            start = max(segments.file_start(limit, self.config.log_file_bytes), store.log_min)
            self.trusted_end = (
                end_of_valid_log(store.read_log, start, limit, self.config.log_file_bytes)[0]
                if start < limit
                else limit
            )
        return store

    def stop(self, *, clean: bool) -> None:
        """In order, or as a kill leaves it."""
        store, self.store = self.opened, None
        store.close(clean=clean)

    def lose_power(self, chance: Random) -> int:
        """What was not synced may be gone; how many bytes are."""
        self.flushed_end = self.opened.log.flushed_offset
        self.stop(clean=False)
        return self.medium.lose_power(self.root, chance)

    def touched(self) -> bool:
        """Whether anything is wrong with its bytes that was not put right."""
        return bool(self.damaged or self.altered)

    def restored(self, start: int, data: bytes) -> bool:
        """Whether the message at `start` is `data` again; then it counts as sound."""
        try:
            if self.opened.read_log(start, len(data)) != data:
                return False
        except OSError:
            return False
        self.damaged.discard(start)
        self.altered.discard(start)
        return True

    def look_through(
        self, others: Sequence[Replica], pulled: Callable[[], Sequence[BadRecord]]
    ) -> list[BadRecord]:
        """The start's damage, one look of the scrubber through the log, and what pulls find,
        repaired from the others as far as they have it; what was told.
        """
        return asyncio.run(self._look_through(others, pulled))

    async def _look_through(
        self, others: Sequence[Replica], pulled: Callable[[], Sequence[BadRecord]]
    ) -> list[BadRecord]:
        told: list[BadRecord] = []
        repairs = Repairs(
            self.opened,
            _Others(others),
            lambda: [str(one.number) for one in others],
            lambda *_: None,
            self.clock,
        )  # type: ignore[arg-type]
        wanted = repairs.wanted

        def noted(bad: BadRecord, found_by: str) -> asyncio.Task[bool] | None:
            told.append(bad)
            return wanted(bad, found_by)

        repairs.wanted = noted  # type: ignore[method-assign]
        found_at_start, self.found_at_start = self.found_at_start, ()
        for bad in found_at_start:
            if bad.place.offset in self.damaged:  # the log may have been cut and copied since
                await repairs.waited(bad, "start")
        await Scrubber(self.opened, repairs, SCRUB_BYTES_PER_S, 0).look_through()
        for _ in range(ROUNDS_MAX):
            self.clock.ms += LIVED_MS
            found = pulled()
            mended = [await repairs.waited(bad, "pull") for bad in found]
            if not any(mended):
                break
        await repairs.close()
        return told


class _Others:
    """Calls to other replicas, answered by the product's handlers."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self._tables = {
            str(one.number): QueryRequests(one.opened, lambda bad, found_by: None)
            for one in replicas
        }

    async def call(
        self, address: str, command: RemotingCommand, _timeout_ms: int
    ) -> RemotingCommand:
        """As `RemotingClient.call`."""
        answer = self._tables[address].serves()[command.code].handler(None, command)  # type: ignore[arg-type]
        return await answer if asyncio.iscoroutine(answer) or asyncio.isfuture(answer) else answer  # type: ignore[return-value, misc]
