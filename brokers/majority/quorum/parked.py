"""Pushes in front of which something is missing.

Responsible for: limits, order, and how long they wait. Refuses to know: why something is missing.
"""

from __future__ import annotations

from msgspec import Struct

from brokers.majority.wire.messages import PushRequest


class Parked(Struct, frozen=True):
    """`token`: for its answer."""

    token: object
    push: PushRequest
    since_ms: int
    size: int


class ParkedPushes:
    """By first index."""

    def __init__(self, entries_max: int, bytes_max: int) -> None:
        self._entries_max = entries_max
        self._bytes_max = bytes_max
        self._parked: dict[int, Parked] = {}
        self._entries = 0
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, token: object, push: PushRequest, now_ms: int) -> tuple[bool, Parked | None]:
        """(whether there is room; the one with the same first index that it replaces)."""
        size = sum(entry.size for entry in push.entries)
        replaced = self._remove(push.first_index)
        full = self._entries + len(push.entries) > self._entries_max
        if full or self._bytes + size > self._bytes_max:
            return False, replaced
        self._parked[push.first_index] = Parked(token, push, now_ms, size)
        self._entries += len(push.entries)
        self._bytes += size
        return True, replaced

    def next_up_to(self, index: int) -> Parked | None:
        """The first one that begins at `index` or before it, taken out."""
        first = min(self._parked, default=None)
        return None if first is None or first > index else self._remove(first)

    def older_than(self, since_ms: int) -> Parked | None:
        """The first one that waits since before, taken out."""
        old = [first for first, one in self._parked.items() if one.since_ms < since_ms]
        return self._remove(min(old)) if old else None

    def clear(self) -> list[Parked]:
        """All of them, taken out."""
        return [one for first in sorted(self._parked) if (one := self._remove(first)) is not None]

    def _remove(self, first: int) -> Parked | None:
        one = self._parked.pop(first, None)
        if one is not None:
            self._entries -= len(one.push.entries)
            self._bytes -= one.size
        return one
