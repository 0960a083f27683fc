"""Delivering delayed messages while this broker leads, or acts for a master that is away
(PROTOCOL 4.14, 7.4).

Responsible for: reading what is due, level by level, putting the copies into the log in their
order, or on their way to another set, and telling only such places as a successor may go on from.
Refuses to know: how a message looks (`delayed`), what is due (`levels`), how it gets into the log
(`own_puts`) or to another set (`escape`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from itertools import takewhile

from brokers.acting.forms import Kind
from brokers.clock import Clock
from brokers.remoting.codes import RequestCode
from brokers.service.delivery.levels import DelayLevel
from brokers.service.escape.away import Ways
from brokers.service.role.services import Served, Service
from brokers.service.sending.delayed import delivered
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.outlet import Outlet
from brokers.service.tables.kept_for_java import KeptFiles
from brokers.store.log.delay_levels import LEVELS_MAX, levels_in_force
from brokers.store.log.integrity import BadRecord
from brokers.store.log.properties import SCHEDULE_TOPIC
from brokers.store.log.records import MessageFields, RecordError, StoredMessage, decode_messages
from brokers.store.queues.query import MESSAGES_MAX, GetStatus
from brokers.store.store import MessageStore

# Copies of one level that are in the log and not durable everywhere yet; then its delivery waits.
UNSAFE_MAX = 8_192
# Messages delivered before everybody else has a turn: some milliseconds.
SLICE_MESSAGES = 2 * MESSAGES_MAX
# As RocketMQ's: a put that was refused is tried again after it.
RETRY_MS = 100
# A damaged message holds its level up so long, for somebody may have it sound.
DAMAGED_WAIT_MS = 60_000
# The version of the table moves once for as many deliveries.
DELIVERIES_PER_VERSION = 200

_log = logging.getLogger("regent.broker.delivery")


class DelayDelivery(Service):
    """Every level. `delivered` and `parked` count since the start of the process. `soon(act)`: in
    the next turn of the loop. `ways`: out of the set, each level its own; None: there are none, and
    what is due waits for a master.
    """

    def __init__(
        self,
        store: MessageStore,
        kept: KeptFiles,
        puts: Outlet,
        clock: Clock,
        repair: Callable[[BadRecord, str], object],
        soon: Callable[[Callable[[], None]], object],
        ways: Ways | None = None,
    ) -> None:
        self._soon = soon
        self._ways = ways
        self._store = store
        self._kept = kept
        self._puts = puts
        self._clock = clock
        self._repair = repair
        self._levels: list[DelayLevel] = []
        self._outlets: dict[int, Outlet] = {}
        """By level; none of them is there while this broker leads."""
        self._damaged_since: dict[int, int] = {}
        self._again_ms = 0
        self._going, self._turn = False, 0
        self._told: dict[str, int] = {}
        self._versioned = 0
        self.delivered = self.parked = 0

    def serves(self) -> dict[int, Served]:
        """Nothing: nobody asks for what is due."""
        return {}

    def mastership_begins(self) -> None:
        """From the places on that the last master handed over, within what the queues hold."""
        known = _places(self._kept.table(RequestCode.GET_ALL_DELAY_OFFSET))
        self._levels = []
        for number in range(1, len(levels_in_force()) + 1):
            low, high = self._store.queue_bounds(SCHEDULE_TOPIC, number - 1)
            self._levels.append(DelayLevel(number, min(max(known.get(number, 0), low), high)))
        self._told = {str(level): place for level, place in known.items()}
        self._outlets = {}
        self._damaged_since.clear()
        self._again_ms = 0

    def mastership_over(self) -> None:
        self._levels, self._outlets = [], {}

    def acting_begins(self) -> None:
        """From the same places on. The order of a level is that in which its messages leave: one
        that is not taken is passed by those behind it (PROTOCOL 7.4).
        """
        if self._ways is None:
            return
        self.mastership_begins()
        self._outlets = {
            one.level: self._ways(f"level {one.level}", Kind.LEVEL) for one in self._levels
        }

    def acting_over(self) -> None:
        if self._outlets:
            self._tell()
            self.mastership_over()

    def _outlet(self, level: DelayLevel) -> Outlet:
        return self._outlets.get(level.level, self._puts)

    def progress(self) -> dict[int, tuple[int, int]]:
        """Level -> (next message to deliver, end of its queue), of levels that were used."""
        places = {one.level: one.next_offset for one in self._levels} or _places(
            self._kept.table(RequestCode.GET_ALL_DELAY_OFFSET)
        )
        found = {}
        for level, place in places.items():
            _, end = self._store.queue_bounds(SCHEDULE_TOPIC, level - 1)
            if end:
                found[level] = (place, end)
        return found

    def tick(self, now_ms: int) -> None:
        if self._levels:
            self._tell()
            if not self._going and now_ms >= self._again_ms:
                self._slice()

    def _slice(self) -> None:
        """Some of what is due; the rest in the next turn of the loop."""
        self._going = False
        wall_ms, before, more = self._clock.wall_ms(), self.delivered, False
        try:
            for _ in range(len(self._levels)):
                self._turn = (self._turn + 1) % len(self._levels)
                more |= self._deliver(self._levels[self._turn], wall_ms)
                if self.delivered - before >= SLICE_MESSAGES:
                    break
        except NotPut as refusal:
            _log.debug("deliveries wait: %s", refusal)
            self._again_ms = self._clock.now_ms() + RETRY_MS
            return
        if more:
            self._going = True
            self._soon(self._slice)

    def _deliver(self, level: DelayLevel, wall_ms: int) -> bool:
        """Whether more of this level may be due. NotPut."""
        queue = self._store.queues.get(SCHEDULE_TOPIC, level.queue_id)
        if queue is None or level.next_offset == queue.max_offset or level.waits(wall_ms):
            return False
        outlet = self._outlet(level)
        if outlet.is_full:
            return False
        if level.unsafe >= UNSAFE_MAX:
            level.safe(outlet.safe_offset)
            return False
        entries = queue.read(level.next_offset, MESSAGES_MAX)
        slots, messages = level.due(entries, wall_ms, queue.max_offset)
        if entries and not messages:
            level.move_to(level.next_offset + slots)
            return slots > 0
        found = self._store.query(
            SCHEDULE_TOPIC, level.queue_id, level.next_offset, max(1, messages)
        )
        if found.status is not GetStatus.FOUND:
            return self._without(level, found.next_offset, found.refused)
        due = list(
            takewhile(
                lambda one: level.is_due(one.queue_offset, one.store_ms, wall_ms),
                decode_messages(found.body),
            )
        )
        if not due:
            return False
        self._put(level, due)
        level.move_to(max(level.next_offset, due[-1].queue_offset + 1))
        return True

    def _put(self, level: DelayLevel, due: list[StoredMessage]) -> None:
        """Copies of these, one behind the other. NotPut: of none."""
        copies: dict[int, MessageFields] = {}
        refused: dict[int, str] = {}
        for waiting in due:
            try:
                copies[waiting.queue_offset] = delivered(waiting)
            except ValueError as error:
                refused[waiting.queue_offset] = str(error)
        results = self._outlet(level).append(list(copies.values()))
        for offset, result in zip(copies, results, strict=True):
            if isinstance(result, RecordError):
                refused[offset] = str(result)
            else:
                level.delivered(offset, result.end_offset)
                self.delivered += 1
        for offset, why in refused.items():
            self._park(level, offset, why)

    def _without(self, level: DelayLevel, next_offset: int, bad: BadRecord | None) -> bool:
        """Nothing can be read at the place of this level; whether it moved on."""
        if bad is not None:
            self._repair(bad, "delivery")
            since = self._damaged_since.setdefault(level.level, self._clock.now_ms())
            if self._clock.now_ms() - since < DAMAGED_WAIT_MS:
                return False
            self._park(level, level.next_offset, bad.reason)
            next_offset = level.next_offset + 1
        self._damaged_since.pop(level.level, None)
        moved = next_offset != level.next_offset
        level.move_to(next_offset)
        return moved

    def _park(self, level: DelayLevel, queue_offset: int, why: str) -> None:
        self.parked += 1
        _log.error(
            "delayed message %d of level %d is not delivered: %s", queue_offset, level.level, why
        )

    def _tell(self) -> None:
        """The table that slaves copy and the disk keeps: safe places only."""
        safe = {str(one.level): one.safe(self._outlet(one).safe_offset) for one in self._levels}
        # a level that was never used stays out
        used = {name: place for name, place in safe.items() if place or name in self._told}
        table = {**self._told, **used}
        if table == self._told:
            return
        self._told = table
        moves = self.delivered - self._versioned >= DELIVERIES_PER_VERSION
        if moves:
            self._versioned = self.delivered
        self._kept.put(
            RequestCode.GET_ALL_DELAY_OFFSET, table, self._clock.wall_ms() if moves else None
        )


def _places(table: object) -> dict[int, int]:
    """Level -> queue offset, of what a file or another master says; what is no such pair is left
    out.
    """
    found = {}
    for level, place in table.items() if isinstance(table, Mapping) else ():
        number = str(level)
        if (
            number.isdigit()
            and type(place) is int
            and 1 <= int(number) <= LEVELS_MAX
            and place >= 0
        ):
            found[int(number)] = place
    return found
