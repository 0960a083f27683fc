"""One file of the key index: header, hash slots, entries, each pointing to the one before it in its
slot.

Responsible for: PROTOCOL 3.6 byte for byte; a file that an end without warning
left behind is usable.
Refuses to know: keys, messages, which file comes next.

Entries go to the file at once. Slots are kept in memory and written by a flush, and the header
last: what it counts is there. Slots that point beyond that count are put right when the file is
opened, over the entries they lead to.
"""

from __future__ import annotations

import errno
import os
import struct
import threading
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from sys import byteorder
from typing import NamedTuple

from brokers.store.index.keys import IndexedKey

HEADER_BYTES = 40
SLOT_BYTES = 4
ENTRY_BYTES = 20
PAGE_SHIFT = 10
PAGE_SLOTS = 1 << PAGE_SHIFT
PAGES_AT_ONCE = 64
SECONDS_MAX = 0x7FFFFFFF

_HEADER = struct.Struct(">qqqqii")
_ENTRY = struct.Struct(">iqii")
_SLOT = struct.Struct(">i")
_ZERO_PAGE = bytes(PAGE_SLOTS * SLOT_BYTES)


class Header(NamedTuple):
    """Times in ms, offsets in bytes of the first and last message; slots in use; number of the next
    entry (from 1).
    """

    begin_ms: int = 0
    end_ms: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    used_slots: int = 0
    next_entry: int = 1


Row = tuple[int, int, int, int]
"""An entry: hash of the key, log offset, seconds since the file's first message, the entry before
it in its slot.
"""


