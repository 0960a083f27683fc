"""The log of the world: a command topic and an outcome topic of one partition each, on Kafka with
its real failures.

Responsible for: what acks=all promises (an acknowledged record stays, in its place), and what it
does not: appends that wait in a producer and land late, land twice, are purged, or stand in a tail
that a new Kafka leader never had.
Refuses to know: what a record means.
"""

from __future__ import annotations

from collections.abc import Callable

from events.outcomes import Outcome
from tests.simulation.control.lines import Lines, Process
from tests.simulation.world import World

LOG = "log"
SEND_MS = (0, 3)
REPLICATE_MS = (1, 4)
READ_MS = (0, 3)
LATE_READ_MS = (50, 400)
LATE_READ_ONE_IN = 200
LIMBO_MS = (50, 5_000)
RETRY_MS = 25
STALL_MS = 2_000
DELIVERY_MS = 4_000
QUESTION_MS = 1_000
LATE_ANSWER_MS = (100, 900)
BATCH_MAX = 50

Report = Callable[[int | None], None]


class Topics:
    """Records that readers see are durable. `trouble_one_in`: how often something odd happens to
    one append (0: never).
    """

    def __init__(self, world: World, lines: Lines) -> None:
        self.world, self.lines = world, lines
        self.records: list[bytes] = []
        self.outcomes: list[Outcome] = []
        self.leaderless = self.slow = self.outcomes_leaderless = False
        self.trouble_one_in = 0
        self._tail: list[_Append] = []
        self._readers: list[Reader] = []

    def reaches(self, process: Process) -> bool:
        return not self.leaderless and not self.lines.is_apart(process.name, LOG)

    def reaches_outcomes(self, process: Process) -> bool:
        """Their partition has a leader of its own, and may be without one while commands go on."""
        return self.reaches(process) and not self.outcomes_leaderless

    def odd(self) -> bool:
        return bool(self.trouble_one_in) and self.world.one_in(self.trouble_one_in)

    # -- appending ---------------------------------------------------------------------------------

    def append(self, process: Process, data: bytes, report: Report) -> None:
        """As the product's producer: `report(None)` after a while without an acknowledgement; it
        may land all the same.
        """
        _Append(self, process, data, report)

    def arrived(self, append: _Append) -> None:
        """At Kafka's leader, not yet on the others: nobody sees it, and a new leader may not have
        it.
        """
        self._tail.append(append)
        self.world.after(self.world.between(*REPLICATE_MS), self._replicated)

    def _replicated(self) -> None:
        if self.leaderless or self.slow or not self._tail:
            return
        append = self._tail.pop(0)
        offset = len(self.records)
        self.records.append(append.data)
        append.landed(offset)
        for reader in self._readers:
            reader.wake()

    def lose_leader(self) -> None:
        """Kafka's leader is gone: of its tail the next one has some first part."""
        self.leaderless, self.slow = True, False
        kept = self.world.between(0, len(self._tail))
        cut, self._tail = self._tail[kept:], self._tail[:kept]
        for append in cut:
            self.world.count("log.tail_cut")
            append.vanished()

    def have_leader(self) -> None:
        self.leaderless = self.slow = False
        for _ in range(len(self._tail)):
            self._replicated()
        for reader in self._readers:
            reader.wake()

    # -- asking and reading ------------------------------------------------------------------------

    def ask(
        self,
        process: Process,
        question: Callable[[], int],
        answered: Report,
        *,
        of_outcomes: bool = False,
    ) -> None:
        """The answer is true at some moment between question and answer, which may lie far apart;
        None: not learnt.
        """

        def look() -> None:
            if not (self.reaches_outcomes(process) if of_outcomes else self.reaches(process)):
                self.world.count("log.question_lost")
                process.soon(QUESTION_MS, lambda: answered(None))
                return
            found, delay_ms = question(), self.world.between(*SEND_MS)
            if self.odd():
                self.world.count("log.answer_late")
                delay_ms += self.world.between(*LATE_ANSWER_MS)
            process.soon(delay_ms, lambda: answered(found))

        process.soon(self.world.between(*SEND_MS), look)

    def end_offset(self) -> int:
        return len(self.records)

    def newest_published(self) -> int:
        """Of the last record in the topic, which may be a late repeat."""
        return self.outcomes[-1].command_offset if self.outcomes else -1

    def reader(self, process: Process, offset: int, take: Callable[[int, bytes], None]) -> Reader:
        self._readers = [one for one in self._readers if one.alive()]
        self._readers.append(Reader(self, process, offset, take))
        self._readers[-1].wake()
        return self._readers[-1]


