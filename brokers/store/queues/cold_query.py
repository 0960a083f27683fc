"""Reading messages that may have to come from the disk, without making the log's thread wait for
it.

Responsible for: telling what is in memory from what is not; a read that can go on beside the log's
thread.
Refuses to know: threads, who asks, which messages are wanted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress

from brokers.store.log.message_log import MessageLog
from brokers.store.queues.query import Fetched, GetResult, Selection, answer, fetch

# So near to its end the log is taken to be in memory: it was written a moment ago.
HOT_BYTES = 64 * 1024 * 1024
_NOT_OFFERED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class _WouldWait(Exception):
    """The bytes are not in memory."""


class ColdRead:
    """A selection whose bytes are on disk: `fetch` once, on any thread, then `answer` on the log's.

    Holds descriptors of its own, so that files may be deleted meanwhile.
    """

    def __init__(self, log: MessageLog, selection: Selection) -> None:
        self._log, self._selection = log, selection
        self._end, self._file_bytes = log.end_offset, log.file_bytes
        self._fds: dict[int, int] = {}
        try:
            for _, entry in selection.chosen:
                start = entry.physical_offset - entry.physical_offset % log.file_bytes
                piece = log.file_range(entry.physical_offset, 1) if start not in self._fds else None
                if piece is not None:
                    self._fds[start] = os.dup(piece.fileno)
        except OSError:
            self.close()
            raise

    def fetch(self) -> Fetched:
        """Reads and checks; the descriptors are closed in the end."""
        try:
            return fetch(self._read, self._file_bytes, self._selection)
        finally:
            self.close()

    def _read(self, offset: int, count: int) -> bytes:
        position = offset % self._file_bytes
        fd = self._fds.get(offset - position)
        count = min(count, self._end - offset, self._file_bytes - position)
        return b"" if fd is None or count <= 0 else os.pread(fd, count, position)

    def answer(self, fetched: Fetched) -> GetResult:
        return answer(self._log, self._selection, fetched)

    def close(self) -> None:
        """For a read that will not be done."""
        while self._fds:
            os.close(self._fds.popitem()[1])


def read_or_cold(log: MessageLog, selection: Selection) -> GetResult | ColdRead:
    """What a selection gives, when its bytes are in memory."""
    if selection.chosen[0][1].physical_offset >= log.end_offset - HOT_BYTES:
        return answer(log, selection, fetch(log.read, log.file_bytes, selection))
    selection = selection.whole()
    with suppress(_WouldWait):
        return answer(log, selection, fetch(_from_memory(log), log.file_bytes, selection))
    return ColdRead(log, selection)


def _from_memory(log: MessageLog) -> Callable[[int, int], bytes]:
    def read(offset: int, count: int) -> bytes:
        piece = log.file_range(offset, count)
        if piece is None:
            return b""
        data = bytearray(piece.count)
        try:
            got = os.preadv(piece.fileno, [data], piece.position, os.RWF_NOWAIT)
        except BlockingIOError:
            raise _WouldWait from None
        except OSError as error:
            if error.errno in _NOT_OFFERED:  # by this file system: it may be on disk
                raise _WouldWait from None
            raise
        if got < piece.count:
            raise _WouldWait
        return data  # type: ignore[return-value]

    return read
