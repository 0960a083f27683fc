"""Indexing what the index missed: after a kill, a full disk, or when it is switched on over an old
log.

Responsible for: reading the log in small pieces from where the index ends to where queues end.
Refuses to know: threads, pauses between the pieces.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.store.index.index import MessageIndex
from brokers.store.log.integrity import RECORD_BYTES_MAX
from brokers.store.log.message_log import MessageLog
from brokers.store.log.records import Record
from brokers.store.log.scrub import next_record
from brokers.store.log.side_reader import side_read

WINDOW_BYTES = 128 * 1024

# (messages, end of what was read, where a damaged record in front of all of it ends), on any thread
Piece = Callable[[], tuple[list[Record], int, int]]


class IndexCatchUp:
    """`next_piece` and `take` on the store's thread, what is between them on any."""

    def __init__(self, log: MessageLog, index: MessageIndex) -> None:
        self._log, self._index = log, index
        self._window = WINDOW_BYTES

    def next_piece(self, dispatched: int) -> Piece | None:
        """What to read next; None when the index is as far as the queues."""
        start = self._index.position
        if start >= dispatched:
            return None
        log, limit = self._log, min(dispatched, start + self._window)
        read = side_read(log, start, limit - start)

        def run() -> tuple[list[Record], int, int]:
            data = read()
            walk = log.walk(
                start,
                limit,
                check_body=False,
                read=lambda at, count: data[at - start : at - start + count],
            )
            return (list(walk), walk.end, _behind(log, data, start) if walk.end == start else start)

        return run

    def take(self, start: int, records: list[Record], end: int, behind: int) -> bool:
        """`start`: the index's position when the piece was made; nothing counts when it has moved
        since.

        A damaged record is passed over: it has no key until the index is made anew. False when the
        log cannot be read there, or the index not written: a pause is in place.
        """
        if start != self._index.position:
            return True
        if end > start:
            self._window = WINDOW_BYTES
            self._index.put(start, records, end)
            self._index.settle()
            return self._index.position > start
        if self._window < RECORD_BYTES_MAX:  # one message may be larger than the window
            self._window = RECORD_BYTES_MAX
            return True
        self._window = WINDOW_BYTES
        if behind > start:
            self._index.put(start, [], behind)
            self._index.settle()
        return self._index.position > start


def _behind(log: MessageLog, data: bytes, start: int) -> int:
    """Where reading can go on behind a damaged record at `start`: at the next one, or with the next
    file if `data` reach it.
    """
    following = next_record(data, start, start + 1)
    if following is not None:
        return log.border_before(following)
    file_end = start - start % log.file_bytes + log.file_bytes
    return file_end if start + len(data) == file_end else start
