"""Queues that follow the log: short ways at once, long ones piece by piece beside the process that
owns the store.

Responsible for: that confirmed messages become readable without keeping received bytes waiting; a
bounded lag; when it is worth a process of its own. Refuses to know: how entries are made, who reads
them, roles.

The entries of a piece are made by that process, or here while there is none, and written here.
Whatever happens to the log meanwhile, the dispatcher takes only what still fits.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from brokers.store.queues.dispatch import PIECE_BYTES, Piece, QueueGrowth
from brokers.store.queues.entry_process import EntryProcess
from brokers.store.store import MessageStore

if TYPE_CHECKING:
    from brokers.store.queues.entry_runs import EntryRuns

# Confirmed bytes that may be not yet readable; beyond it, new ones wait (some 10 ms of work).
LAG_BYTES_MAX = 8 * 1024 * 1024
# How long a slave waits for more: a few messages at a time cost ten times as much.
PATIENCE_MS = 10
# The process gets as much at a time, so that it need not wait for this one's attention.
HANDED_BYTES = 2 * 1024 * 1024
# It takes as long to load as some 200 pieces take here: worth it for a copy, not for a burst.
PIECES_PER_S = 16
# One that was given up is not tried again at once.
RETRY_S = 10.0

_log = logging.getLogger("regent.store.queues")


class QueueFollower:
    """`grown` hears of the queues that grew. All on the store's thread, with a running event loop
    once ways are long.
    """

    def __init__(
        self,
        store: MessageStore,
        grown: Callable[[list[QueueGrowth]], None],
        hurried: Callable[[], bool] = lambda: False,
    ) -> None:
        """`hurried`: whether somebody may wait for these messages, as at a master."""
        self._store = store
        self._grown = grown
        self._hurried = hurried
        self._helper: EntryProcess | None = None
        self._helper_from_s = 0.0
        self._second_from_s, self._pieces = 0.0, 0
        self._under_way: Piece | None = None
        self._due: asyncio.Handle | None = None
        self._due_soon = self._closed = False

    @property
    def lag_bytes(self) -> int:
        """Confirmed and not yet readable."""
        return self._store.confirm_offset - self._store.dispatched_offset

    def confirmed(self, offset: int) -> None:
        """Messages up to here may be read: at once what this process appended, in a moment what a
        master sent, together with what comes with it.
        """
        self._store.note_confirmed(offset)
        if self._store.dispatcher.remembers:
            self._follow(LAG_BYTES_MAX)
        else:
            self._follow_soon()

    def _follow_soon(self) -> None:
        if (
            self._closed
            or not self.lag_bytes
            or (self._under_way is not None and self.lag_bytes <= LAG_BYTES_MAX)
        ):
            return
        soon = self.lag_bytes >= PIECE_BYTES or self._hurried()
        if self._due is None or (soon and not self._due_soon):
            if self._due is not None:
                self._due.cancel()
            loop = asyncio.get_running_loop()
            self._due = (
                loop.call_soon(self._now)
                if soon
                else loop.call_later(PATIENCE_MS / 1000, self._now)
            )
            self._due_soon = soon

    def _now(self) -> None:
        self._due = None
        self._follow(LAG_BYTES_MAX)

    def catch_up(self) -> None:
        """Everything confirmed is readable when this returns, as far as the log and the disk let
        it.
        """
        self._follow(0)

    def _follow(self, lag_bytes_max: int) -> None:
        going = True
        while going and not self._closed:
            if self._under_way is None:
                going = self._begin()
                if self._under_way is None and self.lag_bytes <= lag_bytes_max:
                    if going:  # a piece was done here: what has come meanwhile is received first
                        self._follow_soon()
                    return
            elif self.lag_bytes > lag_bytes_max:
                assert self._helper is not None
                going = self._end(self._helper.wait())
            else:
                return

    def _begin(self) -> bool:
        """Hands over the next piece, or does it here; what is short is done. Whether there may be
        more to do.
        """
        helper = self._ready_helper() if self._store.log.starts is None else None
        piece = self._store.dispatcher.next_piece(
            self._store.confirm_offset, HANDED_BYTES if helper else 0
        )
        if piece is None:
            if self.lag_bytes:
                self._grown(self._store.dispatch_to(self._store.confirm_offset))
            return False
        if helper is not None and helper.ask(piece.place, piece.start):
            self._under_way = piece
            return True
        if piece.starts is None:
            self._count_piece()
        return self._make_here(piece)

    def _make_here(self, piece: Piece) -> bool:
        try:
            made = piece.run()
        except OSError as error:
            _log.error("the log cannot be read at %d for its queues: %s", piece.start, error)
            return False
        return self._take(piece, made)

    def _entries_made(self, made: EntryRuns | None) -> None:
        if self._under_way is not None and not self._closed and self._end(made):
            self._follow_soon()

    def _end(self, made: EntryRuns | None) -> bool:
        """Takes the entries of the piece that is under way; whether that led anywhere. None: it has
        to be begun again, here.
        """
        assert self._under_way is not None
        piece, self._under_way = self._under_way, None
        if made is None:
            again = self._store.dispatcher.next_piece(self._store.confirm_offset)
            # None: the log was cut, what is left of it is short
            return again is None or self._make_here(again)
        return self._take(piece, made)

    def _take(self, piece: Piece, made: EntryRuns) -> bool:
        if not self._store.dispatcher.fits(piece):
            return True  # the log was cut: from there on, then
        self._grown(self._store.dispatcher.take(piece, made))
        return self._store.dispatched_offset != piece.start

    # -- the process

    def _ready_helper(self) -> EntryProcess | None:
        if self._helper is not None and not self._helper.is_alive:
            self._helper = None
        return self._helper if self._helper is not None and self._helper.is_free else None

    def _count_piece(self) -> None:
        """One more was made here. Many within a second: a process is worth it, unless it would take
        this one's processor.
        """
        now_s = asyncio.get_running_loop().time()
        if now_s - self._second_from_s > 1.0:
            self._second_from_s, self._pieces = now_s, 0
        self._pieces += 1
        if self._pieces < PIECES_PER_S or self._helper is not None or now_s < self._helper_from_s:
            return
        self._helper_from_s = now_s + RETRY_S
        if len(os.sched_getaffinity(0)) > 1:
            try:
                self._helper = EntryProcess(self._entries_made)
            except OSError as error:
                _log.warning(
                    "queue entries are made here, no process can be started for it: %s", error
                )

    def close(self) -> None:
        """Leaves what is not done."""
        self._closed = True
        if self._due is not None:
            self._due.cancel()
        if self._helper is not None:
            self._helper.close()
