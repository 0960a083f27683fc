"""The key index of a store: which messages have a key, newest first.

Responsible for: the row of index files, that it follows the log without gaps, and where it goes on
after a restart.
Refuses to know: what is asked for it, messages beyond their keys, when to flush.

The index is never in the way: what it cannot write now, or did not keep at the last end, is read
from the log later.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path

from brokers.store.index.file import Chain, Header, IndexFile
from brokers.store.index.keys import key_hash, keys_of_records
from brokers.store.log.message_log import MessageLog
from brokers.store.log.records import Record

SLOTS_DEFAULT = 5_000_000
ENTRIES_MAX_DEFAULT = 20_000_000
NAME_DIGITS = 17
# Messages indexed in one go: half the price of doing it a few at a time.
TOGETHER = 256
# Entries that one search reads, in all files together: asking for old messages of a very common key
# blocks nobody.
STEPS_MAX = 10_000
FILES_SEARCHED_MAX = 64

_log = logging.getLogger("regent.store.index")


class KeySearch:
    """Offsets of messages that may have a key, newest first. To be gone through once, on any
    thread; holds descriptors until then, or until `close`.
    """

    def __init__(self, wanted: int, begin_ms: int, end_ms: int) -> None:
        self._wanted = wanted
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self.chains: list[Chain] = []

    def __iter__(self) -> Iterator[int]:
        seen: set[int] = set()
        left = STEPS_MAX
        try:
            for chain in self.chains:
                for offset in islice(chain.walk(self._wanted, self._begin_ms, self._end_ms), left):
                    left -= 1
                    if offset is not None and offset not in seen:
                        seen.add(offset)
                        yield offset
        finally:
            self.close()

    def close(self) -> None:
        while self.chains:
            os.close(self.chains.pop().fd)


class MessageIndex:
    """One thread puts and finds; the job of `flush_job` may run on another, one at a time."""

    def __init__(
        self,
        root: Path,
        log_min: Callable[[], int],
        slots: int = SLOTS_DEFAULT,
        entries_max: int = ENTRIES_MAX_DEFAULT,
        *,
        sound: bool = False,
    ) -> None:
        """`sound`: the last run ended in an orderly way. OSError when the folder cannot be used."""
        self._folder, self._note = root / "index", root / "indexPosition"
        self._log_min = log_min
        self._slots = slots
        self._entries_max = entries_max
        self._files: list[IndexFile] = []
        self._last_name = 0
        self._reported = False
        self._flushing = threading.Lock()
        self._cuts = 0
        self._closed = False
        self._folder.mkdir(parents=True, exist_ok=True)
        self._load(sound)
        self._position = self._settled = self._known_position()
        self._waiting: list[Record] = []

    def _load(self, sound: bool) -> None:
        for path in sorted(self._folder.iterdir()):
            if len(path.name) < NAME_DIGITS or not (path.name.isascii() and path.name.isdigit()):
                continue
            self._last_name = max(self._last_name, int(path.name))
            try:
                self._files.append(IndexFile(path, self._slots, self._entries_max))
            except ValueError as error:
                _log.warning("an index file is left aside: %s", error)
        if self._files:
            self._files[-1].load_slots(sound=sound)

    def _known_position(self) -> int:
        """What the files hold, and beyond it messages without keys that the last flush knew of."""
        indexed = max((file.header.end_offset for file in self._files), default=0)
        with contextlib.suppress(OSError, ValueError):
            position, at = map(int, self._note.read_text("ascii").split())
            if at == indexed:
                return max(position, indexed)
        return indexed

    @property
    def position(self) -> int:
        """Every confirmed message that ends at or below it is indexed."""
        return max(self._position, self._log_min())

    @property
    def newest(self) -> Header:
        """Header of the newest file."""
        return self._files[-1].header if self._files else Header()

    # -- following the log

    def put(self, start: int, records: Sequence[Record], end: int) -> None:
        """`records` are the messages of the log's bytes [start, end). Ignored when something in
        front of them is missing.
        """
        position = self.position
        if start > position or end <= position:
            return
        if start < position:
            records = [record for record in records if record.physical_offset >= position]
        self._waiting += records
        self._position = end
        if len(self._waiting) >= TOGETHER:
            self.settle()

    def settle(self) -> None:
        """Writes what waits to be written together. Call it now and then."""
        waiting, self._waiting = self._waiting, []
        try:
            self._put(waiting)
            self._settled, self._reported = self._position, False
        except OSError as error:
            if not self._reported:
                _log.error("the key index cannot be written, it will follow later: %s", error)
            self._position, self._reported = self._settled, True

    def _put(self, records: Sequence[Record]) -> None:
        keys = keys_of_records(records)
        while keys:
            if not self._files or not self._files[-1].room:
                self._add_file(keys[0][2])
            newest = self._files[-1]
            room = newest.room
            newest.append(keys[:room])
            keys = keys[room:]

    def _add_file(self, now_ms: int) -> None:
        """Named by time, behind the one before it."""
        stamp = (
            datetime.fromtimestamp(now_ms / 1000).strftime("%Y%m%d%H%M%S") + f"{now_ms % 1000:03d}"
        )
        name = max(int(stamp), self._last_name + 1)
        file = IndexFile(self._folder / f"{name:0{NAME_DIGITS}d}", self._slots, self._entries_max)
        file.load_slots(sound=True)
        self._files.append(file)
        self._last_name = name

    def cut(self, offset: int) -> None:
        """Before the log is cut there: what comes instead will be indexed anew.

        Entries left behind are found out by who reads.
        """
        self.settle()
        if offset >= self._position:
            return
        with self._flushing:
            self._cuts += 1
            try:
                self._lower(offset)
                self._position = self._settled = offset
            except OSError as error:
                _log.error(
                    "the key index cannot be cut, it is built anew from %d: %s",
                    self._forget_from(offset),
                    error,
                )

    def _lower(self, offset: int) -> None:
        for file in self._files:
            if file.header.end_offset > offset:
                file.end_before(offset)
                file.flush()
        self._write_note(offset, self.newest.end_offset)

    def _forget_from(self, offset: int) -> int:
        """Removes the files that know of messages from `offset` on: what cannot be put right must
        not stay.
        """
        self._note.unlink(missing_ok=True)
        while self._files and self._files[-1].header.end_offset >= offset:
            self._remove(self._files.pop())
        self._position = self._settled = self.newest.end_offset
        if self._files and not self._files[-1].takes_more:
            self._files[-1].load_slots(sound=True)
        return self._position

    @staticmethod
    def _remove(file: IndexFile) -> None:
        file.close()
        file.path.unlink(missing_ok=True)

    def trim(self) -> None:
        """Deletes the files that only know of messages the log no longer has."""
        while (
            len(self._files) > 1
            and not self._files[0].takes_more
            and self._files[0].header.end_offset < self._log_min()
        ):
            self._remove(self._files.pop(0))

    # -- asking

    def find(self, topic: str, key: str, begin_ms: int, end_ms: int) -> KeySearch:
        """Log offsets of messages that may have the key, newest first; who reads them has to look.
        OSError.

        Of files that tell only of other times nothing is read.
        """
        self.settle()
        wanted = key_hash(topic, key.encode("utf-8", "surrogateescape"))
        search = KeySearch(wanted, begin_ms, end_ms)
        try:
            for file in reversed(self._files):
                header = file.header
                if (
                    header.begin_ms <= end_ms
                    and header.end_ms + 1000 > begin_ms
                    and len(search.chains) < FILES_SEARCHED_MAX
                ):
                    search.chains.append(file.chain(wanted))
        except OSError:
            search.close()
            raise
        return search

    # -- durability

    def flush_job(self) -> Callable[[], None]:
        """What makes the index durable. Taken on the index's thread, to be called on any."""
        self.settle()
        position, indexed, cuts, files = (
            self._position,
            self.newest.end_offset,
            self._cuts,
            list(self._files),
        )

        def run() -> None:
            with self._flushing:
                if self._closed:
                    return
                for file in files:
                    if file.takes_more:
                        file.flush()
                        if file is not files[-1]:
                            file.unload_slots()
                if cuts == self._cuts:
                    self._write_note(position, indexed)

        return run

    def _write_note(self, position: int, indexed: int) -> None:
        part = self._note.with_suffix(".part")
        part.write_text(f"{position} {indexed}\n", "ascii")
        os.replace(part, self._note)

    def close(self, *, flush: bool) -> None:
        """Closes the files; what a flush could not keep is read from the log again."""
        if flush:
            try:
                self.flush_job()()
            except OSError as error:
                _log.error("the key index cannot be flushed: %s", error)
        with self._flushing:
            self._closed = True
            for file in self._files:
                file.close()
            self._files.clear()


def open_index(
    root: Path, log: MessageLog, slots: int, entries_max: int, *, sound: bool
) -> MessageIndex | None:
    """The index of a store whose log is recovered; None, told once, when it cannot be used."""
    try:
        index = MessageIndex(root, lambda: log.min_offset, slots, entries_max, sound=sound)
        index.cut(log.end_offset)
    except OSError as error:
        _log.error("messages cannot be asked for by key: %s", error)
        return None
    return index
