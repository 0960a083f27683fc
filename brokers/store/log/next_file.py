"""The log file behind the newest one, made before it is needed: taking its room and making it
durable can last.

Responsible for: making it beside the thread of the log, under its real name, as RocketMQ does;
taking it back.
Refuses to know: what the log is written for, when a file is full.
"""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from brokers.store.files.disk import has_room, new_file
from brokers.store.log import segments


class NextFile:
    """At most one file, made only while `ahead` and where the disk has room for one more. A start
    finds one that was left behind by a kill: it is empty.
    """

    def __init__(self, directory: Path, file_bytes: int) -> None:
        self.ahead = False
        self._directory, self._file_bytes = directory, file_bytes
        self._thread: ThreadPoolExecutor | None = None
        self._start = -1
        self._made: Future[int] | None = None

    def log_grew(self, end: int, capacity_end: int) -> None:
        """The newest file reaches up to `capacity_end`: once it is half full the next one is
        made.
        """
        if (
            not self.ahead
            or capacity_end == self._start
            or 2 * (capacity_end - end) > self._file_bytes
        ):
            return
        self.drop()
        self._start = capacity_end
        if has_room(self._directory, 2 * self._file_bytes):
            self._thread = self._thread or ThreadPoolExecutor(1, "next-log-file")
            self._made = self._thread.submit(new_file, self._path(capacity_end), self._file_bytes)

    def _path(self, start: int) -> Path:
        return self._directory / segments.file_name(start)

    def take(self, start: int) -> int | None:
        """Its descriptor, the caller's from now on; waits while it is being made. None: there is
        none.
        """
        if start != self._start:
            self.drop()
        made, self._made, self._start = self._made, None, -1
        try:
            return None if made is None else made.result()
        except OSError:  # who needs it tries again, and hears why
            return None

    def drop(self) -> None:
        """It would not continue the log any more."""
        start = self._start
        fd = self.take(start)
        if fd is not None:
            os.close(fd)
            with contextlib.suppress(OSError):
                self._path(start).unlink()

    def close(self) -> None:
        """Leaves no file."""
        self.drop()
        if self._thread is not None:
            self._thread.shutdown()
