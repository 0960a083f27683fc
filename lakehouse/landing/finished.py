"""How far each of the two queries is: what lies below has become rows of all of its tables.

A table's own last row says this of that table only, and only if nothing is put behind rows that are
still to come: so a record that is read again (`quarantine`) waits until its query has gone by.
Responsible for knowing which query owns a table and how far it is. Refuses to know who tells it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from events.topics import KEPT_FOR_EVER
from lakehouse.landing.batches import DECIDED
from lakehouse.tables.high_water import HighWater, Partition, check_no_hole

FIRST, DETAILS = "first", "details"
"""Names of the two queries, and of their checkpoints."""


class Finished:
    """The last offset of each partition that a query has finished.

    Invariants: it only grows; a partition that nobody told of has nothing finished.
    """

    def __init__(self, told: Mapping[str, Mapping[str, int]] | None = None) -> None:
        """`told`: by query, the next offset of each `topic-partition`, as a checkpoint has it."""
        self._marks = {name: HighWater() for name in (FIRST, DETAILS)}
        for query, ends in (told or {}).items():
            places = ((name.rpartition("-"), end) for name, end in ends.items())
            self.raise_to(
                query, {(topic, int(number)): end - 1 for (topic, _, number), end in places}
            )

    def raise_to(self, query: str, last: Mapping[Partition, int]) -> None:
        """All of its tables have these records, and all below."""
        self._marks[query].raise_to(last.items())

    def of(self, query: str, place: Partition) -> int:
        """The last offset that the query has finished, -1 if none."""
        return self._marks[query].of(place)

    def in_silver(self, place: Partition) -> int:
        """The last offset that every silver table of the partition has gone by, -1 if none."""
        owners = [DETAILS] if place[0] not in (DECIDED.topics or ()) else [FIRST, DETAILS]
        return min(self.of(query, place) for query in owners)

    def covers(self, table: str, place: Partition, offset: int) -> bool:
        """Whether the query that owns the table has gone by this record."""
        query = FIRST if DECIDED.takes(place[0], table) else DETAILS
        return offset <= self._marks[query].of(place)

    def require_no_hole(self, query: str, positions: Mapping[Partition, Iterable[int]]) -> None:
        """Raises `LandingGap` when the query would step over a record: its tables would lack it,
        and nothing would say so.
        """
        for place, offsets in positions.items():
            mark = self._marks[query].of(place)
            check_no_hole(mark, place, offsets, from_zero=place[0] in KEPT_FOR_EVER)
