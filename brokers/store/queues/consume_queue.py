"""One consume queue: a file row of 20-byte entries that point into the commit log.

Responsible for: PROTOCOL 3.5 on disk.
Refuses to know: what the messages are, confirm offsets, when to flush.

Slot = logical offset of an entry (byte offset / 20).
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path

from brokers.store.files.disk import (
    PAGE_BYTES,
    is_page_unreadable,
    last_used_byte,
    last_used_or_unreadable_byte,
)
from brokers.store.files.errors import LogError, is_unreadable
from brokers.store.files.open_files import OpenFiles
from brokers.store.log import segments
from brokers.store.queues.entries import (
    DAMAGED_RUN_MAX,
    ENTRY,
    ENTRY_BYTES,
    FILLER,
    FILLER_SIZE,
    GAP_ENTRIES_MAX,
    SLOT_MAX,
    Entry,
    entry_of,
    first_cut,
    first_kept,
    first_where,
    is_deleted,
    kept_below,
    merged,
    pack_entry,
    place_before,
    reaches,
    stretch,
    unknown_behind,
)

__all__ = ["ENTRY_BYTES", "ConsumeQueue", "Entry", "pack_entry"]

_REBUILT = (
    "remove the consumequeue folder to have it made again from the log; leave the file queueEnds: "
    "it says where queues go on"
)

_log = logging.getLogger("regent.store.queues")


class ConsumeQueue:
    """One queue. `max_offset` is the slot of the next entry; `last_physical` the message of the
    newest one, -1 without.

    `taken`: slot, place and size of a newer message whose slot another one has; its reader sets it
    to None. `lacks_from`: messages from this place of the log on may lack their entry, None: none
    does that had one. `end_lost`: its newest file had no bytes, so that it may have gone on behind
    what it has.
    """

    __slots__ = (
        "_directory",
        "_file_bytes",
        "_files",
        "_min",
        "_min_for",
        "_path_start",
        "_path_text",
        "_starts",
        "end_lost",
        "lacks_from",
        "last_physical",
        "max_offset",
        "taken",
    )

    def __init__(self, directory: Path, file_bytes: int, files: OpenFiles) -> None:
        self._directory = directory
        self._file_bytes = file_bytes
        self._files = files
        self._starts: list[int] = []
        self._min, self._min_for = 0, -1
        self._path_start, self._path_text = -1, ""
        self.max_offset, self.last_physical = 0, -1
        self.lacks_from: int | None = None
        self.end_lost = False
        self.taken: tuple[int, int, int] | None = None
        if directory.is_dir():
            self._load()

    def _load(self) -> None:
        self._starts = sorted(
            start
            for name in os.listdir(self._directory)
            if (start := segments.start_of_name(name)) is not None
        )
        gap = segments.first_gap(self._starts, self._file_bytes)
        if gap is not None:
            raise LogError(
                f"{self._directory}: file {segments.file_name(gap)} is missing; {_REBUILT}"
            )
        empty: list[int] = []
        for start in self._starts:
            size = os.stat(self._path(start)).st_size
            if not size:  # made, but its size never came to the disk
                os.truncate(self._path(start), self._file_bytes)
                empty.append(start)
            elif size != self._file_bytes:
                raise LogError(
                    f"{self._path(start)} has {size} bytes, {self._file_bytes} are configured:"
                    f" set the size it was written with, or {_REBUILT}"
                )
        self._find_end()
        self.end_lost = any(self._starts[-1:] <= [start] for start in empty)
        for start in [start for start in empty if self._starts[-1:] > [start]]:
            _log.error("%s was empty: its entries are made again from the log", self._path(start))
            self._lacks(
                place_before(self.read, self._starts[0] // ENTRY_BYTES, start // ENTRY_BYTES)
            )

    def _lacks(self, place: int) -> None:
        self.lacks_from = place if self.lacks_from is None else min(self.lacks_from, place)

    def _find_end(self) -> None:
        """Sets the end behind the last entry; what follows the last entry is zero (cuts wipe). The
        only file says where the queue goes on although it is empty.
        """
        self.max_offset, self.last_physical = 0, -1
        while self._starts:
            start = self._starts[-1]
            used = (self._used_bytes(start) + ENTRY_BYTES - 1) // ENTRY_BYTES
            if used or (start and len(self._starts) == 1):
                self._set_end(start // ENTRY_BYTES + used)
                return
            self._files.remove(self._path(start))
            self._starts.pop()

    def _set_end(self, slot: int) -> None:
        self.max_offset, self._min_for = slot, -1
        entries = self.read(slot - 1, 1) if slot else []
        newest = entries[0] if entries else None
        self.last_physical = newest.physical_offset if newest and newest.size != FILLER_SIZE else -1

    def _path(self, start: int) -> str:
        if start != self._path_start:  # nearly always the newest file
            self._path_start, self._path_text = (
                start,
                f"{self._directory}/{segments.file_name(start)}",
            )
        return self._path_text

    def _used_bytes(self, start: int) -> int:
        return last_used_byte(self._files.fd(self._path(start)), 0, self._file_bytes)

    def keep_valid_below(self, physical_offset: int, durable_end: int | None = None) -> None:
        """After a loss of power: keeps the entries up to the last one of a message below
        `physical_offset`. `durable_end`: entries in front of this slot had been durable, None where
        that is not known.
        """
        if not self._starts:
            return
        kept = kept_below(
            self.read, self._starts[0] // ENTRY_BYTES, self.max_offset, physical_offset
        )
        if kept.end < self.max_offset:
            self._cut(kept.end)
        if kept.lacks_from is not None and (durable_end is None or kept.end < durable_end):
            self._lacks(kept.lacks_from)

    def _first_physical(self, start: int) -> int:
        head = _read(self._files.fd(self._path(start)), 0, ENTRY_BYTES)
        physical, size, _ = ENTRY.unpack(head.ljust(ENTRY_BYTES, b"\0"))
        return physical if size > 0 else 1 << 62

    def mark_unsynced(self, physical_offset: int, *, cut: bool = False) -> None:
        """Files with entries at or above `physical_offset` may not be durable: an earlier run wrote
        them. `cut`: it may have wiped entries, too, which a loss of power would bring back.
        """
        if cut and self._starts:
            self._files.mark_unsynced(self._path(self._starts[-1]))
        if self.last_physical >= physical_offset:
            for start in reversed(self._starts):
                self._files.mark_unsynced(self._path(start))
                if self._first_physical(start) < physical_offset:
                    return

    def append(self, slot: int, entries: bytes | bytearray, last_physical: int) -> int:
        """Writes consecutive entries from `slot`; those already there are skipped. Returns how many
        were new.

        A queue without entries begins in the file of `slot`, with filler entries before it (3.5).
        Where none is in a place that has one, it gets it.
        """
        if slot != self.max_offset and self.is_bare():
            self._drop()
        known = self.max_offset - slot
        if known > 0:
            self._mend(slot, entries[: known * ENTRY_BYTES])
            entries = entries[known * ENTRY_BYTES :]
            slot += known
        if not entries:
            return 0
        if slot > self.max_offset or not self._starts:
            self._fill(slot)
        self._write(slot, entries)
        self.max_offset = slot + len(entries) // ENTRY_BYTES
        self.last_physical = last_physical
        return len(entries) // ENTRY_BYTES

    def is_bare(self) -> bool:
        """Whether it has no message, only a place to go on: one that begins further to the front
        may come from a master.
        """
        return self.last_physical < 0 and self.min_offset(0) >= self.max_offset

    def enter(self, slot: int, entry: bytes, physical: int) -> bool:
        """A message of this log that was passed over when the queue was made gets its entry, in
        front of all others if need be; False: the slot has one. OSError, LogError.
        """
        end = self.max_offset
        if slot >= end or self.is_bare():
            self.append(slot, entry, physical)
            if self.max_offset < end:
                self.lose_up_to(end, physical)
            return True
        while self._starts[0] > slot * ENTRY_BYTES:
            start = self._starts[0] - self._file_bytes
            self._files.write(
                self._path(start), FILLER * (self._file_bytes // ENTRY_BYTES), 0, self._file_bytes
            )
            self._starts.insert(0, start)
        there = self.read(slot, 1)
        if not there or 0 < there[0].size != FILLER_SIZE:
            return False
        self.overwrite(slot, entry)
        return True

    def begin_at(self, slot: int) -> None:
        """The first message of a bare queue goes there."""
        self._drop()
        self.max_offset = slot

    def lose_up_to(self, slot: int, newest: int) -> None:
        """It goes on at `slot`; in front of that entries are lost, the last one of the message at
        `newest`: nobody's slots until the log was asked. OSError, LogError.
        """
        newest = max(newest, self.last_physical)
        if slot * ENTRY_BYTES > SLOT_MAX or not self._starts:
            raise LogError(
                f"{self._directory}: it has no entry that queue offset {slot} could follow"
            )
        self._write(self.max_offset, pack_entry(newest, 0, 0) * (slot - self.max_offset))
        self.max_offset, self.last_physical = slot, newest

    def _drop(self) -> None:
        while self._starts:
            self._files.remove(self._path(self._starts.pop()))
        self._set_end(0)

    def _mend(self, slot: int, entries: bytes | bytearray) -> None:
        """Entries that were lost, or come late, get in where zeros or markers of a gap are."""
        at, mended = 0, False
        for offset, count in segments.split_by_file(
            slot * ENTRY_BYTES, len(entries), self._file_bytes
        ):
            piece, at = entries[at : at + count], at + count
            start = segments.file_start(offset, self._file_bytes)
            there = (
                _read(self._files.fd(self._path(start)), offset - start, count)
                if offset >= self._starts[0]
                else piece
            )
            right = there
            if there != piece:
                right = merged(there, piece)
                self._look_for_taken(offset // ENTRY_BYTES, right, piece)
            if right != there:
                self._write_over(offset // ENTRY_BYTES, right)
                mended = True
        if mended:
            self._set_end(self.max_offset)

    def _look_for_taken(self, slot: int, there: bytes, entries: bytes | bytearray) -> None:
        """A message behind all that this queue has cannot have the slot of one of them: two masters
        gave it.
        """
        pairs = enumerate(
            zip(ENTRY.iter_unpack(there), ENTRY.iter_unpack(entries), strict=True), slot
        )
        for at, (old, (physical, size, _)) in pairs:
            if old[:2] != (physical, size) and 0 <= self.last_physical < physical:
                self.taken = self.taken or (at, physical, size)

    def _fill(self, slot: int) -> None:
        first = self.max_offset
        if slot > SLOT_MAX:
            raise LogError(f"{self._directory}: queue offset {slot} is impossible")
        if not self._starts:
            first = segments.file_start(slot * ENTRY_BYTES, self._file_bytes) // ENTRY_BYTES
        elif slot - first > GAP_ENTRIES_MAX:
            raise LogError(f"{self._directory}: queue offset jumps from {first} to {slot}")
        # Behind an entry none may be missing: such slots are nobody's until the log was asked,
        # never passed over.
        lost = FILLER if self.last_physical < 0 else pack_entry(self.last_physical, 0, 0)
        self._write(first, lost * (slot - first))

    def _write(self, slot: int, entries: bytes | bytearray) -> None:
        at = 0
        for offset, count in segments.split_by_file(
            slot * ENTRY_BYTES, len(entries), self._file_bytes
        ):
            start = segments.file_start(offset, self._file_bytes)
            create = 0
            if not self._starts or start > self._starts[-1]:
                self._directory.mkdir(parents=True, exist_ok=True)
                create = self._file_bytes
            piece = entries if count == len(entries) else entries[at : at + count]
            self._files.write(self._path(start), piece, offset - start, create)
            self._starts += [start] if create else []  # only now: a full disk may have refused it
            at += count

    def read(self, slot: int, count: int) -> list[Entry]:
        """Up to `count` entries from `slot`, fewer at a file's end and at the queue's end. Those
        that the disk cannot give are zeros, which say nothing: their messages are asked for, and
        nobody else's.
        """
        count = min(count, self.max_offset - slot)
        offset = slot * ENTRY_BYTES
        if count <= 0 or not self._starts or offset < self._starts[0]:
            return []
        start = self._starts[bisect_right(self._starts, offset) - 1]
        count = min(count, (start + self._file_bytes - offset) // ENTRY_BYTES)
        data = _read(self._files.fd(self._path(start)), offset - start, count * ENTRY_BYTES)
        return list(map(entry_of, ENTRY.iter_unpack(data[: len(data) - len(data) % ENTRY_BYTES])))

    def overwrite(self, slot: int, entry: bytes) -> None:
        """Another entry in the place of one that is there; OSError when the disk refuses."""
        self._write_over(slot, entry)
        self._set_end(self.max_offset)

    def _write_over(self, slot: int, entries: bytes | bytearray) -> None:
        try:
            self._write(slot, entries)
        except OSError as error:
            if not is_unreadable(error):
                raise
            self._write_pages(slot * ENTRY_BYTES, len(entries))
            self._write(slot, entries)

    def _write_pages(self, offset: int, count: int) -> None:
        """Zeros on whole pages: of a page that cannot be read only all of it can be written, and
        then it is another one.
        """
        for at, size in segments.split_by_file(offset, count, self._file_bytes):
            start = segments.file_start(at, self._file_bytes)
            fd, first = self._files.fd(self._path(start)), at - start - (at - start) % PAGE_BYTES
            for page in range(first, at - start + size, PAGE_BYTES):
                if is_page_unreadable(fd, page):
                    self._files.write(
                        self._path(start), bytes(min(PAGE_BYTES, self._file_bytes - page)), page
                    )

    def next_file(self, slot: int) -> int:
        """First slot of the file behind that of `slot`."""
        return (slot * ENTRY_BYTES // self._file_bytes + 1) * self._file_bytes // ENTRY_BYTES

    def min_offset(self, log_min_offset: int) -> int:
        """Slot of the first entry whose message the log still has; `max_offset` when there is
        none.
        """
        if self._min_for != log_min_offset or self._min >= self.max_offset:
            first = self._starts[0] // ENTRY_BYTES if self._starts else 0
            self._min, self._min_for = (
                first_kept(self.read, first, self.max_offset, log_min_offset),
                log_min_offset,
            )
        return self._min

    def first_slot_where(self, first: int, predicate: Callable[[Entry], bool]) -> int:
        """Lowest slot from `first` whose entry fulfils `predicate` (false before, true from there
        on); end when none.
        """
        return first_where(self.read, first, self.max_offset, predicate)

    def trim(self, log_min_offset: int) -> None:
        """Removes the files of which the log has no message any more; the newest one stays and says
        where to go on.
        """
        while len(self._starts) > 1:
            border = self._starts[1] // ENTRY_BYTES
            # Filler says nothing of the messages before it; a message behind it does.
            telling = self.read(border - 1, 1) + self.read(border, 1)
            if telling[0].size == FILLER_SIZE == telling[1].size:
                telling = self.read(border, self._file_bytes // ENTRY_BYTES)
            if not any(is_deleted(entry, log_min_offset) for entry in telling):
                return
            self._files.remove(self._path(self._starts.pop(0)))

    def truncate(self, physical_offset: int, leads: Callable[[int], object]) -> None:
        """Removes entries of messages at or above `physical_offset`, wiping their bytes. `leads`:
        as with `first_cut`.
        """
        if not self._starts:
            return
        first = self._starts[0] // ENTRY_BYTES
        newest = max(first, self.max_offset - DAMAGED_RUN_MAX)  # more than one: it may be damaged
        if reaches(stretch(self.read, newest, self.max_offset), physical_offset):
            slot = first_cut(self.read, first, self.max_offset, physical_offset, leads)
            unknown = unknown_behind(self.read, slot, self.max_offset, physical_offset)
            self._cut(slot)
            if unknown and not self.is_bare():
                self.lose_up_to(slot + unknown, self.last_physical)

    def _cut(self, slot: int) -> None:
        """The first file stays, though it may be empty: it says where the queue goes on."""
        while len(self._starts) > 1 and self._starts[-1] >= slot * ENTRY_BYTES:
            self._files.remove(self._path(self._starts.pop()))
        start = self._starts[-1]
        position = max(slot * ENTRY_BYTES - start, 0)
        used = last_used_or_unreadable_byte(
            self._files.fd(self._path(start)), position, self._file_bytes
        )
        if used > position:
            self._write_over((start + position) // ENTRY_BYTES, bytes(used - position))
        self._set_end((start + position) // ENTRY_BYTES)


def _read(fd: int, position: int, count: int) -> bytes:
    """Entries as they are there; zeros for each that lies on a page that cannot be read, be it in
    part.
    """
    try:
        return os.pread(fd, count, position)
    except OSError as error:
        if not is_unreadable(error):
            raise
    last = position + count
    bad = [
        page
        for page in range(position - position % PAGE_BYTES, last, PAGE_BYTES)
        if is_page_unreadable(fd, page)
    ]
    return b"".join(
        bytes(ENTRY_BYTES)
        if any(page < at + ENTRY_BYTES and at < page + PAGE_BYTES for page in bad)
        else os.pread(fd, ENTRY_BYTES, at)
        for at in range(position, last, ENTRY_BYTES)
    )
