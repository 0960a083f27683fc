"""The halves of this broker's log that are decided, as its op records say (PROTOCOL 4.7,
design S19).

Responsible for: reading the op records, writing those of new decisions behind the messages they are
about, telling safe places. Refuses to know: why a half is decided.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from brokers.clock import Clock
from brokers.service.role.services import Served, Service
from brokers.service.sending.delayed import HALF_TOPIC
from brokers.service.sending.half import QUEUE_ID
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.own_puts import OwnPuts
from brokers.service.tables.table_files import TableFiles
from brokers.service.transactions.decided import Decided
from brokers.service.transactions.forms import GROUP, OP_TOPIC, decided_in, op_records, says_ended
from brokers.store.log.integrity import BadRecord
from brokers.store.log.records import decode_messages
from brokers.store.queues.query import MESSAGES_MAX, GetStatus
from brokers.store.store import MessageStore

# Reads of the op queue before everybody else has a turn.
READS_AT_ONCE = 8
# Op records in front of the place that a new master reads: a producer may repeat what it ended.
LOOK_BACK = 2_048
# Places are told again after it when they moved.
TELL_MS = 500

_log = logging.getLogger("regent.broker.transactions")


class TransactionLedger(Service):
    """`soon(act)`: in the next turn of the loop. `repair(record, by)`: a damaged record was met."""

    def __init__(
        self,
        store: MessageStore,
        tables: TableFiles,
        puts: OwnPuts,
        clock: Clock,
        repair: Callable[[BadRecord, str], object],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._store = store
        self._tables = tables
        self._puts = puts
        self._clock = clock
        self._repair = repair
        self._soon = soon
        self.decided: Decided | None = None
        """None: this broker does not lead."""
        self._acts = False
        self._promoted_end = 0
        self._loaded = asyncio.Event()
        self._going = False
        self._unwritten: dict[bool, list[int]] = {True: [], False: []}
        self._told_ms = 0

    def serves(self) -> dict[int, Served]:
        """Nothing."""
        return {}

    def mastership_begins(self) -> None:
        """From the places on that the last master told, within what the queues hold."""
        half, op = self._place(HALF_TOPIC), self._place(OP_TOPIC)
        low, _ = self._store.queue_bounds(OP_TOPIC, QUEUE_ID)
        self.decided = Decided(half, op, max(low, op - LOOK_BACK))
        self._acts = False
        self._promoted_end = self._store.log_end
        self._loaded.clear()
        self._unwritten = {True: [], False: []}
        self._told_ms = 0

    def _place(self, topic: str) -> int:
        low, high = self._store.queue_bounds(topic, QUEUE_ID)
        told = self._tables.offsets.query(GROUP, topic, QUEUE_ID)
        return low if told is None else min(max(told, low), high)

    def mastership_over(self) -> None:
        self.decided = None
        self._acts = False
        self._loaded.clear()
        self._unwritten = {True: [], False: []}

    def acting_begins(self) -> None:
        """From the same places on; nothing is recorded, for the log is not its own to write."""
        self.mastership_begins()
        self._acts = True

    def acting_over(self) -> None:
        if self._acts and self.decided is not None:
            self._tell(self.decided)
            self.mastership_over()

    @property
    def undecided(self) -> int:
        """Halves from the first one on that is not decided; 0 while this broker does not lead."""
        if self.decided is None:
            return 0
        return max(0, self._store.queue_bounds(HALF_TOPIC, QUEUE_ID)[1] - self.decided.half)

    @property
    def is_loaded(self) -> bool:
        """Every decision that this log holds is known."""
        return self._loaded.is_set()

    async def loaded(self, timeout_s: float) -> bool:
        """Wait for that; whether it came."""
        if not self._loaded.is_set():
            try:
                await asyncio.wait_for(self._loaded.wait(), timeout_s)
            except TimeoutError:
                return False
        return True

    def tick(self, now_ms: int) -> None:
        if self.decided is None:
            return
        if not self._going:
            self._follow()
        if self.waits:
            self._write_again()
        if now_ms - self._told_ms >= TELL_MS:
            self._told_ms = now_ms
            self._tell(self.decided)

    def _follow(self) -> None:
        """Some op records; the rest in the next turn of the loop."""
        self._going = False
        for _ in range(READS_AT_ONCE):
            if self.decided is None or not self._read(self.decided):
                break
        else:
            self._going = True
            self._soon(self._follow)

    def _read(self, decided: Decided) -> bool:
        """Whether more may follow."""
        found = self._store.query(OP_TOPIC, QUEUE_ID, decided.read_to, MESSAGES_MAX)
        if found.status is GetStatus.FOUND:
            for record in decode_messages(found.body):
                end = record.physical_offset + record.size
                names, ended = decided_in(record.fields), says_ended(record.fields)
                decided.read(record.queue_offset, end, names, ended=ended)
            decided.read_to = max(decided.read_to, found.next_offset)
            return True
        if found.refused is not None:
            # Halves that it names are asked about once more, at worst.
            self._repair(found.refused, "transactions")
            _log.error("op record %d is passed over: %s", decided.read_to, found.refused.reason)
            decided.read(decided.read_to, 0, ())
            return True
        if decided.read_to < found.next_offset <= found.max_offset:
            decided.read_to = found.next_offset
            return True
        if self._store.dispatched_offset >= self._promoted_end:
            self._loaded.set()
        return False

    def _tell(self, decided: Decided) -> None:
        decided.missing_below(self._store.queue_bounds(HALF_TOPIC, QUEUE_ID)[0])
        half, op = decided.settle(self._store.durable_offset)
        wall_ms = self._clock.wall_ms()
        for topic, place in ((HALF_TOPIC, half), (OP_TOPIC, op)):
            known = self._tables.offsets.query(GROUP, topic, QUEUE_ID)
            if known != place and (place or known is not None):
                self._tables.offsets.commit(GROUP, topic, QUEUE_ID, place, wall_ms)

    @property
    def waits(self) -> bool:
        """There are decisions whose records the log did not take yet."""
        return any(self._unwritten.values())

    def record(self, halves: Sequence[int], *, ended: bool = True) -> None:
        """Op records of these halves into the log, behind what was put for them. When the log
        refuses they are written later. `ended`: by their producers.
        """
        host, wall_ms = self._puts.store_host, self._clock.wall_ms()
        records = op_records(halves, host, wall_ms, ended=ended)
        try:
            if records:
                self._puts.append(records)
        except NotPut as refusal:
            _log.warning("op records wait: %s", refusal)
            self._unwritten[ended].extend(halves)

    def _write_again(self) -> None:
        for ended in (True, False):
            halves, self._unwritten[ended] = self._unwritten[ended], []
            self.record(halves, ended=ended)