class _Append:
    """One record on its way from a producer."""

    def __init__(self, topics: Topics, process: Process, data: bytes, report: Report) -> None:
        self.topics, self.process, self.data, self.report = topics, process, data, report
        self.settled = self.purged = self.sent = False
        self._life = process.life
        process.soon(STALL_MS, self._purge)
        process.soon(DELIVERY_MS, lambda: self._settle(None))
        process.soon(topics.world.between(*SEND_MS), self._send)

    def _send(self) -> None:
        topics, world = self.topics, self.topics.world
        if self.purged:
            return
        if topics.odd():
            # In a socket's buffer, a stuck request handler, a retry: it lands whenever, whoever
            # still waits.
            self.sent = True
            world.count("log.append_late")
            world.after(world.between(*LIMBO_MS), self._from_limbo)
        elif topics.reaches(self.process):
            self.sent = True
            topics.arrived(self)
            if topics.odd():
                world.count("log.append_twice")
                world.after(world.between(*LIMBO_MS), self._from_limbo)
        else:
            self.process.soon(RETRY_MS, self._send)

    def _from_limbo(self) -> None:
        if self.topics.leaderless:
            self.topics.world.count("log.append_lost")
            self._settle_soon(None)
        else:
            self.topics.arrived(self)

    def vanished(self) -> None:
        """Cut with the tail: the producer tries again, or gives up."""
        if self._alive() and self.topics.world.one_in(2):
            self.process.soon(RETRY_MS, self._send)
        else:
            self._settle_soon(None)

    def landed(self, offset: int) -> None:
        if self.topics.odd():
            self.topics.world.count("log.acknowledgement_lost")
        else:
            self._settle_soon(offset)

    def _purge(self) -> None:
        """What was not sent within the time is dropped, so that *unknown* is not followed by an
        append much later.
        """
        if not self.sent:
            self.purged = True
            self.topics.world.count("log.append_purged")
            self._settle(None)

    def _settle_soon(self, offset: int | None) -> None:
        if self._alive():
            self.process.soon(self.topics.world.between(*SEND_MS), lambda: self._settle(offset))

    def _alive(self) -> bool:
        return self.process.up and self.process.life == self._life

    def _settle(self, offset: int | None) -> None:
        if not self.settled:
            self.settled = True
            self.report(offset)


class Reader:
    """One consumer: its own position, its own lag."""

    def __init__(
        self, topics: Topics, process: Process, offset: int, take: Callable[[int, bytes], None]
    ) -> None:
        self.topics, self.process, self.offset, self.take = topics, process, offset, take
        self.life = process.life
        self.stopped = False
        self._scheduled = False

    def alive(self) -> bool:
        return self.process.up and self.process.life == self.life and not self.stopped

    def wake(self) -> None:
        if self._scheduled or self.offset >= len(self.topics.records) or not self.alive():
            return
        world = self.topics.world
        self._scheduled = True
        late = self.topics.trouble_one_in and world.one_in(LATE_READ_ONE_IN)
        self.process.soon(world.between(*(LATE_READ_MS if late else READ_MS)), self._read)

    def _read(self) -> None:
        self._scheduled = False
        if (
            not self.topics.reaches(self.process)
            or self.process.reads_from_ms > self.topics.world.now_ms
        ):
            self._scheduled = True
            self.process.soon(RETRY_MS, self._read)
            return
        for _ in range(BATCH_MAX):
            if self.offset >= len(self.topics.records) or not self.alive():
                return
            offset = self.offset
            self.offset += 1
            self.take(offset, self.topics.records[offset])
        self.wake()
