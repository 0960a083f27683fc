"""Messages that are chosen by what their properties say, among those that a queue has entries of.

Responsible for: which of them a read gives, how many it looks at, where it stops.
Refuses to know: what is asked of properties (`brokers.service.filters`), how bytes are read and
checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from operator import attrgetter
from typing import NamedTuple, Protocol

from brokers.store.log.checked_records import property_text
from brokers.store.log.integrity import BadRecord
from brokers.store.queues.entries import FILLER_SIZE, Entry

# Of messages that one pull looks at.
TESTED_BYTES_MAX = 4 << 20
# Messages that are read together: what a full answer needs, and then more.
TESTED_AT_FIRST, TESTED_TOGETHER = 33, 64
# Comparisons that one pull may ask for: everybody else waits meanwhile. Longer property texts count
# as several.
PARTS_ASKED_MAX = 20_000
TEXT_BYTES_AT_ONCE = 128

_SIZE = attrgetter("size")

Chosen = list[tuple[int, Entry]]
"""Slots and entries."""

Fetch = Callable[[Chosen], tuple[list[memoryview], int, BadRecord | None]]
"""The bytes of the first `count` of them, checked, and why the next one is not among them."""


class Wants(Protocol):
    """A test of messages by their properties; `cost`: about how many comparisons it makes."""

    @property
    def matches(self) -> Callable[[bytes], bool]:
        """Whether a message with this property text is to be given."""
        ...

    @property
    def cost(self) -> int: ...


class Limits(NamedTuple):
    """What a pull may give: (messages, bytes), less of what is not in memory any more."""

    hot: tuple[int, int]
    cold: tuple[int, int]
    cold_below: int

    def at(self, physical_offset: int) -> tuple[int, int]:
        return self.cold if physical_offset < self.cold_below else self.hot


class Candidates:
    """Entries of one queue file whose tags count, a few at a time, `examined` at most.
    `next_offset`: the slot behind the last one that was looked at. `codes` None: all.
    """

    def __init__(
        self,
        read: Callable[[int, int], list[Entry]],
        offset: int,
        examined: int,
        codes: Collection[int] | None,
    ) -> None:
        self._read = read
        self._left = examined
        self._codes = codes
        self.next_offset = offset

    def take(self, count: int) -> Chosen:
        """The next ones, out of `count` entries if some of these are; empty when none is left."""
        codes = self._codes
        while self._left > 0:
            asked = min(count, self._left)
            entries = self._read(self.next_offset, asked)
            found = list(enumerate(entries, self.next_offset))
            self.next_offset += len(entries)
            self._left = self._left - asked if len(entries) == asked else 0
            if codes is not None:
                found = [one for one in found if low_32(one[1].tags_code) in codes]
            if FILLER_SIZE in map(_SIZE, entries):
                found = [one for one in found if one[1].size != FILLER_SIZE]
            if found:
                return found
        return []


class Tested(NamedTuple):
    """What matched, after `count` messages were tested. `stopped`: the first one that was not;
    None when there are no more. `refused`: that one is damaged, and nobody knows whether it
    matches.
    """

    pieces: list[memoryview]
    count: int  # type: ignore[assignment]  # Hides the method of tuples, as in `commit_log`.
    matched: int
    stopped: tuple[int, Entry] | None
    refused: BadRecord | None


def tested(
    fetch: Fetch, first: Chosen, candidates: Candidates, limits: Limits, wants: Wants
) -> Tested:
    """Reads the `first` candidates and then others, and tests them, until an answer is full or
    enough was looked at.
    """
    hot, cold, cold_below = limits
    matches, cost = wants.matches, wants.cost
    pieces: list[memoryview] = []
    count = matched = matched_bytes = tested_bytes = asked = 0
    together, later = first[:TESTED_TOGETHER], first[TESTED_TOGETHER:]
    while together:
        found, read, refused = fetch(together)
        at = data_at = end = 0
        data = b""
        for slot, entry in together[:read]:
            physical, size, _ = entry
            if at == end:
                piece = found.pop(0)
                data, at, end = _bytes(piece), 0, len(piece)
            data_at, at = at, at + size
            tested_bytes += size
            if matched:
                most, most_bytes = hot if physical >= cold_below else cold
                if matched >= most or matched_bytes + size > most_bytes:
                    return Tested(pieces, count, matched, (slot, entry), None)
            text = property_text(data, data_at, at)
            asked += cost * (1 + len(text) // TEXT_BYTES_AT_ONCE)
            if (tested_bytes > TESTED_BYTES_MAX or asked > PARTS_ASKED_MAX) and count:
                return Tested(pieces, count, matched, (slot, entry), None)
            if matches(text):
                pieces.append(piece[data_at:at])
                matched += 1
                matched_bytes += size
            count += 1
        if read < len(together):
            return Tested(pieces, count, matched, together[read], refused)
        together, later = later[:TESTED_TOGETHER], later[TESTED_TOGETHER:]
        if not together:
            few = count < TESTED_TOGETHER
            together = candidates.take(TESTED_AT_FIRST if few else TESTED_TOGETHER)
    return Tested(pieces, count, matched, None, None)


def _bytes(piece: memoryview) -> bytes:
    """Of one that is a whole read the bytes that are there, without a copy."""
    whole = piece.obj
    return whole if type(whole) is bytes and len(whole) == len(piece) else bytes(piece)


def low_32(value: int) -> int:
    """Of a tags code what is compared, signed."""
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000
