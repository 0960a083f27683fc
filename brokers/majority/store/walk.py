"""Reading a data log front to back: where its last good entry ends, and why there.

Responsible for: what makes an entry good (PROTOCOL 9.5), from bytes that a callback reads, so that
real files and those of the simulation share it. Refuses to know: files, the index, what is done
with what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator

from brokers.majority.entry import EMPTY, HEAD_BYTES, Link, Place, body_crc, chained
from brokers.majority.store.layout import Head, Malformed, decode_head, filler_bytes
from brokers.store.files.errors import is_unreadable

WINDOW_BYTES = 1 << 20

# (position, count) -> up to `count` bytes, fewer where the log's files end. Never crosses a file.
Read = Callable[[int, int], bytes]


class EntryWalk:
    """Iterates over the heads of good entries from `start`, in a log whose files end at `limit`.

    A good one has lengths that add up, its own position, the index behind the last one, no lower
    term, and checksums that fit where it has them. `before`: what the first one is chained to, None
    when that is not known.

    Afterwards `end` is behind the last good entry, or the filler behind it; `last` is its place,
    `head` and `link` are its own. `reason` says in one line why the walk ended there; it is empty
    where zeros or the files' end say that nothing more was written.
    """

    def __init__(
        self, read: Read, start: int, limit: int, file_bytes: int, before: Link | None = None
    ) -> None:
        self._read = read
        self._limit, self._file_bytes = limit, file_bytes
        self.end = start
        self.link = before
        self.last = EMPTY
        self.reason = ""
        self._over = False
        self.head: Head
        self._singly_below = -1  # the disk refused a window that ends here

    def __iter__(self) -> Iterator[Head]:
        wanted = WINDOW_BYTES
        while self.end < self._limit and not self._over:
            start = self.end
            reachable = self._file_bytes - start % self._file_bytes
            singly = start < self._singly_below
            try:
                data = self._read(start, min(wanted, reachable))
            except OSError as error:
                if not is_unreadable(error):
                    raise
                if singly:
                    self._stop(f"it cannot be read: {error.strerror or error}")
                # What can be read in front of the damage counts: entry by entry from here.
                self._singly_below, wanted = start + wanted, HEAD_BYTES
                continue
            needed = yield from self._window(memoryview(data), start, start + reachable)
            if self.end > start:
                wanted = HEAD_BYTES if self.end < self._singly_below else max(WINDOW_BYTES, needed)
            elif len(data) < needed <= reachable and wanted < needed:
                wanted = needed
            elif not self._over:
                self._stop("it is not all there")

    def _stop(self, reason: str) -> None:
        self.reason, self._over = reason, True

    def _window(self, data: memoryview, start: int, file_end: int) -> Generator[Head, None, int]:
        """The good entries of one window; how many bytes what stands at its end needs."""
        at = 0
        while True:
            position = start + at
            needed = min(HEAD_BYTES, file_end - position)
            if len(data) - at < needed or not needed:
                return needed
            filler = filler_bytes(data, at)
            if filler == file_end - position:
                self.end = file_end
                return HEAD_BYTES
            if filler is not None or needed < HEAD_BYTES:
                none = not any(data[at : at + needed])
                self._stop("" if none else "it is neither an entry nor filler to its file's end")
                return 0
            needed = self._judge(data, at, position, file_end)
            if needed > len(data) - at or self._over:
                return needed
            at += needed
            self.end = start + at
            yield self.head

    def _judge(self, data: memoryview, at: int, position: int, file_end: int) -> int:
        """Bytes of the entry at `at`, which is taken if the window holds all of it; when it is no
        good one, the walk is over.
        """
        try:
            head = decode_head(data, at)
        except Malformed as error:
            zeros = not any(data[at : at + HEAD_BYTES])
            self._stop("" if zeros else str(error))
            return 0
        reason = self._misplaced(head, position, file_end)
        if reason:
            self._stop(reason)
            return 0
        if at + head.size <= len(data):
            own = body_crc(data[at + HEAD_BYTES : at + head.size])
            reason = self._unfit(head, own)
            if reason:
                self._stop(reason)
                return 0
            self.head = head
            self.last = Place(head.term, head.index)
            self.link = Link(head.index, head.term, own)
        return head.size

    def _misplaced(self, head: Head, position: int, file_end: int) -> str:
        if head.position != position:
            return "it belongs to another position"
        if head.size > file_end - position:
            return "it does not fit its file"
        if self.last != EMPTY and head.index != self.last.index + 1:
            return "its index is not the next one"
        if head.term < self.last.term:
            return "its term is below that of the entry before it"
        return ""

    def _unfit(self, head: Head, own_crc: int) -> str:
        if head.body_crc and head.body_crc != own_crc:
            return "its body does not fit the checksum"
        if head.chain_crc and self.link is not None:
            numbers = head.magic, head.size, head.index, head.term, head.channel
            if head.chain_crc != chained(self.link, numbers, own_crc):
                return "it was not written behind the entry before it"
        return ""


def entry_at(read: Read, position: int, limit: int, file_bytes: int) -> EntryWalk | None:
    """A walk that has taken the one entry at `position`; None when there is no good one."""
    walk = EntryWalk(read, position, limit, file_bytes)
    return walk if next(iter(walk), None) is not None else None
