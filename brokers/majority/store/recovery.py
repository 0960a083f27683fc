"""Where a majority log ends when it is opened, and what of it is missing.

Responsible for: PROTOCOL 9.5: where reading begins, that the index agrees with the data, telling an
end from damage, the cut. Refuses to know: files, who asks for the log.

A log ends at its first entry that is not good. If that one was on the disk before, or was written
and the machine has not lost its power since, this is damage: what is cut then is owed.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from brokers.majority.entry import BEGIN, EMPTY, NONE, Link, Place
from brokers.majority.store.index import EntryIndex
from brokers.majority.store.layout import INDEX_RECORD_BYTES, agrees, encode_index_record
from brokers.majority.store.marks import Marks
from brokers.majority.store.walk import EntryWalk, entry_at
from brokers.store.log.commit_log import CommitLog

# Entries in front of the last durable one whose checksums a start looks at all the same.
CHECKED_BYTES = 64 << 20
# Without a mark of ours reading begins where Java does: at the third-last file, or before it.
FILES_READ = 3
RECORDS_AT_ONCE = 2_048


class Found(Struct, frozen=True, gc=False):
    """What a start found. `link` chains the next entry. `read_from`: position of the first entry
    looked at; `entries` so many were good. `index_from`: index records from here on were made
    again, -1 for none. `cut_bytes` behind the end were in use. `stopped_at`: why reading ended, in
    one line, empty when nothing more was written. `owed`: up to here entries were here once.
    """

    first_index: int = NONE
    last: Place = EMPTY
    link: Link | None = BEGIN
    read_from: int = 0
    entries: int = 0
    index_from: int = NONE
    cut_bytes: int = 0
    stopped_at: str = ""
    owed: Place | None = None


class _Start(Struct, frozen=True, gc=False):
    """`before`: what the first entry is chained to. `marked`: all in front of it is durable."""

    position: int
    before: Link | None
    marked: bool = False


def recover(
    data: CommitLog,
    index: EntryIndex,
    marks: Marks,
    *,
    same_boot: bool,
    owe: Callable[[Place], None],
) -> Found:
    """Both logs end behind the last good entry; nothing that lies behind can come back. `owe` notes
    durably what is missing, before anything is cut.
    """
    if not data.file_starts:
        owed = marks.durable if marks.durable not in (None, EMPTY) else None
        if owed is not None:
            owe(owed)
        index.cut_from(0)
        return Found(owed=owed, stopped_at="its files are gone" if owed else "")
    first_index, start = _start(data, index, marks)
    walk = _walk(data, start.position, start.before)
    entries, index_from = _follow(walk, index)
    owed = _missing(walk, index if index_from < 0 else None, marks, same_boot)
    if owed is not None:
        owe(owed)
    if start.position == data.min_offset:
        first_index = walk.last.index - entries + 1 if entries else NONE
    cut = data.set_recovered_end(walk.end, start.position if start.marked else 0)
    if not entries:
        data.truncate(0)
    index.cut_from(walk.last.index + 1)
    return Found(
        first_index,
        walk.last,
        walk.link if entries else BEGIN,
        start.position,
        entries,
        index_from,
        cut,
        walk.reason,
        owed,
    )


def _walk(data: CommitLog, position: int, before: Link | None = None) -> EntryWalk:
    return EntryWalk(data.read, position, data.capacity_end, data.file_bytes, before)


def _good(data: CommitLog, index: EntryIndex, position: int) -> EntryWalk | None:
    """A walk that took the entry at `position`, if it is good and its index record agrees."""
    walk = entry_at(data.read, position, data.capacity_end, data.file_bytes)
    if walk is None:
        return None
    record = index.find(walk.last.index)
    return walk if record is not None and agrees(record, walk.head) else None


def _start(data: CommitLog, index: EntryIndex, marks: Marks) -> tuple[int, _Start]:
    """(the first index of the log, where reading begins)."""
    first, first_index = data.min_offset, _first_index(data, index)
    whole = _Start(first, None if first_index else BEGIN)
    if first_index < 0 or index.log.min_offset > first_index * INDEX_RECORD_BYTES:
        return first_index, whole
    found = _from_mark(data, index, marks.durable, first_index)
    if found is not None:
        return first_index, found
    for start in reversed(data.file_starts[: max(1, len(data.file_starts) - FILES_READ + 1)]):
        if start > first and _good(data, index, start) is not None:
            return first_index, _Start(start, None)
    return first_index, whole


def _first_index(data: CommitLog, index: EntryIndex) -> int:
    """Of the entry that the first file begins with, by the index: -1 when that does not say."""
    if not index.log.file_starts:
        return NONE
    found = index.first_at(data.min_offset, index.log.capacity_end // INDEX_RECORD_BYTES)
    record = index.find(found)
    return found if record is not None and record.position == data.min_offset else NONE


def _from_mark(
    data: CommitLog, index: EntryIndex, durable: Place | None, first_index: int
) -> _Start | None:
    """A little in front of the last durable entry; None when the index does not know it."""
    if durable is None or durable.index < first_index:
        return None
    record = index.find(durable.index)
    if record is None or record.term != durable.term:
        return None
    number = index.first_at(record.position - CHECKED_BYTES, durable.index)
    number = max(number, first_index)
    # Damage at the place where reading would begin is met behind the last good entry before it.
    while (taken := _taken(data, index, number)) is None and number > first_index:
        number -= 1
    if number == first_index:
        return _Start(data.min_offset, BEGIN if number == 0 else None, True)
    before = _taken(data, index, number - 1)
    assert taken is not None
    return _Start(taken.head.position, before.link if before is not None else None, True)


def _taken(data: CommitLog, index: EntryIndex, number: int) -> EntryWalk | None:
    record = index.find(number)
    return _good(data, index, record.position) if record is not None else None


def _follow(walk: EntryWalk, index: EntryIndex) -> tuple[int, int]:
    """Walks to the end; (good entries, the first index whose record was made again or -1)."""
    count, made_from, waiting, waiting_from = 0, NONE, bytearray(), 0
    known, known_from = b"", 0
    for head in walk:
        count += 1
        record = encode_index_record(head)
        if made_from < 0:
            at = (head.index - known_from) * INDEX_RECORD_BYTES
            if not 0 <= at < len(known):
                known, known_from, at = index.raw(head.index, RECORDS_AT_ONCE), head.index, 0
            if known[at : at + INDEX_RECORD_BYTES] == record:
                continue
            index.restart_from(head.index)
            made_from = waiting_from = head.index
        waiting += record
        if len(waiting) >= RECORDS_AT_ONCE * INDEX_RECORD_BYTES:
            index.append(waiting_from, bytes(waiting))
            waiting_from += len(waiting) // INDEX_RECORD_BYTES
            waiting.clear()
    if waiting:
        index.append(waiting_from, bytes(waiting))
    return count, made_from


def _missing(
    walk: EntryWalk, index: EntryIndex | None, marks: Marks, same_boot: bool
) -> Place | None:
    """Up to where entries were here once that are not now; None when none is known to be missing.
    `index`: as it was found, None when it was not sound itself.
    """
    last, durable = walk.last, marks.durable
    if durable is None:
        # Java wrote here. It does not say what was on its disk; what was committed was written.
        missing = bool(walk.reason) and marks.committed_index > last.index
        return Place(max(last.term, 0), marks.committed_index) if missing else None
    owed = durable if durable.index > last.index else None
    if same_boot and walk.reason and index is not None:
        # Records are written behind their entries: where there is one, there was an entry.
        number, term = last.index + 1, NONE
        while (record := index.find(number)) is not None and record.term >= term:
            number, term = number + 1, record.term
        if term != NONE:
            written = Place(term, number - 1)
            owed = written if owed is None else max(owed, written)
    return owed
