"""A follower's side of pushes: one at a time, each answered.

Responsible for: what is taken into the log, what is cut for it, what waits, and the answers
(PROTOCOL 10.6, 10.7). Refuses to know: whether a leader is one (heartbeats.py judges that first),
and how the log is written.

`same_to` is the index up to which this log is known to be the leader's of the present term.
Nothing up to it is ever cut, and nothing behind it is ever committed.
"""

from __future__ import annotations

from msgspec import Struct

from brokers.majority.entry import NONE, Entry, Place, same
from brokers.majority.log_port import Taken
from brokers.majority.quorum.commit import follower_commits
from brokers.majority.quorum.effects import Answer, AppendAsFollower, LeaveGroup, RestartAt
from brokers.majority.quorum.member import Member
from brokers.majority.quorum.parked import ParkedPushes
from brokers.majority.wire.codes import Code, PushType
from brokers.majority.wire.messages import PushRequest, PushResponse

_CODES = {
    Taken.APPENDED: Code.SUCCESS,
    Taken.HELD: Code.SUCCESS,
    Taken.GAP: Code.INCONSISTENT_STATE,
    Taken.CONFLICT: Code.INCONSISTENT_STATE,
    Taken.MISPLACED: Code.DISK_ERROR,
    Taken.UNFIT: Code.UNEXPECTED_ARGUMENT,
    Taken.DISK_FULL: Code.DISK_FULL,
    Taken.BROKEN: Code.DISK_ERROR,
}


class _Offered(Struct, frozen=True):
    """Entries that were handed to the log; `held`: how many of the push were there already."""

    token: object
    push: PushRequest
    entries: tuple[Entry, ...]
    held: int
    restarts: bool = False


class _Held(Struct, frozen=True):
    """An answer that waits until the log is on the disk up to `through`."""

    token: object
    push: PushRequest
    through: int
    count: int


