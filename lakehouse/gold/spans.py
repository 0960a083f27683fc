"""Rows that hold from one offset of the command log until the next one of the same thing.

Responsible for beginning and ending them, also across runs: rows that were open are handed in
again and come out closed. Refuses to know what the rows say.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]
Stretch = tuple[int, int]
"""Beginning and end, ms since 1970-01-01 UTC; the end is not in it."""


class Spans:
    """The spans of many things, each named by the values of `of` in its row.

    Invariants: of one thing at most one span is open, and it has `to_offset` None; the spans of a
    thing do not overlap: one reaches from `from_offset` up to, not including, `to_offset`.
    """

    def __init__(self, of: Sequence[str], open_rows: Iterable[Row] = ()) -> None:
        self._of = tuple(of)
        self._open: dict[tuple[Any, ...], Row] = {}
        self._touched: list[Row] = []
        self._handed_in: set[tuple[Any, ...]] = set()
        for row in open_rows:
            if row["to_offset"] is None:
                self._open[self._key(row)] = dict(row)
                self._handed_in.add(self._key(row))

    def current(self, *key: Any) -> Row | None:
        """The open span of a thing."""
        return self._open.get(key)

    def begin(self, row: Row, offset: int, at_ms: int) -> None:
        """A span with the content of `row` begins; the one before it ends."""
        key = self._key(row)
        self.end(*key, offset=offset, at_ms=at_ms)
        begun = {**row, "from_offset": offset, "from_ms": at_ms, "to_offset": None, "to_ms": None}
        self._open[key] = begun
        self._touched.append(begun)

    def end(self, *key: Any, offset: int, at_ms: int) -> None:
        """The open span of a thing ends, if there is one."""
        row = self._open.pop(key, None)
        if row is None:
            return
        row["to_offset"], row["to_ms"] = offset, at_ms
        if key in self._handed_in:
            self._handed_in.remove(key)
            self._touched.append(row)

    def rows(self) -> list[Row]:
        """What began or ended here, in the order of beginning; a row handed in that is still open
        is left out.
        """
        return sorted(
            self._touched, key=lambda row: (row["from_offset"], *map(str, self._key(row)))
        )

    def _key(self, row: Row) -> tuple[Any, ...]:
        return tuple(row[name] for name in self._of)


def union(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Each moment once, ascending: stretches that overlap or touch are one."""
    found: list[Stretch] = []
    for start, end in sorted(stretches):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def within(stretches: Iterable[Stretch], service: Sequence[Stretch]) -> list[Stretch]:
    """The union of the stretches, as far as it lies in the time of service; both ascending."""
    clipped = [
        (max(start, low), min(end, high))
        for start, end in stretches
        for low, high in service
        if max(start, low) < min(end, high)
    ]
    return union(clipped)


def without(stretches: Iterable[Stretch], others: Sequence[Stretch]) -> list[Stretch]:
    """What is left of them; the others ascending, apart."""
    left = list(stretches)
    for low, high in others:
        left = [
            part
            for start, end in left
            for part in ((start, min(end, low)), (max(start, high), end))
            if part[0] < part[1]
        ]
    return left