class Chain(NamedTuple):
    """Where to read the entries of one slot, on any thread."""

    fd: int
    entries_at: int
    header: Header
    number: int

    def walk(self, key_hash: int, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Log offsets of messages with that hash, newest first, one second too many rather than too
        few; None for each entry that is another's.
        """
        number = self.number
        while 0 < number < self.header.next_entry:
            found, offset, seconds, before = _row(self.fd, self.entries_at, number)
            stored_ms = self.header.begin_ms + seconds * 1000
            fits = found == key_hash and begin_ms - 1000 < stored_ms <= end_ms
            yield offset if fits else None
            if stored_ms + 1000 < begin_ms or before >= number:
                return
            number = before


def _row(fd: int, entries_at: int, number: int) -> Row:
    data = os.pread(fd, ENTRY_BYTES, entries_at + number * ENTRY_BYTES)
    return _ENTRY.unpack(data.ljust(ENTRY_BYTES, b"\0"))


class IndexFile:
    """`header` tells what is in it. One thread appends and finds; `flush` may run on another."""

    def __init__(self, path: Path, slots: int, entries_max: int) -> None:
        """Opens or makes the file. ValueError when it is no index file of this shape; OSError."""
        self.path = path
        self._slot_count, self._entries_max = slots, entries_max
        self._entries_at = HEADER_BYTES + SLOT_BYTES * slots
        self._slots: memoryview | None = None
        self._dirty: set[int] = set()
        self._copying = threading.Lock()
        self.header = Header()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._load()
        except BaseException:
            os.close(self._fd)
            raise

    def _load(self) -> None:
        size, wanted = (
            os.fstat(self._fd).st_size,
            self._entries_at + ENTRY_BYTES * self._entries_max,
        )
        if size == 0:
            os.ftruncate(self._fd, wanted)  # sparse
        elif size != wanted:
            raise ValueError(f"{self.path} has {size} bytes instead of {wanted}")
        header = Header(*_HEADER.unpack(os.pread(self._fd, HEADER_BYTES, 0)))
        if not 0 <= header.next_entry <= self._entries_max:
            raise ValueError(f"{self.path} counts {header.next_entry} entries")
        self.header = header._replace(next_entry=max(1, header.next_entry))

    @property
    def room(self) -> int:
        """How many more entries fit."""
        return self._entries_max - self.header.next_entry

    # -- writing

    def load_slots(self, *, sound: bool) -> None:
        """Before the first append. Unless all is `sound`, slots that point to what the header does
        not count are led back.
        """
        slots = memoryview(bytearray(self._slot_count * SLOT_BYTES)).cast("i")
        for first in range(0, self._slot_count, PAGE_SLOTS):
            count = min(PAGE_SLOTS, self._slot_count - first)
            data = os.pread(self._fd, count * SLOT_BYTES, HEADER_BYTES + first * SLOT_BYTES)
            if data == _ZERO_PAGE[: len(data)]:
                continue
            page = _native(data)
            if not sound and (max(page) >= self.header.next_entry or min(page) < 0):
                self._lead_back(page)
                self._dirty.add(first // PAGE_SLOTS)
            slots[first : first + count] = memoryview(page)
        self._slots = slots

    def _lead_back(self, page: array[int]) -> None:
        limit = self.header.next_entry
        for number, entry in enumerate(page):
            while entry >= limit:
                before = self._entry(entry)[3] if entry < self._entries_max else 0
                entry = before if before < entry else 0
            page[number] = max(0, entry)

    def append(self, keys: Sequence[IndexedKey]) -> None:
        """Adds entries, at most `room`. OSError leaves the file as it was."""
        slots, slot_count, pack = self._slots, self._slot_count, _ENTRY.pack
        assert slots is not None
        begin_ms, _, begin_offset, _, used, entry = self.header
        if entry == 1:
            _, begin_offset, begin_ms = keys[0]
        packed: list[bytes] = []
        add, mark, latest = packed.append, self._dirty.add, SECONDS_MAX if begin_ms > 0 else 0
        with self._copying:
            for key_hash, offset, store_ms in keys:
                slot = key_hash % slot_count
                before = slots[slot]
                if not before:
                    used += 1
                slots[slot] = entry
                mark(slot >> PAGE_SHIFT)
                seconds = (store_ms - begin_ms) // 1000
                if seconds > latest or seconds < 0:
                    seconds = latest if seconds > 0 else 0
                add(pack(key_hash, offset, seconds, before))
                entry += 1
            data = b"".join(packed)
            try:
                overwrite(self._fd, data, self._entries_at + self.header.next_entry * ENTRY_BYTES)
            except OSError:
                for key_hash, _, _, before in reversed(list(_ENTRY.iter_unpack(data))):
                    slots[key_hash % slot_count] = before
                raise
            self.header = Header(begin_ms, keys[-1][2], begin_offset, keys[-1][1], used, entry)

    def flush(self) -> None:
        """Makes the file hold all that was appended, durably. May run on any thread, one at a
        time.
        """
        with self._copying:
            header, pages = self.header, sorted(self._dirty)
            self._dirty.clear()
        try:
            self._write(pages, header)
        except OSError:
            with self._copying:
                self._dirty.update(pages)
            raise

    def _write(self, pages: list[int], header: Header) -> None:
        copied: list[tuple[int, bytes]] = []
        for at in range(0, len(pages), PAGES_AT_ONCE):
            with self._copying:
                copied += [(page, self._page(page)) for page in pages[at : at + PAGES_AT_ONCE]]
        os.fdatasync(self._fd)  # a slot never leads to an entry that is not there
        for page, data in copied:
            overwrite(self._fd, data, HEADER_BYTES + page * PAGE_SLOTS * SLOT_BYTES)
        os.fdatasync(self._fd)
        overwrite(self._fd, _HEADER.pack(*header), 0)
        os.fdatasync(self._fd)

    def _page(self, page: int) -> bytes:
        assert self._slots is not None
        return _big_endian(self._slots[page * PAGE_SLOTS : (page + 1) * PAGE_SLOTS].tobytes())

    def end_before(self, offset: int) -> None:
        """The header no longer speaks of messages from `offset` on; a flush has to follow."""
        self.header = self.header._replace(end_offset=min(self.header.end_offset, offset))

    @property
    def takes_more(self) -> bool:
        """Whether its slots are in memory."""
        return self._slots is not None

    def unload_slots(self) -> None:
        """Behind the last append and its flush; on the thread of the flush."""
        self._slots = None

    # -- reading

    def _entry(self, number: int) -> Row:
        return _row(self._fd, self._entries_at, number)

    def chain(self, key_hash: int) -> Chain:
        """The entries of the slot of a hash as they are now, newest first, with a descriptor of its
        own. OSError.
        """
        slot, slots = key_hash % self._slot_count, self._slots
        if slots is not None:
            number = slots[slot]
        else:
            (number,) = _SLOT.unpack(
                os.pread(self._fd, SLOT_BYTES, HEADER_BYTES + slot * SLOT_BYTES)
            )
        return Chain(os.dup(self._fd), self._entries_at, self.header, number)

    def close(self) -> None:
        """Flushes nothing."""
        os.close(self._fd)


def overwrite(fd: int, data: bytes, position: int) -> None:
    """OSError when the disk does not take all of it; what it took stays, for zeros
    (`disk.write_all`) would undo what stood there.
    """
    if os.pwrite(fd, data, position) != len(data):
        raise OSError(errno.ENOSPC, "short write")


def _native(data: bytes) -> array[int]:
    page = array("i", data)
    if byteorder == "little":
        page.byteswap()
    return page


def _big_endian(data: bytes) -> bytes:
    return _native(data).tobytes()  # the same exchange both ways