class Handler:
    """Of one leader in one term; a new one begins with each."""

    def __init__(self, member: Member) -> None:
        config = member.config
        last = member.log.last
        # Only the leader of a term writes entries of it, each behind the same log.
        self.same_to = last.index if last.term == member.standing.term else member.committed
        self._member = member
        self._parked = ParkedPushes(config.parked_entries_max, config.parked_bytes_max)
        self._offered: _Offered | None = None
        self._unflushed: list[_Held] = []

    @property
    def waits_for_flush(self) -> bool:
        return bool(self._unflushed)

    def push(self, token: object, push: PushRequest, now_ms: int) -> None:
        """One of the leader's, of its term."""
        match push.type:
            case PushType.APPEND:
                self._append(token, push, now_ms)
            case PushType.COMPARE:
                self._send_parked_away()
                self._compare(token, push)
            case PushType.TRUNCATE:
                self._send_parked_away()
                self._truncate(token, push)
            case PushType.COMMIT:
                self._commit(push)
                self._answer(token, push, Code.SUCCESS)

    def tick(self, now_ms: int) -> None:
        """A push that waits too long says that something is missing."""
        while old := self._parked.older_than(now_ms - self._member.config.parked_ms):
            self._answer(old.token, old.push, self._gap(old.push))

    def flushed(self) -> None:
        """More of the log may be on the disk."""
        held = self._member.held_index
        done = [one for one in self._unflushed if one.through <= held]
        self._unflushed = [one for one in self._unflushed if one.through > held]
        for one in done:
            self._answer(one.token, one.push, Code.SUCCESS, one.count)

    def drop(self) -> None:
        """This leader's time is over: everything that waits hears so."""
        waiting = [(one.token, one.push) for one in self._parked.clear()]
        waiting += [(one.token, one.push) for one in self._unflushed]
        self._unflushed = []
        for token, push in waiting:
            over = self._member.standing.term > push.term
            self._answer(token, push, Code.EXPIRED_TERM if over else Code.NOT_FOLLOWER)

    # -- append --------------------------------------------------------------------------------

    def _append(self, token: object, push: PushRequest, now_ms: int) -> None:
        if push.first_index > self._member.last.index + 1:
            fits, replaced = self._parked.park(token, push, now_ms)
            if replaced is not None:
                self._answer(replaced.token, replaced.push, Code.REPEATED_PUSH)
            if not fits:
                self._answer(token, push, Code.PUSH_REQUEST_IS_FULL)
            return
        self._offer(token, push)

    def _offer(self, token: object, push: PushRequest) -> None:
        if push.entries[-1].term > push.term:
            self._answer(token, push, Code.UNEXPECTED_ARGUMENT)
            return
        if not self._follows(push):
            self._answer(token, push, Code.INCONSISTENT_STATE)
            return
        held = 0
        for entry in push.entries:
            if not self._holds(entry):
                break
            held += 1
        rest = push.entries[held:]
        self.same_to = max(self.same_to, push.first_index + held - 1)
        if not rest:
            self._commit(push)
            self._answer_flushed(token, push, push.last_index, held)
            return
        if not self._makes_room_for(rest[0].index):
            self._answer(token, push, Code.INCONSISTENT_STATE)
            return
        self._offered = _Offered(token, push, rest, held)
        self._member.emit(AppendAsFollower(rest))

    def _follows(self, push: PushRequest) -> bool:
        """Whether the entry before the first one is the leader's."""
        before = push.first_index - 1
        if before <= max(self.same_to, self._member.committed):
            return True
        previous = push.previous
        if previous is None or previous.index != before:
            return False
        return self._member.log.term_of(before) == previous.term

    def _holds(self, entry: Entry) -> bool:
        """Whether it is in this log, the same; what was cleaned here is."""
        log, last = self._member.log, self._member.last
        if last.index == NONE or entry.index > last.index:
            return False
        if entry.index < log.first_index:
            return True
        local = log.get(entry.index)
        return local is not None and same(local, entry)

    def _makes_room_for(self, index: int) -> bool:
        """Cut what conflicts from `index` on, if anything does."""
        member = self._member
        if index > member.last.index:
            return True
        if index <= member.committed:
            self._leave(f"the leader's entry {index} is not the one that is committed here")
            return False
        if index <= self.same_to:
            self._leave(f"entry {index} of one leader in one term is two entries")
            return False
        member.report("truncated", index=index, end=member.last.index)
        member.cut(index)
        return True

    def taken(self, taken: Taken, count: int, now_ms: int) -> None:
        """What became of the entries that were offered: `count` are there, and this came of the
        last that was tried.
        """
        offered, self._offered = self._offered, None
        if offered is None:
            return
        code = _CODES[taken]
        if taken in (Taken.MISPLACED, Taken.UNFIT):
            self._member.report("entry_refused", taken=taken.name, index=offered.push.first_index)
        if taken is Taken.BROKEN:
            self._leave("the disk refused")
        if count:
            self.same_to = max(self.same_to, offered.entries[count - 1].index)
        if count and offered.restarts:
            self._member.commit(offered.push.first_index - 1)
        self._commit(offered.push)
        whole = offered.held + count
        if code is Code.SUCCESS or (whole and taken is not Taken.BROKEN):
            through = offered.push.first_index + whole - 1
            self._answer_flushed(offered.token, offered.push, through, whole)
        else:
            self._answer(offered.token, offered.push, code)
        if code is Code.SUCCESS:
            self._take_parked()

    def _take_parked(self) -> None:
        while self._offered is None:
            one = self._parked.next_up_to(self._member.last.index + 1)
            if one is None:
                return
            self._offer(one.token, one.push)

    # -- compare, truncate, commit -------------------------------------------------------------

    def _compare(self, token: object, push: PushRequest) -> None:
        (entry,) = push.entries
        log = self._member.log
        local = log.get(entry.index) if log.first_index <= entry.index else None
        if local is not None and same(local, entry):
            self.same_to = max(self.same_to, entry.index)
            self._answer_flushed(token, push, entry.index, 1)
            return
        conflict = None
        if local is not None:
            conflict = Place(local.term, self._member.first_of_run(entry.index))
        self._answer(token, push, Code.INCONSISTENT_STATE, conflict=conflict)

    def _truncate(self, token: object, push: PushRequest) -> None:
        (entry,) = push.entries
        index = entry.index
        if self._holds(entry):
            self.same_to = max(self.same_to, index)
            beyond = max(self.same_to, self._member.committed) + 1
            if self._makes_room_for(beyond):
                self._commit(push)
                self._answer_flushed(token, push, index, 1)
            return
        safe = max(self.same_to, self._member.committed)
        if index <= safe:
            self._makes_room_for(index)
        elif index - 1 <= safe and index <= self._member.last.index + 1:
            if self._makes_room_for(index):
                self._offered = _Offered(token, push, (entry,), 0)
                self._member.emit(AppendAsFollower((entry,)))
                return
        elif push.commit_index >= index - 1:
            # All before it is committed, and the leader has it no more: begin with it.
            self._offered = _Offered(token, push, (entry,), 0, restarts=True)
            self._member.report("restarted", index=index, end=self._member.last.index)
            self._member.emit(RestartAt(entry))
            return
        self._answer(token, push, Code.INCONSISTENT_STATE)

    def _commit(self, push: PushRequest) -> None:
        member = self._member
        index = follower_commits(
            member.log, push.commit_index, max(self.same_to, member.committed), push.term,
            member.committed, push.counts_current,
        )  # fmt: skip
        member.commit(index)

    # -- answers -------------------------------------------------------------------------------

    def _answer_flushed(self, token: object, push: PushRequest, through: int, count: int) -> None:
        if through <= self._member.held_index:
            self._answer(token, push, Code.SUCCESS, count)
        else:
            self._unflushed.append(_Held(token, push, through, count))

    def _answer(
        self,
        token: object,
        push: PushRequest,
        code: Code,
        count: int = 0,
        conflict: Place | None = None,
    ) -> None:
        member = self._member
        last = member.last
        answer = PushResponse(
            group=member.config.group, remote_id=push.local_id, local_id=member.config.self_id,
            leader_id=push.leader_id, code=code,
            term=member.standing.term if code is Code.EXPIRED_TERM else push.term,
            index=None if push.type is PushType.COMMIT else push.first_index,
            begin_index=member.log.first_index, end_index=last.index, count=count,
            end_term=last.term, conflict=conflict, takes_binary=True,
        )  # fmt: skip
        member.emit(Answer(token, answer))

    def _gap(self, push: PushRequest) -> Code:
        """Java's leaders compare after one code only."""
        return Code.INCONSISTENT_INDEX if push.counts_current else Code.INCONSISTENT_STATE

    def _send_parked_away(self) -> None:
        for one in self._parked.clear():
            self._answer(one.token, one.push, Code.PUSH_REQUEST_IS_FULL)

    def _leave(self, reason: str) -> None:
        self._member.emit(LeaveGroup(reason))
