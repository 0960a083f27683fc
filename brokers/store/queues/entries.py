"""Entries of a consume queue as bytes.

Responsible for: PROTOCOL 3.5, one entry. Refuses to know: files.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

ENTRY_BYTES = 20
FILLER_SIZE = 0x7FFFFFFF
# A replicated message may jump this far ahead in its queue; more means the log is not what it says
# it is.
GAP_ENTRIES_MAX = 10_000_000
# Damaged entries in a row that a search sees through.
DAMAGED_RUN_MAX = 16
# Entries of a page of memory and a few more: what a lost write damages at once, and a cut sees
# through.
PAGE_ENTRIES = 4096 // ENTRY_BYTES + 4
# Entries of a row of filler that one read covers.
FILLER_AT_ONCE = 4096
# Beyond every log.
NOWHERE = 1 << 62
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
entry_of: Callable[[tuple[int, ...]], Entry] = partial(tuple.__new__, Entry)


def is_kept(entry: Entry, log_min_offset: int) -> bool:
    """Whether it points to a message that the log still has."""
    return entry.size != FILLER_SIZE and entry.physical_offset >= log_min_offset


def is_deleted(entry: Entry, log_min_offset: int) -> bool:
    """Whether it says of a message that it is gone. What cannot be an entry, or is all zeros, says
    nothing.
    """
    physical, size, _ = entry
    return (
        0 <= size != FILLER_SIZE and 0 <= physical < log_min_offset and (physical, size) != (0, 0)
    )


Read = Callable[[int, int], list[Entry]]


def is_filler(entry: Entry) -> bool:
    """Whether it stands where the queue has no message of this log."""
    return entry.size == FILLER_SIZE


def first_where(
    read: Read,
    low: int,
    high: int,
    predicate: Callable[[Entry], bool],
    mute: Callable[[Entry], bool] = is_filler,
) -> int:
    """Lowest slot of [low, high) whose entry fulfils `predicate` (false before, true from there
    on); `high` when none.

    A `mute` entry counts as the one behind it, and at the end as one that fulfils it. `read(slot,
    count)`: entries from a slot on.
    """
    while low < high:
        middle = (low + high) // 2
        # what stands at `high` fulfils it, or nothing stands there
        at = behind_mute(read, middle, high, mute)
        entries = read(at, 1) if at < high else []
        if at >= high or (entries and predicate(entries[0])):
            high = middle
        else:
            low = at + 1
    return low


def behind_mute(read: Read, slot: int, end: int, mute: Callable[[Entry], bool] = is_filler) -> int:
    """The first slot from `slot` on that is not `mute`, `end` when there is none. Each is looked
    at: behind one row of filler another may follow, and what lies between must not be passed over.
    """
    count = 1
    while slot < end:
        entries = read(slot, min(count, end - slot))
        found = next((number for number, entry in enumerate(entries) if not mute(entry)), None)
        if found is not None or not entries:
            return slot + (found or 0)
        slot, count = slot + len(entries), min(4 * count, FILLER_AT_ONCE)
    return end


def first_kept(read: Read, first: int, end: int, log_min_offset: int) -> int:
    """Slot of the first entry whose message the log still has; `end` when there is none.

    A damaged entry may look like one of a deleted message; it must not hide those in front of it,
    which say the contrary. One that says nothing, as filler does of which a loss of power left
    zeros, hides none either.
    """

    def mute(entry: Entry) -> bool:
        return is_filler(entry) or not (
            entry.physical_offset >= log_min_offset or is_deleted(entry, log_min_offset)
        )

    behind = end
    while True:
        slot = first_where(read, first, end, lambda entry: is_kept(entry, log_min_offset), mute)
        before = range(max(first, slot - DAMAGED_RUN_MAX - 1), slot)
        end = next(
            (
                one
                for one in before
                if any(is_kept(entry, log_min_offset) for entry in read(one, 1))
            ),
            -1,
        )
        if end < 0:
            return slot if slot >= behind else behind_mute(read, slot, behind)


def stretch(read: Read, low: int, high: int) -> list[Entry]:
    """The entries of [low, high), over the borders of files."""
    entries: list[Entry] = []
    while low + len(entries) < high and (
        more := read(low + len(entries), high - low - len(entries))
    ):
        entries += more
    return entries


def reaches(entries: Sequence[Entry], physical_offset: int) -> bool:
    """Whether one of them points at or beyond it; filler points nowhere."""
    return any(physical >= physical_offset and size != FILLER_SIZE for physical, size, _ in entries)


def first_cut(
    read: Read, first: int, end: int, physical_offset: int, leads: Callable[[int], object]
) -> int:
    """Lowest slot of [first, end) behind every entry of a message below `physical_offset`; `end`
    when there is no other.

    `leads(slot)`: whether the log has the message that the entry of a slot speaks of. Only such
    entries are believed where it matters: a damaged one in front of the border may point beyond it,
    one behind it to anywhere below.
    """
    low = first
    while True:
        slot = first_where(read, low, end, lambda entry: entry.physical_offset >= physical_offset)
        behind = _last_below(read, slot, min(slot + PAGE_ENTRIES, end), physical_offset, leads)
        if behind is None:
            break
        low = behind + 1
    before = _last_below(read, max(low, slot - PAGE_ENTRIES), slot, physical_offset, leads)
    # of those in front nothing is known: filler, or their messages are deleted
    if before is not None or low > first:
        return _behind_ordered(read, low if before is None else before + 1, slot, physical_offset)
    # filler says where the queue begins
    while slot < end and (entries := read(slot, PAGE_ENTRIES)):
        filled = next(
            (number for number, entry in enumerate(entries) if entry.size != FILLER_SIZE),
            len(entries),
        )
        slot += filled
        if filled < len(entries):
            break
    return min(slot, end)


def _behind_ordered(read: Read, low: int, end: int, physical_offset: int) -> int:
    """The slot behind the last entry of [low, end) that leads to a place below the cut, in order:
    its message may be damaged, and a slot that was given stays taken. `low` when there is none.
    """
    behind = low
    newest = max(
        (physical for physical, size, _ in read(low - 1, 1) if 0 < size != FILLER_SIZE), default=-1
    )
    for slot, (physical, size, _) in enumerate(stretch(read, low, end), low):
        if 0 < size != FILLER_SIZE and newest < physical < physical_offset:
            behind, newest = slot + 1, physical
    return behind


def unknown_behind(read: Read, slot: int, end: int, physical_offset: int) -> int:
    """How many entries from `slot` on, where a cut at `physical_offset` would end the queue, may be
    damaged ones of messages in front of it: up to the first that leads behind the cut in order.
    """
    entries = stretch(read, slot, min(slot + DAMAGED_RUN_MAX + 1, end))
    for number, (physical, size, _) in enumerate(entries):
        following = entries[number + 1].physical_offset if number + 1 < len(entries) else NOWHERE
        if physical_offset <= physical < following and 0 < size != FILLER_SIZE:
            return number
    return 0


class Kept(NamedTuple):
    """Entries in front of slot `end` stay. `lacks_from`: messages from this place of the log on may
    have lost theirs, although they were durable; None: none has.
    """

    end: int
    lacks_from: int | None


def kept_below(read: Read, first: int, end: int, physical_offset: int) -> Kept:
    """What stays of [first, end) when only entries of messages below `physical_offset` are known to
    be durable.

    That is everything up to the last of these, whatever is damaged in between: behind it nobody
    would make it again. Read from the end, so that it costs what does not stay.
    """
    filled, behind, newest = first, first, -1
    for slot, (physical, size, _) in _from_the_end(read, first, end):
        if newest >= 0 and (
            size == FILLER_SIZE or (0 <= physical < newest and (physical > 0 or size > 0))
        ):
            # in order with the one before it: an entry that lost its first bytes points too far to
            # the front
            break
        if size == FILLER_SIZE:
            filled = max(filled, slot + 1)
        elif size > 0 and 0 <= physical < physical_offset:
            behind, newest = slot + 1, physical
    kept = max(filled, behind)
    lost = kept < end and not any(physical > 0 or size > 0 for physical, size, _ in read(kept, 1))
    return Kept(kept, max(newest, 0) if lost else None)


def place_before(read: Read, first: int, slot: int) -> int:
    """Place in the log of the newest message with an entry in [first, slot); 0 without."""
    entries = (entry for _, entry in _from_the_end(read, first, slot))
    return next(
        (physical for physical, size, _ in entries if 0 < size != FILLER_SIZE and physical >= 0), 0
    )


def merged(there: bytes | bytearray, others: bytes | bytearray) -> bytes:
    """The entries that are `there`, and where none is, those of `others` for the same slots."""
    pairs = zip(
        ENTRY.iter_unpack(there.ljust(len(others), b"\0")), ENTRY.iter_unpack(others), strict=True
    )
    return b"".join(ENTRY.pack(*(other if old[1] <= 0 else old)) for old, other in pairs)


def _from_the_end(read: Read, first: int, end: int) -> Iterator[tuple[int, Entry]]:
    high = end
    while high > first:
        low = max(first, high - PAGE_ENTRIES)
        yield from reversed(list(enumerate(stretch(read, low, high), low)))
        high = low


def _last_below(
    read: Read, low: int, high: int, physical_offset: int, leads: Callable[[int], object]
) -> int | None:
    """Newest slot of [low, high) whose entry leads to a message below `physical_offset`."""
    entries = stretch(read, low, high)
    for number in range(len(entries) - 1, -1, -1):
        if 0 <= entries[number].physical_offset < physical_offset and leads(low + number):
            return low + number
    return None
