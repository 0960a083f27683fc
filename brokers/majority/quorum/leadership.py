"""One mastership: what a leader has from its election until it leads no more.

Responsible for: dispatchers, heartbeats, waiters and readers, the first entry of the term, what is
committed by counting (PROTOCOL 10.7). Refuses to know: how it was elected, and what comes after it.
"""

from __future__ import annotations

from collections.abc import Sequence

from brokers.majority.entry import NONE, Place
from brokers.majority.quorum.commit import leader_commits
from brokers.majority.quorum.dispatcher import Dispatcher, Mode
from brokers.majority.quorum.effects import (
    AppendAsLeader,
    AppendDone,
    LeaderReady,
    NewEntry,
    ReadDone,
)
from brokers.majority.quorum.heartbeats import Pulse
from brokers.majority.quorum.member import Member
from brokers.majority.quorum.reads import Reading, Reads
from brokers.majority.quorum.waiters import Waiter, Waiters
from brokers.majority.wire.codes import Code


class Leadership:
    """`ready`: the first entry of the term is committed. `failed`: it could not be written."""

    def __init__(self, member: Member, now_ms: int) -> None:
        self.ready = False
        self.failed = False
        self.waiters = Waiters()
        self.reads = Reads(member.config.majority - 1)
        self._member = member
        self._term = member.standing.term
        self._first_index = member.log.last.index + 1
        self._unwritten: list[int] = []
        self.dispatchers = {peer: Dispatcher(member, peer, now_ms) for peer in member.config.peers}
        self.pulse = Pulse(member, now_ms, self._match_of, self._seen_end)
        self._write((member.config.first_entry,), None)

    # -- what others may know ------------------------------------------------------------------

    @property
    def larger_term(self) -> int:
        """The largest term that anybody answered with; the own one where nobody had a larger."""
        return max(
            self.pulse.larger_term,
            *(one.larger_term for one in self.dispatchers.values()),
            self._term,
        )

    def why_over(self, now_ms: int) -> str | None:
        """Why it cannot go on in its own term, None: it can."""
        if self.failed:
            return "its first entry could not be written"
        if self.pulse.contradicted:
            return "a member follows another leader of this term"
        return None if self.pulse.has_majority(now_ms) else "no majority answered it"

    def held(self) -> list[int]:
        """Up to where each member holds the log, this one first."""
        return [self._member.held_index, *(one.match_index for one in self.dispatchers.values())]

    def lag_of(self, peer: str) -> int | None:
        """Entries that a follower lacks; None while that is not known."""
        dispatcher = self.dispatchers.get(peer)
        if dispatcher is None or dispatcher.mode is not Mode.APPEND:
            return None
        return self._member.log.last.index - dispatcher.match_index

    # -- appends -------------------------------------------------------------------------------

    def append(self, entries: Sequence[NewEntry], now_ms: int) -> None:
        """The last entry of each token is what its client waits for."""
        self._write(tuple(entries), now_ms + self._member.config.append_wait_ms)

    def _write(self, entries: tuple[NewEntry, ...], until_ms: int | None) -> None:
        first = self._member.log.last.index + 1
        for at, entry in enumerate(entries):
            if entry.token is not None and until_ms is not None:
                self.waiters.add(entry.token, first + at, until_ms)
        self._unwritten.append(first)
        self._member.emit(AppendAsLeader(self._term, entries))

    def appended(self, failure: Code | None) -> None:
        """The entries handed over before are in the log, up to its end."""
        first = self._unwritten.pop(0)
        if failure is None:
            return
        end = self._member.log.last.index
        self.failed = self.failed or first == self._first_index
        for waiter in self.waiters.not_written(end + 1):
            self._done(waiter, failure)

    # -- reads ---------------------------------------------------------------------------------

    def read(self, token: object, now_ms: int) -> None:
        """How far the log is committed, once a majority is known to follow still."""
        until_ms = now_ms + self._member.config.append_wait_ms
        self.reads.add(Reading(token, self._member.committed, self.pulse.sent, until_ms))

    def _settle_reads(self, now_ms: int) -> None:
        for reading in self.reads.answered(self.pulse.confirmed.values()):
            self._read_done(reading, Code.SUCCESS)
        if self.reads:
            self.pulse.hurry(self.reads.oldest_mark, now_ms)

    def _read_done(self, reading: Reading, code: Code) -> None:
        leader_id = self._member.standing.leader_id
        index = reading.index if code is Code.SUCCESS else NONE
        self._member.emit(ReadDone(reading.token, code, index, self._term, leader_id))

    # -- time and answers ----------------------------------------------------------------------

    def tick(self, now_ms: int) -> None:
        self.pulse.tick(now_ms)
        for waiter in self.waiters.too_late(now_ms):
            self._done(waiter, Code.WAIT_QUORUM_ACK_TIMEOUT)
        for reading in self.reads.too_late(now_ms):
            self._read_done(reading, Code.WAIT_QUORUM_ACK_TIMEOUT)

    def settle(self, now_ms: int) -> None:
        """Commit what a majority holds, and send on what is new."""
        member = self._member
        index = leader_commits(member.log, self.held(), self._term, member.committed)
        if member.commit(index):
            for waiter in self.waiters.committed(member.committed):
                self._done(waiter, Code.SUCCESS)
        if not self.ready and not self.failed and member.committed >= self._first_index:
            self.ready = True
            member.emit(LeaderReady(self._term))
        self._settle_reads(now_ms)
        for dispatcher in self.dispatchers.values():
            dispatcher.pump(now_ms)

    def end(self) -> None:
        """It leads no more: what was not committed may still be, by another leader."""
        for dispatcher in self.dispatchers.values():
            dispatcher.end()
        for waiter in self.waiters.all():
            self._done(waiter, Code.TERM_CHANGED)
        for reading in self.reads.all():
            self._read_done(reading, Code.TERM_CHANGED)

    def _done(self, waiter: Waiter, code: Code) -> None:
        leader_id = self._member.standing.leader_id
        index = NONE if code is Code.DISK_FULL else waiter.index
        self._member.emit(AppendDone(waiter.token, code, index, self._term, leader_id))

    def _match_of(self, peer: str) -> int:
        return self.dispatchers[peer].match_index

    def _seen_end(self, peer: str, end: Place, match: int, now_ms: int) -> None:
        self.dispatchers[peer].seen_end(end, match, now_ms)
