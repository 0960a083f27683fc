"""Entries of a consume queue as bytes.

Responsible for: broker-wire-and-storage.md 3.5, one entry. Refuses to know: files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

ENTRY_BYTES = 20
FILLER_SIZE = 0x7FFFFFFF
# A replicated message may jump this far ahead in its queue; more means the log is not what it says it is.
GAP_ENTRIES_MAX = 10_000_000
# So many damaged entries in a row are seen through.
DAMAGED_RUN_MAX = 16
# Entries of a page of memory and a few more: what a lost write damages at once, and a cut sees through.
PAGE_ENTRIES = 4096 // ENTRY_BYTES + 4
# Beyond it the byte offset no longer fits a file name.
SLOT_MAX = 10**18

ENTRY = struct.Struct(">qiq")
# What stands where a queue has no message of this log.
FILLER = ENTRY.pack(0, FILLER_SIZE, 0)

pack_entry = ENTRY.pack


class Entry(NamedTuple):
    """Where a message lies: offset and size in bytes, and its tags code."""

    physical_offset: int
    size: int
    tags_code: int


# From the three fields, at a third of the price of a call with each: a pull reads dozens.
entry_of: Callable[[tuple[int, ...]], Entry] = partial(tuple.__new__, Entry)  # type: ignore[arg-type, assignment]


def is_kept(entry: Entry, log_min_offset: int) -> bool:
    """Whether it points to a message that the log still has."""
    return entry.size != FILLER_SIZE and entry.physical_offset >= log_min_offset


def is_deleted(entry: Entry, log_min_offset: int) -> bool:
    """Whether it says of a message that it is gone. What cannot be an entry, or is all zeros, says nothing."""
    physical, size, _ = entry
    return 0 <= size != FILLER_SIZE and 0 <= physical < log_min_offset and (physical, size) != (0, 0)


Read = Callable[[int, int], list[Entry]]


def first_where(read: Read, low: int, high: int, predicate: Callable[[Entry], bool]) -> int:
    """Lowest slot of [low, high) whose entry fulfils `predicate` (false before, true from there on); `high` when none.
    `read(slot, count)`: entries from a slot on."""
    while low < high:
        middle = (low + high) // 2
        entries = read(middle, 1)
        if entries and predicate(entries[0]):
            high = middle
        else:
            low = middle + 1
    return low


def first_kept(read: Read, first: int, end: int, log_min_offset: int) -> int:
    """Slot of the first entry whose message the log still has; `end` when there is none.

    A damaged entry may look like one of a deleted message; it must not hide those in front of it, which say the contrary.
    """
    while True:
        slot = first_where(read, first, end, lambda entry: is_kept(entry, log_min_offset))
        before = range(max(first, slot - DAMAGED_RUN_MAX - 1), slot)
        end = next((one for one in before if any(is_kept(entry, log_min_offset) for entry in read(one, 1))), -1)
        if end < 0:
            return slot


def stretch(read: Read, low: int, high: int) -> list[Entry]:
    """The entries of [low, high), over the borders of files."""
    entries: list[Entry] = []
    while low + len(entries) < high and (more := read(low + len(entries), high - low - len(entries))):
        entries += more
    return entries


def reaches(entries: Sequence[Entry], physical_offset: int) -> bool:
    """Whether one of them points at or beyond it; filler points nowhere."""
    return any(physical >= physical_offset and size != FILLER_SIZE for physical, size, _ in entries)


def first_cut(read: Read, first: int, end: int, physical_offset: int, leads: Callable[[int], object]) -> int:
    """Lowest slot of [first, end) behind every entry of a message below `physical_offset`; `end` when there is no other.

    `leads(slot)`: whether the log has the message that the entry of a slot speaks of. Only such entries are believed where it
    matters: a damaged one in front of the border may point beyond it, one behind it to anywhere below.
    """
    low = first
    while True:
        slot = first_where(read, low, end, lambda entry: entry.physical_offset >= physical_offset)
        behind = _last_below(read, slot, min(slot + PAGE_ENTRIES, end), physical_offset, leads)
        if behind is None:
            break
        low = behind + 1
    before = _last_below(read, max(low, slot - PAGE_ENTRIES), slot, physical_offset, leads)
    if before is not None:
        return before + 1
    return slot if low == first else low  # nothing is known of those in front: filler, or their messages are deleted


def _last_below(read: Read, low: int, high: int, physical_offset: int, leads: Callable[[int], object]) -> int | None:
    """Newest slot of [low, high) whose entry leads to a message below `physical_offset`."""
    entries = stretch(read, low, high)
    for number in range(len(entries) - 1, -1, -1):
        if 0 <= entries[number].physical_offset < physical_offset and leads(low + number):
            return low + number
    return None
