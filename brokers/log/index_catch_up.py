"""Indexing what the index missed: after a kill, a full disk, or when it is switched on over an old log.

Responsible for: reading the log in small pieces from where the index ends to where queues end.
Refuses to know: threads, pauses between the pieces.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.log.commit_log import CommitLog
from brokers.log.index import MessageIndex
from brokers.log.integrity import RECORD_BYTES_MAX
from brokers.log.records import Record
from brokers.log.scan import LogWalk
from brokers.log.side_reader import side_read

WINDOW_BYTES = 128 * 1024

# (messages, end of what was read), on any thread
Piece = Callable[[], tuple[list[Record], int]]


class IndexCatchUp:
    """`next_piece` and `take` on the store's thread, what is between them on any."""

    def __init__(self, log: CommitLog, index: MessageIndex) -> None:
        self._log, self._index = log, index
        self._window = WINDOW_BYTES

    def next_piece(self, dispatched: int) -> Piece | None:
        """What to read next; None when the index is as far as the queues."""
        start = self._index.position
        if start >= dispatched:
            return None
        limit, file_bytes = min(dispatched, start + self._window), self._log.file_bytes
        read = side_read(self._log, start, limit - start)

        def run() -> tuple[list[Record], int]:
            data = read()
            walk = LogWalk(lambda at, count: data[at - start : at - start + count], start, limit, file_bytes, check_body=False)
            return list(walk), walk.end

        return run

    def take(self, start: int, records: list[Record], end: int) -> bool:
        """`start`: the index's position when the piece was made; nothing counts when it has moved since.

        False when the log cannot be read there, or the index not written: a pause is in place.
        """
        if start != self._index.position:
            return True
        if end > start:
            self._window = WINDOW_BYTES
            self._index.put(start, records, end)
            self._index.settle()
            return self._index.position > start
        wider = self._window < RECORD_BYTES_MAX  # one message may be larger than the window
        self._window = RECORD_BYTES_MAX if wider else WINDOW_BYTES
        return wider
