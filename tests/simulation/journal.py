"""The command log of the world: a total order with delays, ambiguous answers and appends that land
late.

Responsible for: what a Kafka partition with acks=all promises, and what it does not.
Refuses to know: what a record means.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.network import Node
from tests.simulation.world import World

APPEND_MS = (1, 6)
STALL_MS = (200, 4_000)
READ_MS = (0, 3)


class Journal:
    """One partition. Acknowledged records never vanish; an unacknowledged one may land any time, or
    never.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.records: list[bytes] = []
        self.stalled = self.outcomes_stalled = False
        self.stall_one_in = 0
        self._readers: list[Reader] = []

    def append(self, node: Node, data: bytes, answered: Callable[[int], None]) -> None:
        """Append; `answered(offset)` may never come, and may come long after the caller gave up."""
        life, chance = node.life, self.world.chance
        delay_ms = chance.randint(*APPEND_MS)
        if self.stalled or self.strikes():
            self.world.count("journal.append_late")
            delay_ms += chance.randint(*STALL_MS)
            if chance.randrange(4) == 0:
                self.world.count("journal.append_lost")
                return
        lose_answer, twice, log = self.strikes(), self.strikes(), self.records

        def land() -> None:
            if log is not self.records:
                return
            offset = len(self.records)
            self.records.append(data)
            for reader in self._readers:
                reader.wake()
            if lose_answer:
                self.world.count("journal.answer_lost")
                return
            self.world.after(
                chance.randint(*READ_MS),
                lambda: answered(offset) if node.up and node.life == life else None,
            )

        self.world.after(delay_ms, land)
        if twice:
            self.world.count("journal.append_twice")
            self.world.after(delay_ms + chance.randint(*STALL_MS), self._land_again(data))

    def strikes(self) -> bool:
        """The log is in trouble just now."""
        return bool(self.stall_one_in) and self.world.one_in(self.stall_one_in)

    def _land_again(self, data: bytes) -> Callable[[], None]:
        """A producer that gave up and tried anew, while its first attempt had landed."""

        log = self.records

        def land() -> None:
            if log is not self.records:
                return
            self.records.append(data)
            for reader in self._readers:
                reader.wake()

        return land

    def lose_from(self, offset: int) -> None:
        """The log is made anew from its first records; what was on its way into the old one lands
        nowhere. Nobody may be reading.
        """
        assert not any(reader.alive() for reader in self._readers)
        self.records = self.records[:offset]

    def end_offset(self) -> int:
        return len(self.records)

    def reader(self, node: Node, offset: int, deliver: Callable[[int, bytes], None]) -> Reader:
        """Deliver every record from `offset` on, in order, to this life of the node."""
        self._readers = [reader for reader in self._readers if reader.alive()]
        reader = Reader(self, node, offset, deliver)
        self._readers.append(reader)
        reader.wake()
        return reader


class Reader:
    """One consumer: its own position, its own lag."""

    def __init__(
        self, journal: Journal, node: Node, offset: int, deliver: Callable[[int, bytes], None]
    ) -> None:
        self.journal = journal
        self.node = node
        self.life = node.life
        self.offset = offset
        self.deliver = deliver
        self._scheduled = False

    def alive(self) -> bool:
        return self.node.up and self.node.life == self.life

    def wake(self) -> None:
        if self._scheduled or not self.alive() or self.offset >= len(self.journal.records):
            return
        self._scheduled = True
        self.journal.world.after(self.journal.world.between(*READ_MS), self._read)

    def _read(self) -> None:
        self._scheduled = False
        if not self.alive():
            return
        if self.node.paused or self.journal.stalled:
            self._scheduled = True
            self.journal.world.after(20, self._read)
            return
        if self.offset < len(self.journal.records):
            offset = self.offset
            self.offset += 1
            self.deliver(offset, self.journal.records[offset])
        self.wake()
