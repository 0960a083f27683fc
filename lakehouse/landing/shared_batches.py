"""What the first query has read lately, for the other one.

Both queries take the same records. The second one is always behind the first: what lies between
them is kept here, so that the log is read once.
Responsible for giving back exactly the records of a stretch, or nothing. Refuses to know what
becomes of them. Safe to call from the threads of both queries.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.landing.batches import in_log_order
from lakehouse.landing.refill import Stretches
from lakehouse.tables.high_water import Partition

KEPT_BYTES_MAX = 128 << 20
"""Of records between the two queries; a query that is further behind reads the log itself."""
LOOK_EVERY_S = 0.1
"""Whether to give up."""


class SharedBatches:
    """Batches of the first query, newest last.

    Invariants: of each partition it holds every record that the log gave from the kept beginning
    to the kept end, once.
    """

    def __init__(
        self, next_of: Callable[[Partition], int], bytes_max: int = KEPT_BYTES_MAX
    ) -> None:
        """`next_of`: the offset that the first query goes on with in a partition."""
        self._next_of, self._bytes_max = next_of, bytes_max
        self._changed = threading.Condition()
        self._kept: deque[tuple[pa.Table, Stretches]] = deque()
        self._bytes = 0
        self._held: dict[Partition, tuple[int, int]] = {}

    def put(self, rows: pa.Table, places: Stretches) -> None:
        """Keep what the first query landed: these stretches, whole as the log gave them."""
        with self._changed:
            if any(self._of(place)[1] != start for place, (start, _) in places.items()):
                # It began anew somewhere: what was kept is no beginning of this.
                self._kept.clear()
                self._bytes = 0
                self._held = {place: (end, end) for place, (_, end) in self._held.items()}
                self._held.update({place: (start, start) for place, (start, _) in places.items()})
            for place, (_, end) in places.items():
                self._held[place] = (self._of(place)[0], end)
            self._kept.append((rows, places))
            self._bytes += rows.nbytes
            while self._bytes > self._bytes_max:
                self._drop_oldest()
            self._changed.notify_all()

    def take(
        self, wanted: Stretches, within_s: float, given_up: Callable[[], bool] = lambda: False
    ) -> pa.Table | None:
        """The records of these stretches in log order, as soon as the first query has landed all of
        them; None when it does not within so many seconds, or when some are no longer here.
        """
        deadline = time.monotonic() + within_s
        with self._changed:
            while not self._reaches(wanted):
                left_s = deadline - time.monotonic()
                if left_s <= 0 or given_up() or not self._has_beginning(wanted):
                    return None
                self._changed.wait(min(left_s, LOOK_EVERY_S))
            if not self._has_beginning(wanted):
                return None
            kept = [rows for rows, _ in self._kept]
        found = [part for rows in kept if (part := _of(rows, wanted)).num_rows]
        return in_log_order(pa.concat_tables(found)) if found else None

    def forget(self, finished: Callable[[Partition], int]) -> None:
        """The other query has finished what is up to these offsets."""
        with self._changed:
            while self._kept and all(
                end <= finished(place) + 1 for place, (_, end) in self._kept[0][1].items()
            ):
                self._drop_oldest()

    def _of(self, place: Partition) -> tuple[int, int]:
        if place not in self._held:
            start = self._next_of(place)
            self._held[place] = (start, start)
        return self._held[place]

    def _reaches(self, wanted: Stretches) -> bool:
        return all(end <= self._of(place)[1] for place, (_, end) in wanted.items())

    def _has_beginning(self, wanted: Stretches) -> bool:
        return all(start >= self._of(place)[0] for place, (start, _) in wanted.items())

    def _drop_oldest(self) -> None:
        rows, places = self._kept.popleft()
        self._bytes -= rows.nbytes
        for place, (_, end) in places.items():
            self._held[place] = (max(self._held[place][0], end), self._held[place][1])


def _of(rows: pa.Table, wanted: Stretches) -> pa.Table:
    masks = [
        pc.and_(
            pc.and_(pc.equal(rows["topic"], topic), pc.equal(rows["partition"], number)),
            pc.and_(pc.greater_equal(rows["offset"], start), pc.less(rows["offset"], end)),
        )
        for (topic, number), (start, end) in wanted.items()
    ]
    mask = masks[0]
    for one in masks[1:]:
        mask = pc.or_(mask, one)
    return rows.filter(mask)
