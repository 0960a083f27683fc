"""A leader's way to one follower: compare, truncate, append, commit.

Responsible for: which of these is due, the window of pushes, what is sent again and when, what the
follower holds (PROTOCOL 10.6). Refuses to know: other followers, and what is committed because of
it.

Every answer belongs to a session; one of an earlier session says nothing any more. A session ends
when the follower has to be compared again.
"""

from __future__ import annotations

from enum import Enum

from brokers.majority.entry import NONE, Entry, Place
from brokers.majority.quorum.member import Member, Then
from brokers.majority.quorum.search import Found, Search, Seen
from brokers.majority.quorum.window import Sent, Window
from brokers.majority.wire.codes import Code, PushType
from brokers.majority.wire.messages import PushRequest, PushResponse, Response
from brokers.store.files.errors import LogError

_ASKS_TO_COMPARE = (Code.INCONSISTENT_STATE, Code.INCONSISTENT_INDEX)
_DISK = (Code.DISK_FULL, Code.DISK_ERROR)


class Mode(Enum):
    """What the follower is sent."""

    COMPARE = "where the logs agree"
    TRUNCATE = "where its log is to end"
    APPEND = "entries"


class Dispatcher:
    """`match_index`: up to here the follower is known to hold the leader's log, -1: nothing is
    known. `larger_term`: of an answer that refused the leader's.
    """

    def __init__(self, member: Member, peer: str, now_ms: int) -> None:
        self.peer = peer
        self.mode = Mode.COMPARE
        self.match_index = NONE
        self.larger_term = member.standing.term
        self.last_code: int = Code.SUCCESS
        self._member = member
        self._term = member.standing.term
        self._ended = False
        self._session = 0
        self._search = Search()
        self._truncate_at = NONE
        self._asked = False
        self._next_index = NONE
        self._window = Window(member.config.window_entries, member.config.window_bytes)
        self._wait_until_ms = now_ms
        self._last_push_ms = now_ms
        self._takes_binary = False
        self._conflict_at = NONE

    @property
    def unanswered_bytes(self) -> int:
        return self._window.bytes

    def pump(self, now_ms: int) -> None:
        """Whatever is due. Called whenever something may have changed, and with every tick."""
        if self._ended:
            return
        if self.mode is Mode.APPEND:
            # Also while it waits, and when the window is full: nothing stops this timer.
            self._look_at_the_oldest(now_ms)
        if now_ms < self._wait_until_ms:
            return
        try:
            if self.mode is Mode.APPEND:
                self._append(now_ms)
            elif not self._asked:
                self._ask_about_one(now_ms)
        except LogError as error:
            # Its own bytes are damaged here: the others may go on, and a reader says so.
            self._member.report("push_unreadable", peer=self.peer, reason=str(error))
            self.compare(now_ms, self._member.config.retry_pause_ms)

    def end(self) -> None:
        """Its leader leads no more: no answer makes it say another word."""
        self._ended = True
        self._session += 1

    def compare(self, now_ms: int, pause_ms: int = 0) -> None:
        """Nothing is known of the follower any more: a new session begins."""
        self._session += 1
        self.mode = Mode.COMPARE
        self.match_index = NONE
        self._search = Search()
        self._asked = False
        self._window.clear()
        self._wait_until_ms = now_ms + pause_ms

    def seen_end(self, end: Place, match: int, now_ms: int) -> None:
        """Where the follower's log ends, asked when it had acknowledged `match`: one that is
        shorter than that has lost something, whatever it acknowledged.
        """
        if self.mode is not Mode.APPEND or self.match_index < 0:
            return
        term = self._member.log.term_of(end.index)
        if end.index < match or (term is not None and end.index <= match and term != end.term):
            self._member.report("follower_shrank", peer=self.peer, end=end.index, held=match)
            self.compare(now_ms)

    # -- compare and truncate ------------------------------------------------------------------

    def _ask_about_one(self, now_ms: int) -> None:
        log = self._member.log
        if log.last.index == NONE:
            return
        if self.mode is Mode.COMPARE:
            at = self._search.look_at(log.first_index, log.last.index)
        else:
            at = self._truncate_at
        entry = log.get(at)
        if entry is None:  # cleaned in the meantime
            self.compare(now_ms)
            return
        kind = PushType.COMPARE if self.mode is Mode.COMPARE else PushType.TRUNCATE
        self._asked = True
        self._push(kind, (entry,), None, now_ms, self._hears_of_one(self._session, at))

    def _hears_of_one(self, session: int, at: int) -> Then:
        def hear(answer: Response | None, now_ms: int) -> None:
            if session != self._session or not self._asked:
                return
            self._asked = False
            if not isinstance(answer, PushResponse):
                self.compare(now_ms, self._member.config.retry_pause_ms)
                return
            self._learn(answer)
            if self.mode is Mode.COMPARE and answer.code in (Code.SUCCESS, *_ASKS_TO_COMPARE):
                self._compared(answer)
                self.pump(now_ms)
            elif self.mode is Mode.TRUNCATE and answer.code == Code.SUCCESS:
                self._append_behind(at)
                self.pump(now_ms)
            else:
                self.compare(now_ms, self._pause_for(answer.code))

        return hear

    def _compared(self, answer: PushResponse) -> None:
        log = self._member.log
        same = answer.code == Code.SUCCESS
        seen = Seen(same, answer.begin_index, answer.end_index, self._jump(answer))
        found, at = self._search.saw(seen, log.first_index, log.last.index)
        if found is Found.APPEND:
            self._append_behind(at)
        elif found is Found.TRUNCATE:
            self.mode, self._truncate_at = Mode.TRUNCATE, at

    def _jump(self, answer: PushResponse) -> int | None:
        """By the follower's run of entries that conflicts: the leader's last entry of that term in
        it; where it has none, what stands before the run.
        """
        run = answer.conflict
        if run is None:
            return None
        at = self._search.index
        last = self._member.last_of_term(run.term, at)
        return last if last is not None and last >= run.index else run.index - 1

    def _append_behind(self, index: int) -> None:
        self.mode = Mode.APPEND
        self.match_index = index
        self._next_index = index + 1

    # -- append and commit ---------------------------------------------------------------------

    def _look_at_the_oldest(self, now_ms: int) -> None:
        oldest_ms = self._window.oldest_ms()
        if oldest_ms is not None and now_ms - oldest_ms > self._member.config.push_timeout_ms:
            self._again_from_match()

    def _again_from_match(self, until_ms: int | None = None) -> None:
        self._window.clear()
        self._next_index = self.match_index + 1
        if until_ms is not None:
            self._wait_until_ms = until_ms

    def _append(self, now_ms: int) -> None:
        log, config = self._member.log, self._member.config
        while self._next_index <= log.last.index:
            entries_room, bytes_room = self._window.room
            if entries_room <= 0 or bytes_room <= 0:
                return
            if self._next_index < log.first_index:
                self.compare(now_ms)
                return
            most = min(config.batch_entries, entries_room) if config.batches else 1
            entries = tuple(log.read(self._next_index, most, min(config.batch_bytes, bytes_room)))
            if not entries:
                return
            self._send_entries(entries, now_ms)
        silent_ms = now_ms - self._last_push_ms
        if not self._window and silent_ms >= config.commit_silence_ms:
            self._push(
                PushType.COMMIT,
                (),
                None,
                now_ms,
                self._hears_commit(self._session, self.match_index),
            )

    def _send_entries(self, entries: tuple[Entry, ...], now_ms: int) -> None:
        first, last = entries[0].index, entries[-1].index
        sent = Sent(first, last, sum(entry.size for entry in entries), now_ms)
        self._window.add(sent)
        self._next_index = last + 1
        before = self._member.log.term_of(first - 1) if first else NONE
        previous = None if before is None else Place(before, first - 1)
        self._push(
            PushType.APPEND, entries, previous, now_ms, self._hears_entries(self._session, sent)
        )

    def _hears_entries(self, session: int, sent: Sent) -> Then:
        def hear(answer: Response | None, now_ms: int) -> None:
            if session != self._session:
                return
            if not isinstance(answer, PushResponse):
                if sent in self._window:
                    self._again_from_match(now_ms + self._member.config.retry_pause_ms)
                return
            self._learn(answer)
            if answer.code == Code.SUCCESS:
                self._taken(sent, answer)
                self.pump(now_ms)
            elif answer.code in _ASKS_TO_COMPARE:
                self._conflict(sent.first, now_ms)
                self.pump(now_ms)
            elif sent in self._window:
                self._again_from_match(now_ms + self._pause_for(answer.code))

        return hear

    def _conflict(self, first: int, now_ms: int) -> None:
        """At once; the second time at the same place after a pause: a follower of Java says so for
        a full disk, and for a term that it is not in yet.
        """
        again = first == self._conflict_at
        self._conflict_at = first
        self.compare(now_ms, self._member.config.retry_pause_ms if again else 0)

    def _taken(self, sent: Sent, answer: PushResponse) -> None:
        """Old peers leave out how many they took; then their end says it."""
        one = sent.first == sent.last
        by_end = sent.last if one else min(sent.last, answer.end_index)
        last = min(sent.last, sent.first + answer.count - 1) if answer.count else by_end
        self.match_index = max(self.match_index, last)
        still_out = sent in self._window
        self._window.held(self.match_index)
        if last < sent.last and still_out:
            self._again_from_match()

    def _hears_commit(self, session: int, match: int) -> Then:
        def hear(answer: Response | None, now_ms: int) -> None:
            if session != self._session or not isinstance(answer, PushResponse):
                return
            self._learn(answer)
            if answer.code == Code.SUCCESS:
                end_term = answer.end_term
                if end_term is None:  # Java's does not say it: only its index is looked at
                    end_term = self._member.log.term_of(answer.end_index)
                end = Place(NONE if end_term is None else end_term, answer.end_index)
                self.seen_end(end, match, now_ms)
            elif answer.code in _ASKS_TO_COMPARE:
                self.compare(now_ms)

        return hear

    # -- both ----------------------------------------------------------------------------------

    def _push(
        self,
        kind: PushType,
        entries: tuple[Entry, ...],
        previous: Place | None,
        now_ms: int,
        then: Then,
    ) -> None:
        member = self._member
        self._last_push_ms = now_ms
        request = PushRequest(
            group=member.config.group, remote_id=self.peer, local_id=member.config.self_id,
            leader_id=member.config.self_id, term=self._term, type=kind,
            commit_index=member.committed, entries=entries, previous=previous, counts_current=True,
        )  # fmt: skip
        member.ask(self.peer, request, then, self._takes_binary and bool(entries))

    def _learn(self, answer: PushResponse) -> None:
        self._takes_binary = answer.takes_binary
        if answer.code == Code.EXPIRED_TERM:
            self.larger_term = max(self.larger_term, answer.term)
        if answer.code in _DISK and self.last_code != answer.code:
            self._member.report("follower_disk", peer=self.peer, code=answer.code)
        self.last_code = answer.code

    def _pause_for(self, code: int) -> int:
        config = self._member.config
        return config.disk_full_pause_ms if code in _DISK else config.retry_pause_ms
