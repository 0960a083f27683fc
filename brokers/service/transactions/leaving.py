"""Halves that nobody ended leave a set whose master is away (PROTOCOL 7.4).

Responsible for: each half without an op record, once and at once: a transactional send to the
master of another set, which asks its producer; the place behind those that were taken. Refuses to
know: what is decided (`ledger`), how a half leaves (`escape`), who acts.

A producer that ends its transaction meanwhile names a half that nobody serves: the answer to the
question decides.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable

from brokers.acting.forms import Kind
from brokers.clock import Clock
from brokers.service.escape.away import Ways
from brokers.service.role.services import Served, Service
from brokers.service.sending.delayed import HALF_TOPIC
from brokers.service.sending.half import QUEUE_ID
from brokers.service.sending.outlet import Outlet
from brokers.service.transactions.decided import Decided
from brokers.service.transactions.ledger import TransactionLedger
from brokers.store.log.integrity import BadRecord
from brokers.store.log.records import RecordError, StoredMessage, decode_messages
from brokers.store.queues.query import MESSAGES_MAX, GetStatus
from brokers.store.store import MessageStore

# Pieces of the queue in one turn.
READS_AT_ONCE = 4
# Halves that are on their way and not taken yet; then those behind them wait.
UNSAFE_MAX = 8_192
# A damaged half holds the others up so long, for somebody may have it sound.
DAMAGED_WAIT_MS = 60_000

_log = logging.getLogger("regent.broker.transactions")


class HalvesLeave(Service):
    """`ways`: out of the set; None: there are none, and halves wait for a master. `left` counts
    since the start of the process.
    """

    def __init__(
        self,
        store: MessageStore,
        ledger: TransactionLedger,
        clock: Clock,
        repair: Callable[[BadRecord, str], object],
        ways: Ways | None,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._clock = clock
        self._repair = repair
        self._ways = ways
        self._outlet: Outlet | None = None
        self._place = 0
        # the end of a half's put, and the half
        self._sent: deque[tuple[int, int]] = deque()
        self._damaged_since: int | None = None
        self.left = 0

    def serves(self) -> dict[int, Served]:
        """Nothing."""
        return {}

    def acting_begins(self) -> None:
        """From the place on that the master told."""
        if self._ways is not None:
            self._outlet = self._ways("halves", Kind.HALF)
            self._place = 0
            self._sent.clear()
            self._damaged_since = None

    def acting_over(self) -> None:
        """Before the ledger hears of it: it tells what was taken."""
        if self._outlet is not None and self._ledger.decided is not None:
            self._settle(self._outlet, self._ledger.decided)
        self._outlet = None
        self._sent.clear()

    def tick(self, now_ms: int) -> None:
        outlet, decided = self._outlet, self._ledger.decided
        if outlet is None or decided is None:
            return
        self._settle(outlet, decided)
        if self._ledger.is_loaded:
            for _ in range(READS_AT_ONCE):
                if (
                    outlet.is_full
                    or len(self._sent) >= UNSAFE_MAX
                    or not self._some(outlet, decided)
                ):
                    break

    def _settle(self, outlet: Outlet, decided: Decided) -> None:
        safe = outlet.safe_offset
        while self._sent and self._sent[0][0] <= safe:
            decided.left(self._sent.popleft()[1])
            self.left += 1

    def _some(self, outlet: Outlet, decided: Decided) -> bool:
        """Whether more may follow."""
        place = self._place = decided.next_open(self._place)
        found = self._store.query(HALF_TOPIC, QUEUE_ID, place, MESSAGES_MAX)
        if found.status is not GetStatus.FOUND:
            return self._without(decided, found.next_offset, found.refused)
        self._damaged_since = None
        halves = [
            half
            for half in decode_messages(found.body)
            if decided.next_open(half.queue_offset) == half.queue_offset
        ]
        self._send(outlet, decided, halves)
        self._place = max(found.next_offset, place + 1)
        return True

    def _send(self, outlet: Outlet, decided: Decided, halves: list[StoredMessage]) -> None:
        results = outlet.append([half.fields for half in halves]) if halves else []
        for half, result in zip(halves, results, strict=True):
            if isinstance(result, RecordError):
                self._pass_over(decided, half.queue_offset, str(result))
            else:
                self._sent.append((result.end_offset, half.queue_offset))

    def _without(self, decided: Decided, next_offset: int, bad: BadRecord | None) -> bool:
        """Nothing can be read at the place; whether it moved on."""
        if bad is None:
            moves = self._place < next_offset <= self._store.queue_bounds(HALF_TOPIC, QUEUE_ID)[1]
            self._place = next_offset if moves else self._place
            return moves
        self._repair(bad, "transactions")
        now_ms = self._clock.now_ms()
        since = self._damaged_since = now_ms if self._damaged_since is None else self._damaged_since
        if now_ms - since < DAMAGED_WAIT_MS:
            return False
        self._pass_over(decided, self._place, bad.reason)
        self._place += 1
        self._damaged_since = None
        return True

    def _pass_over(self, decided: Decided, offset: int, why: str) -> None:
        _log.error("half message %d does not leave: %s", offset, why)
        decided.left(offset)
