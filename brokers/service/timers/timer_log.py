"""Folder `timerlog`: what is in the wheel, unit behind unit (PROTOCOL 4.18).

Responsible for: places of units, files of one size, reading back, cutting, taking old files away.
Refuses to know: slots, messages, when a unit may go.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from brokers.service.timers.formats import (
    BLANK_BYTES,
    UNIT_BYTES,
    Unit,
    is_blank,
    needs_next_file,
    pack_blank,
    pack_unit,
    read_unit,
)
from brokers.store.files.disk import sync_directory
from brokers.store.files.open_files import OpenFiles

LOG_NAME = "timerlog"
OPEN_MAX = 8
NAME_DIGITS = 20
# Read at once, in front of a unit or behind it.
SPAN_UNITS = 1_024


class TimerLog:
    """[start, end) in bytes. `end` is the caller's to find (`scan`, `cut`). ValueError: files that
    do not follow one another. OSError. On the store's thread, but for a job of `flush_job`.
    """

    def __init__(self, folder: Path, file_bytes: int) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        names = sorted(
            path for path in folder.iterdir() if path.name.isdigit() and len(path.name) == 20
        )
        # as Java left them, whatever this broker's own setting is
        self._file_bytes = (
            max(names[0].stat().st_size, UNIT_BYTES + BLANK_BYTES) if names else (file_bytes)
        )
        self._starts = [int(path.name) for path in names]
        for number, (start, path) in enumerate(zip(self._starts, names, strict=True)):
            if start != self._starts[0] + number * self._file_bytes or (
                start % self._file_bytes or path.stat().st_size != self._file_bytes
            ):
                raise ValueError(f"{path} does not follow the file in front of it")
        self._files = OpenFiles(OPEN_MAX)
        self.start = self.end = self._starts[0] if self._starts else 0

    def close(self) -> None:
        self._files.close()

    def _path(self, position: int) -> str:
        start = position - position % self._file_bytes
        return str(self._folder / f"{start:0{NAME_DIGITS}d}")

    @property
    def limit(self) -> int:
        """Behind the last file: no unit can be there."""
        return self._starts[-1] + self._file_bytes if self._starts else 0

    # -- writing

    def places(self, count: int) -> list[int]:
        """Where the next units go."""
        found, position = [], self.end
        for _ in range(count):
            if needs_next_file(position, self._file_bytes):
                position += self._file_bytes - position % self._file_bytes
            found.append(position)
            position += UNIT_BYTES
        return found

    def append(self, places: Sequence[int], units: Sequence[Unit]) -> None:
        """Writes units to the places that `places` gave. OSError: none counts."""
        data, begin = bytearray(), places[0] if places else 0
        if places and begin != self.end:
            self._close_file(self.end)
        for place, unit in zip(places, units, strict=True):
            if place != begin + len(data):
                self._write(begin, data)
                self._close_file(begin + len(data))
                data, begin = bytearray(), place
            data += pack_unit(unit)
        if data:
            self._write(begin, data)
            self.end = begin + len(data)

    def _close_file(self, position: int) -> None:
        left = self._file_bytes - position % self._file_bytes
        if left < self._file_bytes and left >= BLANK_BYTES:
            self._write(position, pack_blank(left))

    def _write(self, position: int, data: bytes | bytearray) -> None:
        start = position - position % self._file_bytes
        is_new = not self._starts or start > self._starts[-1]
        path = self._path(position)
        self._files.write(
            path, data, position % self._file_bytes, self._file_bytes if is_new else 0
        )
        if is_new:
            self._starts.append(start)
            if len(self._starts) == 1:
                self.start = start

    def flush_job(self) -> Callable[[], None]:
        """What makes everything up to now durable; to be called on any thread. OSError,
        LogError.
        """
        unsynced, root = self._files.take_unsynced(), self._folder.parent
        unsynced.folders = [one for one in unsynced.folders if Path(one).is_relative_to(root)]
        return unsynced.sync

    # -- reading

    def span(self, position: int, count: int) -> bytes:
        """Up to `count` units from `position`, of one file."""
        left = min(self._file_bytes - position % self._file_bytes, count * UNIT_BYTES)
        if not self._starts or not self.start <= position < self.limit or left <= 0:
            return b""
        fd = self._files.fd(self._path(position))
        return os.pread(fd, left, position % self._file_bytes)

    def place_before(self, position: int) -> int | None:
        """Where the unit in front of `position` begins; None: the log begins there."""
        if position % self._file_bytes:
            place = position - UNIT_BYTES
        else:
            place = position - self._file_bytes + self._last_place
        return place if place >= self.start else None

    @property
    def _last_place(self) -> int:
        """In a file, the last place at which a unit may begin."""
        return (self._file_bytes - UNIT_BYTES - BLANK_BYTES) // UNIT_BYTES * UNIT_BYTES

    @property
    def file_bytes(self) -> int:
        return self._file_bytes

    def unit(self, position: int) -> Unit | None:
        """None: there is none."""
        if not self.start <= position or position + UNIT_BYTES > self.end:
            return None
        return read_unit(self.span(position, 1))

    def back(self, position: int, slot_ms: int) -> Iterator[tuple[int, Unit]]:
        """The units of a slot with their places, from the newest one back. It ends where a unit is
        gone or of another slot.
        """
        data, begin = b"", 0
        while self.start <= position and position + UNIT_BYTES <= self.end:
            if not begin <= position < begin + len(data):
                # units that came together lie together
                in_file = position % self._file_bytes // UNIT_BYTES
                begin = position - min(in_file, SPAN_UNITS - 1) * UNIT_BYTES
                data = self.span(begin, (position - begin) // UNIT_BYTES + 1)
            unit = read_unit(data, position - begin)
            if unit is None or unit.slot_ms != slot_ms:
                return
            yield position, unit
            if unit.previous >= position:
                return
            position = unit.previous

    def units(self, positions: Sequence[int]) -> list[Unit | None]:
        """Those at rising places; neighbours are read together."""
        data, begin, found = b"", 0, []
        for position in positions:
            if not begin <= position < begin + len(data):
                begin, data = position, self.span(position, len(positions))
            found.append(read_unit(data, position - begin))
        return found

    def scan(self, position: int) -> Iterator[tuple[int, Unit]]:
        """What lies behind one another from `position` on, up to what is no unit. Whoever scans
        sets `end` to behind the last one that counts.
        """
        while self.start <= position < self.limit:
            if needs_next_file(position, self._file_bytes):
                position += self._file_bytes - position % self._file_bytes
                continue
            data = self.span(position, SPAN_UNITS)
            at = 0
            while (unit := read_unit(data, at)) is not None:
                yield position + at, unit
                at += UNIT_BYTES
            position += at
            if at + UNIT_BYTES <= len(data):
                if not is_blank(data, at):
                    return
                position += self._file_bytes - position % self._file_bytes
            elif at == 0:
                return

    # -- cutting

    def cut(self, end: int) -> None:
        """The log ends there; nothing of it is behind, durably. OSError."""
        while self._starts and self._starts[-1] > end:
            self._files.remove(self._path(self._starts.pop()))
        if self._starts and end < self.limit:
            # zeros behind: a later scan must not take up what was cut
            fd = self._files.fd(self._path(end))
            os.ftruncate(fd, end % self._file_bytes)
            os.ftruncate(fd, self._file_bytes)
            os.fdatasync(fd)
        if self._folder.exists():
            sync_directory(self._folder)
        self.end = max(end, self.start)

    def drop(self) -> None:
        """Everything goes; the next unit is at 0."""
        for start in self._starts:
            self._files.remove(self._path(start))
        self._starts.clear()
        self.start = self.end = 0
        sync_directory(self._folder)

    def trim(self, is_gone: Callable[[Unit], bool]) -> int:
        """Removes old files of which the last unit is gone; never the newest. How many. OSError."""
        removed = 0
        while len(self._starts) > 1:
            first, second = self._starts[:2]
            at = first + self._last_place
            unit = None
            while unit is None and at >= first:
                unit = read_unit(self.span(at, 1))
                at -= UNIT_BYTES
            if unit is not None and not is_gone(unit):
                break
            self._files.remove(self._path(first))
            self._starts.pop(0)
            self.start = second
            removed += 1
        return removed
