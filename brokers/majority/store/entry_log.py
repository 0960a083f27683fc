"""A majority log in files: entries and their index, kept in step.

Responsible for: `log_port.MajorityLog` over two logs of segments: that the index follows the data,
what is durable, cuts that nothing undoes, what is committed. Refuses to know: roles, peers,
messages, when to flush.

One thread uses it; `flush` and `checkpoint` may run on another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

from brokers.majority.entry import (
    BEGIN,
    BODY_BYTES_MAX,
    EMPTY,
    ENTRY_BYTES_MAX,
    HEAD_BYTES,
    MAGIC_NORMAL,
    NONE,
    Entry,
    Place,
    body_fits,
    chain_fits,
    link_of,
    same,
    sealed,
)
from brokers.majority.log_port import Taken
from brokers.majority.store.index import EntryIndex
from brokers.majority.store.layout import (
    INDEX_RECORD_BYTES,
    IndexRecord,
    Malformed,
    agrees,
    decode_entry,
    encode_entry,
    encode_index_record,
)
from brokers.majority.store.marks import Marks
from brokers.majority.store.recovery import Found
from brokers.store.files.disk import remove_files
from brokers.store.files.errors import DiskFull, LogError, unreadable_told
from brokers.store.log.commit_log import CommitLog
from brokers.store.log.segments import file_start, needs_new_file

_NUMBER_MAX = (1 << 62) // INDEX_RECORD_BYTES
_CHANNEL_MAX = (1 << 31) - 1


class MarkFiles(Protocol):
    """Where marks and debts are written down. Durable on return. OSError."""

    def save_marks(self, marks: Marks) -> None: ...
    def save_owed(self, owed: Place | None) -> None: ...


class EntryLog:
    """See the module, and `log_port.MajorityLog` for what each call promises.

    `full`: why nothing is taken although there may be room (retention); None while it is.
    `after_cut` hears of each cut, once it is done, and whether the log begins anew.
    """

    def __init__(
        self,
        data: CommitLog,
        index: EntryIndex,
        files: MarkFiles,
        found: Found,
        marks: Marks,
        owed: Place | None = None,
        begins_at: int = 0,
    ) -> None:
        """As a recovery left the two logs; makes what it found durable. `owed`: as it is written
        down. `begins_at`: position of the entry with index 0, the begin of a file. LogError,
        OSError.
        """
        self.data, self.index = data, index
        self.full: str | None = None
        self.after_cut: Callable[[bool], None] = lambda anew: None
        self.first_index, self.last = found.first_index, found.last
        self.owed = owed
        self._link, self._files, self._begins_at = found.link, files, begins_at
        self.committed_index = max(NONE, min(marks.committed_index, self.last.index))
        # (index, position behind its entry): of the last one written, and as last asked for.
        self._last_end = self._committed_end = NONE, 0
        self.flushed_index = NONE
        self._lock = threading.Lock()  # a flush or checkpoint beside a cut
        self._cuts = 0
        self._marks = marks
        self.checkpoint()

    @property
    def broken(self) -> str | None:
        return self.data.io_error or self.index.log.io_error

    @property
    def committed_position(self) -> int:
        """Behind the last committed entry, begin of the log without one: consumers read up to
        here.
        """
        if self.committed_index < max(self.first_index, 0):
            return self.data.min_offset
        if self._last_end[0] == self.committed_index:
            return self._last_end[1]
        if self._committed_end[0] != self.committed_index:
            record = self.index.record(self.committed_index)
            self._committed_end = self.committed_index, record.position + record.size
        return self._committed_end[1]

    # -- reading

    def _holds(self, index: int) -> bool:
        return 0 <= self.first_index <= index <= self.last.index

    def get(self, index: int) -> Entry | None:
        found = self.read(index, 1, ENTRY_BYTES_MAX)
        return found[0] if found else None

    def read(self, first: int, max_entries: int, max_bytes: int) -> Sequence[Entry]:
        """Also ends where a data or an index file does."""
        if not self._holds(first) or max_entries < 1:
            return []
        records = self.index.records(first, min(max_entries, self.last.index - first + 1))
        begin, count, end = records[0].position, 0, records[0].position
        for record in records:
            if record.position != end or (count and end + record.size - begin > max_bytes):
                break
            count, end = count + 1, end + record.size
        with unreadable_told(f"entry {first} at {begin}"):
            data = self.data.read(begin, end - begin)
        return [_checked(data, record, begin) for record in records[:count]]

    def term_of(self, index: int) -> int | None:
        return self.index.record(index).term if self._holds(index) else None

    # -- appending

    def append_as_leader(self, term: int, size: int, build: Callable[[int], bytes]) -> Entry:
        if self.full is not None:
            raise DiskFull(self.full)
        if not 0 <= size <= BODY_BYTES_MAX:
            raise LogError(f"a body of {size} bytes is no entry's: at most {BODY_BYTES_MAX}")
        if not max(self.last.term, 0) <= term <= _NUMBER_MAX:
            raise LogError(f"an entry of term {term} cannot follow one of {self.last.term}")
        self._make_room()
        position = self.data.reserve(HEAD_BYTES + size)
        body = build(position)
        if len(body) != size:
            raise LogError(f"a body of {size} bytes was announced, {len(body)} came")
        entry = sealed(self._link, Entry(self.last.index + 1, term, position, body))
        self._write(entry)
        return entry

    def append_as_follower(self, entry: Entry) -> Taken:
        if (flaw := _flaw(entry)) is not None:
            return flaw
        if entry.index <= self.last.index:
            return self._held(entry)
        if entry.index != self.last.index + 1:
            return Taken.GAP
        if entry.term < self.last.term:
            return Taken.CONFLICT
        if self._link is not None and not chain_fits(self._link, entry):
            return Taken.CONFLICT
        return self._offered(entry, self._next_position(entry.size))

    def _held(self, entry: Entry) -> Taken:
        """Of an entry whose index the log has, or had once."""
        if entry.index < self.first_index:
            return Taken.HELD if entry.index <= self.committed_index else Taken.CONFLICT
        here = self.get(entry.index)
        return Taken.HELD if here is not None and same(here, entry) else Taken.CONFLICT

    def _offered(self, entry: Entry, position: int) -> Taken:
        if entry.position != position:
            return Taken.MISPLACED
        if self.full is not None:
            return Taken.DISK_FULL
        try:
            self._make_room()
            self.data.reserve(entry.size)
            summed = entry.body_crc and entry.chain_crc  # and looked at
            self._write(entry if summed else sealed(self._link, entry))
        except DiskFull:
            return Taken.DISK_FULL
        except LogError:
            return Taken.BROKEN
        return Taken.APPENDED

    def _next_position(self, size: int) -> int:
        """Where an entry of so many bytes goes: into the next file, when filler would not fit
        behind it.
        """
        end = self.data.end_offset if self.data.file_starts else self._begins_at
        left = self.data.file_bytes - end % self.data.file_bytes
        return end + left if needs_new_file(left, size) else end

    def make_room(self, sizes: Sequence[int]) -> None:
        """A leader's logs, which have its first entry, have the files for bodies of these sizes
        too, so that all of them or none are written. DiskFull: nothing was.
        """
        if self.full is not None:
            raise DiskFull(self.full)
        data = self.data
        end = data.end_offset
        for size in sizes if data.file_starts else ():
            left = data.file_bytes - end % data.file_bytes
            if needs_new_file(left, HEAD_BYTES + size):
                end += left
            data.make_file(file_start(end, data.file_bytes))
            end += HEAD_BYTES + size
        self.index.make_room(len(sizes))

    def _make_room(self) -> None:
        """Both logs have a file to write to. DiskFull: nothing changed."""
        if not self.data.file_starts and self._begins_at:
            self.data.begin_within(self._begins_at)
        self.index.make_room()

    def _write(self, entry: Entry) -> None:
        """At the data's end, which `entry.position` is; then its record."""
        self.data.write(entry.position, encode_entry(entry))
        try:
            self.index.append(entry.index, encode_index_record(entry))
        except DiskFull:
            self.data.truncate(entry.position if self.last != EMPTY else 0)
            raise
        self._link = link_of(entry)
        self._last_end = entry.index, entry.position + entry.size
        if self.first_index < 0:
            self.first_index = entry.index
        self.last = entry.place

    # -- cutting

    def truncate_from(self, index: int) -> None:
        if index > self.last.index:
            return
        if index <= self.committed_index:
            raise LogError(
                f"entry {index} is committed, as all up to {self.committed_index}: it is not cut"
            )
        if index <= self.first_index:
            self._drop_all()
            self.after_cut(False)
            return
        position = self.index.record(index).position
        before = self.get(index - 1)
        assert before is not None, "inside the log"
        with self._lock:
            self._lower_marks(before.place)
            self.data.truncate(position)
            self.index.cut_from(index)
            self.last, self._link = before.place, link_of(before)
            self.flushed_index = min(self.flushed_index, before.index)
        self.after_cut(False)

    def restart_at(self, entry: Entry) -> Taken:
        if (flaw := _flaw(entry)) is not None:
            return flaw
        if entry.index <= self.committed_index:
            raise LogError(
                f"the log is committed up to {self.committed_index}: it does not begin anew at "
                f"{entry.index}"
            )
        if entry.position % self.data.file_bytes:
            return Taken.MISPLACED
        if self.full is not None:
            return Taken.DISK_FULL
        if self.last != EMPTY:
            self._owe(self.last)
            self._drop_all()
        taken = self._begin_with(entry)
        self.after_cut(True)
        return taken

    def _begin_with(self, entry: Entry) -> Taken:
        """The first one of a log that is empty."""
        if entry.index == 0:
            return self._offered(entry, self._next_position(entry.size))
        self._link = None
        try:
            self.data.begin_within(entry.position)
        except DiskFull:
            return Taken.DISK_FULL
        except LogError:
            return Taken.BROKEN
        return self._offered(entry, entry.position)

    def _drop_all(self) -> None:
        with self._lock:
            self._lower_marks(EMPTY)
            self.data.truncate(0)
            self.index.cut_from(0)
            self.first_index = NONE
            self.last, self._link = EMPTY, BEGIN
            self.flushed_index = NONE

    def _lower_marks(self, to: Place) -> None:
        """Written first: nothing may be called durable that another leader replaces."""
        self._cuts += 1
        if self._marks.durable is None or self._marks.durable.index > to.index:
            self._save(Marks(to.index, self.committed_index, to))

    def _save(self, marks: Marks) -> None:
        try:
            self._files.save_marks(marks)
        except OSError as error:
            raise self.data.fail("checkpoint", error) from error
        self._marks = marks

    # -- durable, committed, owed

    def flush(self) -> int:
        with self._lock:
            target, cuts = self.last.index, self._cuts
        self.data.flush()
        with self._lock:
            if cuts == self._cuts:
                self.flushed_index = max(self.flushed_index, target)
            return self.flushed_index

    def checkpoint(self) -> None:
        """Makes entries and index durable and writes down how far; what a start relies on. On any
        thread. LogError, OSError.
        """
        with self._lock:
            target, cuts = self.last, self._cuts
        self.flush()
        self.index.log.flush()
        with self._lock:
            marks = Marks(self.last.index, self.committed_index, target)
            if cuts == self._cuts and marks != self._marks:
                self._save(marks)

    def commit(self, index: int) -> int:
        self.committed_index = max(self.committed_index, min(index, self.last.index))
        if self.owed is not None and self._holds(self.committed_index):
            term = self.term_of(self.committed_index)
            if term is not None and Place(term, self.committed_index) >= self.owed:
                self._owe(None)
        return self.committed_index

    def _owe(self, place: Place | None) -> None:
        owed = place if place is None or self.owed is None else max(place, self.owed)
        if owed != self.owed:
            try:
                self._files.save_owed(owed)
            except OSError as error:
                raise self.data.fail("note of what is owed", error) from error
            self.owed = owed

    # -- the front, the end

    def trim(self, below: int) -> Callable[[], None]:
        """The log begins with a file at position `below` or earlier from now on, but never behind
        the last committed entry. Returns what removes the files, to be called on any thread:
        OSError.
        """
        if not self._holds(self.committed_index):
            return partial(remove_files, [])
        committed = self.index.record(self.committed_index).position
        gone: list[Path] = self.data.forget_before(min(below, committed))
        if gone:
            last = self.last.index
            self.first_index = self.index.first_at(self.data.min_offset, last)
        return partial(_remove_both, gone, self.index.trim(self.first_index))

    def close(self) -> None:
        """The orderly end: all is durable, and said to be. LogError, OSError."""
        try:
            if self.broken is None:
                self.checkpoint()
        finally:
            self.data.close()
            self.index.log.close()


def _remove_both(data: list[Path], index: list[Path]) -> None:
    """The index last: an entry without a record would make a start read the whole log."""
    remove_files(data)
    remove_files(index)


def _flaw(entry: Entry) -> Taken | None:
    numbers = entry.index, entry.term, entry.position
    if (
        entry.magic != MAGIC_NORMAL
        or entry.size > ENTRY_BYTES_MAX
        or min(numbers) < 0
        or max(numbers) > _NUMBER_MAX
        or not -_CHANNEL_MAX <= entry.channel <= _CHANNEL_MAX
    ):
        return Taken.UNFIT
    return None


def _checked(data: bytes, record: IndexRecord, begin: int) -> Entry:
    """The entry of a record, from data that lies at `begin`. LogError when it is not that one, or
    not as it was written.
    """
    try:
        entry = decode_entry(data, record.position - begin)
    except Malformed as error:
        raise LogError(f"entry {record.index} at {record.position}: {error}") from error
    if not agrees(record, entry):
        raise LogError(f"entry {record.index} at {record.position}: another one is there")
    if not body_fits(entry):
        raise LogError(
            f"entry {record.index} at {record.position}: its body does not fit the checksum"
        )
    return entry
