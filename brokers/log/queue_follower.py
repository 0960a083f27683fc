"""Queues that follow the log: short ways at once, long ones piece by piece beside the thread that owns the store.

Responsible for: that confirmed messages become readable without keeping received bytes waiting; a bounded lag.
Refuses to know: how entries are made, who reads them, roles.

A piece is read and its entries are made on a thread of its own; they are written on the store's thread. Whatever happens
to the log meanwhile, the dispatcher takes only what still fits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from brokers.log.dispatch import PIECE_BYTES, Piece, QueueGrowth
from brokers.log.store import MessageStore

if TYPE_CHECKING:
    from brokers.log.entry_runs import EntryRuns

# Confirmed bytes that may be not yet readable; beyond it whoever brings more waits (some 10 ms of work).
LAG_BYTES_MAX = 8 * 1024 * 1024
# So long a slave waits for more: a few messages at a time cost ten times as much.
PATIENCE_MS = 10

_log = logging.getLogger(__name__)


class QueueFollower:
    """`grown` hears of the queues that grew. All on the store's thread, with a running event loop once ways are long."""

    def __init__(
        self, store: MessageStore, grown: Callable[[list[QueueGrowth]], None], hurried: Callable[[], bool] = lambda: False
    ) -> None:
        """`hurried`: whether somebody may wait for these messages, as at a master."""
        self._store, self._grown, self._hurried = store, grown, hurried
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: tuple[Piece, Future[EntryRuns]] | None = None
        self._due: asyncio.Handle | None = None
        self._due_soon = self._closed = False

    @property
    def lag_bytes(self) -> int:
        """Confirmed and not yet readable."""
        return self._store.confirm_offset - self._store.dispatched_offset

    def confirmed(self, offset: int) -> None:
        """Messages up to here may be read: at once what this process appended, in a moment what a master sent, together with
        what comes with it."""
        self._store.note_confirmed(offset)
        if self._store.dispatcher.remembers:
            self._follow(LAG_BYTES_MAX)
        else:
            self._follow_soon()

    def _follow_soon(self) -> None:
        if self._closed or not self.lag_bytes or self._under_way is not None and self.lag_bytes <= LAG_BYTES_MAX:
            return
        soon = self.lag_bytes >= PIECE_BYTES or self._hurried()
        if self._due is None or (soon and not self._due_soon):
            if self._due is not None:
                self._due.cancel()
            loop = asyncio.get_running_loop()
            self._due = loop.call_soon(self._now) if soon else loop.call_later(PATIENCE_MS / 1000, self._now)
            self._due_soon = soon

    def _now(self) -> None:
        self._due = None
        self._follow(LAG_BYTES_MAX)

    def catch_up(self) -> None:
        """Everything confirmed is readable when this returns, as far as the log and the disk let it."""
        self._follow(0)

    def _follow(self, lag_bytes_max: int) -> None:
        going = True
        while going and not self._closed:
            if self._under_way is None:
                going = self._begin()
            elif self.lag_bytes > lag_bytes_max:
                going = self._end()
            else:
                return

    def _begin(self) -> bool:
        """Whether a piece is under way now; what is short is done."""
        piece = self._store.dispatcher.next_piece(self._store.confirm_offset)
        if piece is None:
            if self.lag_bytes:
                self._grown(self._store.dispatch_to(self._store.confirm_offset))
            return False
        loop = asyncio.get_running_loop()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "queue-follower")
        work = self._thread.submit(piece.run)
        self._under_way = (piece, work)
        work.add_done_callback(lambda _: loop.call_soon_threadsafe(self._done, piece))
        return True

    def _done(self, piece: Piece) -> None:
        if self._under_way is not None and self._under_way[0] is piece and not self._closed and self._end():
            self._follow_soon()

    def _end(self) -> bool:
        """Waits for the piece that is under way and takes its entries; whether that led anywhere."""
        assert self._under_way is not None
        (piece, work), self._under_way = self._under_way, None
        try:
            made = work.result()
        except OSError as error:
            _log.error("the log cannot be read at %d for its queues: %s", piece.start, error)
            return False
        if not self._store.dispatcher.fits(piece):
            return True  # the log was cut: from there on, then
        self._grown(self._store.dispatcher.take(piece, made))
        return self._store.dispatched_offset != piece.start

    def close(self) -> None:
        """Waits for a piece that is under way, and leaves the rest."""
        self._closed = True
        if self._due is not None:
            self._due.cancel()
        if self._thread is not None:
            self._thread.shutdown()
