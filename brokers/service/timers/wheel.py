"""File `timerwheel`: one slot for each step of time, seven days and seven more (PROTOCOL 4.18).

Responsible for: slots by their time; changes stay in memory until a flush, so that the file never
points to what the log does not have durably.
Refuses to know: what a slot holds, when it is read.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from brokers.service.timers.formats import (
    EMPTY_SLOT,
    NOWHERE,
    SLOT_BYTES,
    SLOTS,
    WHEEL_BYTES,
    Slot,
    pack_slot,
    read_slot,
    slot_index,
)
from brokers.store.files.disk import sync_directory, write_all

WHEEL_NAME = "timerwheel"
# Beside a wheel of which the first flush is not over: it does not hold yet what the log does.
MAKING_SUFFIX = ".making"
# Slots looked at with one read.
LOOK_SLOTS = 4_096
# A divisor of the wheel's size.
LOOK_BYTES = SLOT_BYTES * 12_096
_PAGE_OF_ZEROS = bytes(4_096)


def _zeros(data: bytes) -> int:
    """How many bytes it begins with at least that are zero, in whole pages."""
    at = 0
    while at < len(data) and data.startswith(_PAGE_OF_ZEROS, at):
        at += len(_PAGE_OF_ZEROS)
    return at


class Next(NamedTuple):
    """The first slot that holds something, or none up to `time_ms`."""

    time_ms: int
    slot: Slot | None


class Wheel:
    """Opened, and made where there is none: all empty, and sparse. `made`: it holds nothing of what
    the log does. ValueError: a file of another size. OSError. On the store's thread, but for a job
    of `flush_job`.
    """

    def __init__(self, path: Path, precision_ms: int) -> None:
        self.precision_ms = precision_ms
        self._path = path
        self._making = path.with_name(path.name + MAKING_SUFFIX)
        self.made = self._making.exists() or not path.exists()
        self._changed: dict[int, bytes] = {}
        self._flushing: dict[int, bytes] = {}
        self._writing = threading.Lock()
        self._job: Callable[[], None] | None = None
        if self.made:
            self._making.touch()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if self.made:
                self.empty()
            size = os.fstat(self._fd).st_size
            if size != WHEEL_BYTES:
                raise ValueError(f"{path} has {size} bytes and not {WHEEL_BYTES}")
        except BaseException:
            os.close(self._fd)
            raise

    def close(self) -> None:
        """What was not flushed is lost, and found again in the log."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def slot(self, time_ms: int) -> Slot | None:
        """None: nothing is in it."""
        found = read_slot(self._bytes(slot_index(time_ms, self.precision_ms)), 0, self.precision_ms)
        return found if found is not None and found.time_ms == time_ms else None

    def _bytes(self, index: int) -> bytes:
        data = self._changed.get(index) or self._flushing.get(index)
        if data is None:
            data = os.pread(self._fd, SLOT_BYTES, index * SLOT_BYTES)
            if len(data) < SLOT_BYTES:
                raise OSError(f"slot {index} of the timer wheel cannot be read")
        return data

    def put(self, slot: Slot) -> None:
        """In place of what was in it, of this time or an older one."""
        index = slot_index(slot.time_ms, self.precision_ms)
        self._changed[index] = pack_slot(slot, self.precision_ms)

    def clear(self, time_ms: int) -> None:
        """Nothing is in it any more."""
        if self.slot(time_ms) is not None:
            self._changed[slot_index(time_ms, self.precision_ms)] = EMPTY_SLOT

    def next(self, from_ms: int, until_ms: int) -> Next:
        """In [from, until), as far as one look goes."""
        step, first = self.precision_ms, slot_index(from_ms, self.precision_ms)
        count = min((until_ms - from_ms) // step, LOOK_SLOTS, SLOTS - first)
        if count <= 0:
            return Next(max(from_ms, until_ms), None)
        data = os.pread(self._fd, count * SLOT_BYTES, first * SLOT_BYTES)
        if len(data) < count * SLOT_BYTES:
            raise OSError(f"slot {first} of the timer wheel cannot be read")
        begin = min(_zeros(data) // SLOT_BYTES, self._first_changed(first, count))
        for number in range(begin, count):
            index, at = first + number, number * SLOT_BYTES
            changed = self._changed.get(index) or self._flushing.get(index)
            if changed is None and data[at : at + 8] == EMPTY_SLOT[:8]:
                continue
            slot = read_slot(changed or data, 0 if changed else at, step)
            if slot is not None and slot.time_ms == from_ms + number * step:
                return Next(slot.time_ms, slot)
        return Next(from_ms + count * step, None)

    def _first_changed(self, first: int, count: int) -> int:
        """Of `count` slots, the number of the first one that is in memory."""
        if len(self._changed) + len(self._flushing) > count:
            return 0
        there = (
            index - first
            for slots in (self._changed, self._flushing)
            for index in slots
            if first <= index < first + count
        )
        return min(there, default=count)

    def in_file(self) -> Iterator[Slot]:
        """What the file holds, changes since the last flush not counted. It takes a quarter of a
        second where every slot is in use.
        """
        for begin in range(0, WHEEL_BYTES, LOOK_BYTES):
            data = os.pread(self._fd, LOOK_BYTES, begin)
            zeros = _zeros(data)
            for at in range(zeros - zeros % SLOT_BYTES, len(data) - SLOT_BYTES + 1, SLOT_BYTES):
                slot = read_slot(data, at, self.precision_ms)
                if slot is not None:
                    yield slot

    def newest(self) -> int:
        """The furthest place of the log that the file points to; −1 none."""
        return max((slot.last for slot in self.in_file()), default=NOWHERE)

    def empty(self) -> None:
        """Nothing is in any slot. OSError."""
        self._changed, self._flushing = {}, {}
        self._making.touch()
        os.ftruncate(self._fd, 0)
        os.ftruncate(self._fd, WHEEL_BYTES)
        sync_directory(self._path.parent)

    @property
    def unflushed(self) -> int:
        """Slots that changed since the last flush was taken."""
        return len(self._changed)

    def flush_job(self) -> Callable[[], None]:
        """What writes the changes up to now, durably; to be called on any thread, once the log has
        its units. Then `flushed`. OSError.
        """
        taken, self._changed = {**self._flushing, **self._changed}, {}
        self._flushing = taken

        def run() -> None:
            with self._writing:
                if self._flushing is taken:  # else a later job has all of it, and newer
                    self._write(taken)

        self._job = run
        return run

    def _write(self, slots: Mapping[int, bytes]) -> None:
        fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        try:
            for index in sorted(slots):
                write_all(fd, slots[index], index * SLOT_BYTES)
            os.fdatasync(fd)
        finally:
            os.close(fd)
        self._making.unlink(missing_ok=True)

    def flushed(self, job: Callable[[], None]) -> None:
        """A job did it. One that failed, or that another one was taken after, counts for nothing:
        its changes are part of the next one.
        """
        if job is self._job:
            self._flushing = {}
