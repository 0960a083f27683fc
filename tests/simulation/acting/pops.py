"""Pops in a world: one queue that is popped, check points and acknowledgements that wait in a wheel
for their time, a revive queue, and a reviver by the product's rules (`popping.matching`).

Responsible for: what a master stores, what a slave that acts sends away, in the product's order.
Refuses to know: who acts, and whether anything is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokers.acting.forms import Kind
from brokers.service.escape.awaited import NOTED_MS
from brokers.service.popping.matching import OpenPoints
from brokers.service.popping.records import CHECK_POINT_EARLIER_MS, Ack, CheckPoint, Key
from brokers.store.log.records import MessageFields, host_bytes

if TYPE_CHECKING:
    from tests.simulation.acting.broker import Broker

Record = CheckPoint | Ack
Reply = Callable[[CheckPoint | bool | None], None]

SET, TOPIC, GROUP = "broker-a", "P", "g2"
POPPED, REVIVED, WHEEL = (f"{TOPIC}@{GROUP}", 0), ("revive@CID", 0), ("", 2)
"""Keys of places: of the group, of the revive queue, of the wheel."""
INVISIBLE_MS, POPPED_MAX = 6_000, 4
AWAY = MessageFields("rmq_sys_REVIVE_LOG_c1", 0, b"r", b"", 0, *[host_bytes("10.0.0.2", 10911)] * 2)


@dataclass(slots=True)
class Stored:
    """On a disk: when each message was produced, records with their times, and the revive queue."""

    messages: list[int] = field(default_factory=list)
    wheel: list[tuple[int, Record]] = field(default_factory=list)
    revive: list[Record] = field(default_factory=list)

    def wait(self, record: Record, visible_ms: int) -> None:
        early_ms = CHECK_POINT_EARLIER_MS if isinstance(record, CheckPoint) else 0
        self.wheel.append((visible_ms - early_ms, record))

    def behind(self, other: Stored) -> Stored:
        """What `other` has more."""
        mine = len(self.messages), len(self.wheel), len(self.revive)
        return Stored(other.messages[mine[0] :], other.wheel[mine[1] :], other.revive[mine[2] :])

    def add(self, more: Stored) -> None:
        self.messages += more.messages
        self.wheel += more.wheel
        self.revive += more.revive


class Reviver:
    """`done`: indices of the wheel that came out in this process, and the number under which each
    left, -1 where it did not leave. `place`: of the first that may not have come out, as told.
    """

    def __init__(self, stored: Stored, place: int, processed: int) -> None:
        self.stored = stored
        self.points = OpenPoints(processed, processed - 1)
        self.done: dict[int, int] = {}
        self._safe = place
        self._first = place  # the first of the wheel that did not come out
        self._here: dict[Key, set[tuple[int, int]]] | None = None

    def due(self, now_ms: int) -> Iterator[tuple[int, Record]]:
        """Records whose time has come, in its order."""
        waiting = [one for one in self._waiting() if one[0] <= now_ms]
        for _, index, record in sorted(waiting, key=lambda one: one[:2]):
            yield index, record

    def _waiting(self) -> list[tuple[int, int, Record]]:
        wheel = self.stored.wheel
        while self._first < len(wheel) and self._first in self.done:
            self._first += 1
        return [
            (wheel[index][0], index, wheel[index][1])
            for index in range(self._first, len(wheel))
            if index not in self.done
        ]

    def read(self, now_ms: int) -> None:
        """All of the revive queue; what was to come before `until` is in it."""
        points = self.points
        while points.next_offset < len(self.stored.revive):
            record = self.stored.revive[points.next_offset]
            if isinstance(record, CheckPoint):
                points.check_point(record, points.next_offset)
            else:
                points.ack(record)
            points.next_offset += 1
        waits = [one[0] for one in self._waiting()]
        points.read_until(min(now_ms, *waits) if waits else now_ms)

    def is_here(self, record: Record) -> bool:
        """As `ReviveService.leaving`."""
        if self._here is None:
            self._here = self.points.names()
        if isinstance(record, CheckPoint):
            known = self._here.get(record.key, set())
            return all((record.re_puts, offset) in known for offset in record.offsets)
        return self.points.ack(record) or record.key in self._here

    def place(self, safe: int) -> int:
        """The first of the wheel that is not done; `safe`: numbers in front of it were taken."""
        while self._safe < len(self.stored.wheel) and self.done.get(self._safe, safe) < safe:
            self._safe += 1
        return self._safe


class Pops:
    """Of one broker of the set."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.net = broker, broker.net
        self.stored = Stored()
        self.start()

    def start(self) -> None:
        """A new process."""
        self.reviver: Reviver | None = None
        self.leaving: dict[tuple[str, int], Record | int] = {}
        self._copies = self._left = self._awaited = 0
        self._busy = False

    def begins(self) -> None:
        places = self.broker.offsets.places, self.broker.delays.places
        self.reviver = Reviver(self.stored, places[1][WHEEL], places[0][REVIVED])
        self.leaving.clear()
        self._copies = self._left = 0
        self._busy = False

    def ends(self) -> None:
        """Behind the last places."""
        if self.reviver is not None:
            self._tell()
            self.reviver = None
            self._busy = False

    # -- what is due -------------------------------------------------------------------------------

    def turn(self, now_ms: int) -> None:
        reviver, broker = self.reviver, self.broker
        if reviver is None:
            return
        reviver.read(now_ms)
        for index, record in reviver.due(now_ms):
            if not broker.number:
                self.stored.revive.append(record)
                reviver.done[index] = -1
            elif reviver.is_here(record):
                reviver.done[index] = -1
            elif broker.escape.offer("wheel", self._left, Kind.TIMER, AWAY):
                self.leaving["wheel", self._left] = record
                reviver.done[index] = self._left
                self._left += 1
            else:
                break
        reviver.read(now_ms)
        while (known := reviver.points.due(now_ms)) is not None:
            if broker.number and not broker.escape.has_room("revival", POPPED_MAX):
                break
            end = 0
            for offset in known.left:
                if not broker.number:
                    broker.world.came_again(offset)
                elif broker.escape.offer("revival", self._copies, Kind.RETRY, AWAY):
                    self.leaving["revival", self._copies] = offset
                    self._copies += 1
                    end = self._copies
            reviver.points.settle(known, end)
        self._tell()

    def _tell(self) -> None:
        assert self.reviver is not None
        escape = self.broker.escape
        safe = escape.safe("revival", self._copies) if self.broker.number else 0
        self.broker.goes_on(REVIVED, self.reviver.points.safe(safe) + 1)
        safe = escape.safe("wheel", self._left) if self.broker.number else 0
        self.broker.goes_on(WHEEL, self.reviver.place(safe))

    # -- clients -----------------------------------------------------------------------------------

    def pop(self, reply: Reply) -> None:
        """The check point of what is handed out; None: nothing."""
        broker, now_ms = self.broker, self.net.now_ms
        place = broker.offsets.places[POPPED]
        offsets = tuple(range(place, min(place + POPPED_MAX, len(self.stored.messages))))
        if not offsets or self._busy:
            reply(None)
            return
        point = CheckPoint(Key(TOPIC, GROUP, 0, place, now_ms, SET), INVISIBLE_MS, offsets)

        def noted(taken: bool) -> None:
            self._busy = False
            if taken:
                broker.goes_on(POPPED, offsets[-1] + 1)
            reply(point if taken else None)

        self._busy = True
        self._note(point, point.visible_ms, noted, withdraws=True)

    def ack(self, point: CheckPoint, offset: int, reply: Reply) -> None:
        self._note(Ack(point.key, (offset,)), point.visible_ms, reply, withdraws=False)

    def change(self, point: CheckPoint, offset: int, reply: Reply) -> None:
        """The new check point first: of both, only the acknowledgement may be lost."""
        popped_ms = max(self.net.now_ms, point.key.pop_ms + 1)
        key = Key(TOPIC, GROUP, 0, offset, popped_ms, SET)
        fresh = CheckPoint(key, INVISIBLE_MS, (offset,))

        def noted(taken: bool) -> None:
            if taken:
                self.ack(point, offset, lambda done: reply(fresh if done else None))
            else:
                reply(None)

        self._note(fresh, fresh.visible_ms, noted, withdraws=True)

    def _note(
        self, record: Record, visible_ms: int, then: Callable[[bool], None], *, withdraws: bool
    ) -> None:
        """As `PopTerms.note` and `note_away` do."""
        broker, reviver = self.broker, self.reviver
        if not broker.number:
            self.stored.wait(record, visible_ms)
            then(True)
        elif reviver is None or broker.escape.holds:
            then(False)
        elif not withdraws and reviver.is_here(record):
            then(True)
        else:
            self._note_away(record, then, withdraws=withdraws)

    def _note_away(self, record: Record, then: Callable[[bool], None], *, withdraws: bool) -> None:
        self._awaited += 1
        source, life, told = f"awaited {self._awaited}", self.broker.life, [False]

        def once(taken: bool) -> None:
            if not told[0]:
                told[0] = True
                then(taken)

        def too_late() -> None:
            if self.broker.up and self.broker.life == life and not told[0]:
                if withdraws:
                    self.broker.escape.withdraw(source)
                once(False)

        self.leaving[source, 0] = record
        if self.broker.escape.offer(source, 0, Kind.REVIVAL, AWAY, once):
            self.net.at(self.net.now_ms + NOTED_MS, too_late)
        else:
            once(False)
