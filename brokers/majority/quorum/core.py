"""One member of a majority group, without sockets, files or clocks.

Responsible for: the inputs of a member, each handed to the role that stands, and how roles change.
Refuses to know: how effects are performed, what a role does (leadership.py, handler.py,
candidacy.py), what clients ask beside appends.

The shell calls one method at a time, performs the returned effects in order, and only then calls
the next one. Times are ms of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from brokers.majority.entry import NONE
from brokers.majority.log_port import MajorityLog, Taken, TermAndVote
from brokers.majority.quorum import heartbeats, votes
from brokers.majority.quorum.candidacy import Candidacy
from brokers.majority.quorum.commit import droppable
from brokers.majority.quorum.config import Durability, QuorumConfig
from brokers.majority.quorum.effects import (
    Answer,
    AppendDone,
    Effect,
    Flush,
    LeaveGroup,
    NewEntry,
    ReadDone,
    RoleChanged,
)
from brokers.majority.quorum.handing_over import HandingOver
from brokers.majority.quorum.handler import Handler
from brokers.majority.quorum.leadership import Leadership
from brokers.majority.quorum.member import Member
from brokers.majority.quorum.standing import Role, Standing
from brokers.majority.wire.codes import Code, VoteResult
from brokers.majority.wire.messages import (
    HeartBeatRequest,
    HeartBeatResponse,
    PushRequest,
    PushResponse,
    Request,
    Response,
    TransferRequest,
    VoteRequest,
    VoteResponse,
)
from brokers.store.files.errors import LogError


class QuorumCore:
    """Starts as a candidate, with the term and vote that were saved. `chance()`: evenly from 0 up
    to 1.
    """

    def __init__(
        self,
        config: QuorumConfig,
        log: MajorityLog,
        saved: TermAndVote,
        now_ms: int,
        chance: Callable[[], float],
    ) -> None:
        self.config = config
        self.left: str | None = None
        self._member = Member(config, log, saved, chance)
        self._leadership: Leadership | None = None
        self._handler: Handler | None = None
        self._candidacy: Candidacy | None = Candidacy(self._member, now_ms, saved.term)
        self._heard_ms = now_ms
        self._handing = HandingOver(self._member, now_ms)
        self._flushing = False
        self._flushed_ms = now_ms

    # -- what others may know ---------------------------------------------------------------------

    @property
    def standing(self) -> Standing:
        return self._member.standing

    @property
    def committed(self) -> int:
        return self._member.committed

    @property
    def heard_ms(self) -> int:
        """When it heard a leader's word last, by its clock; its start where it heard none."""
        return self._heard_ms

    @property
    def ready(self) -> bool:
        """Whether it leads and takes appends, as far as it knows: `read` makes sure."""
        return self._leadership is not None and self._leadership.ready

    @property
    def pending(self) -> int:
        """Appends that wait for a majority."""
        return 0 if self._leadership is None else len(self._leadership.waiters)

    def unanswered_bytes(self) -> dict[str, int]:
        """Bytes of entries under way to each peer; none where it does not lead."""
        leading = self._leadership
        if leading is None:
            return {}
        return {peer: one.unanswered_bytes for peer, one in leading.dispatchers.items()}

    def followers(self, now_ms: int) -> dict[str, tuple[int, bool]]:
        """By peer: up to which entry it holds this leader's log (-1: not known), and whether it
        follows, by one of its last answers; none where this member does not lead.
        """
        leading = self._leadership
        if leading is None:
            return {}
        pulse = leading.pulse
        return {
            peer: (one.match_index, pulse.confirmed[peer] > 0 and pulse.is_alive(peer, now_ms))
            for peer, one in leading.dispatchers.items()
        }

    def droppable(self, applied: int) -> int:
        """Entries below this index may be cleaned; `applied`: up to here they were made use of."""
        leading = self._leadership
        held = [] if leading is None else leading.held()
        return droppable(self._member.log, min(applied, self._member.committed), held)

    # -- clients -------------------------------------------------------------------------------

    def append_refusal(self) -> Code | None:
        """Why an append is refused now, before anything is written."""
        leading = self._leadership
        if leading is None or self.left is not None:
            return Code.NOT_LEADER
        if self._handing.leads:
            return Code.LEADER_TRANSFERRING
        if len(leading.waiters) > self.config.pending_max:
            return Code.LEADER_PENDING_FULL
        return None if leading.ready else Code.LEADER_NOT_READY

    def append(self, token: object, bodies: Sequence[NewEntry], now_ms: int) -> list[Effect]:
        """Entries that follow each other; the last one of them has the token, and is waited for.
        Answered by AppendDone.
        """
        refused = self.append_refusal() if bodies else Code.REQUEST_WITH_EMPTY_BODYS
        if refused is not None:
            standing = self.standing
            self._member.emit(AppendDone(token, refused, NONE, standing.term, standing.leader_id))
        else:
            assert self._leadership is not None
            self._leadership.append(bodies, now_ms)
        return self._settle(now_ms)

    def read_refusal(self) -> Code | None:
        """Why a read is refused now."""
        leading = self._leadership
        if leading is None or self.left is not None:
            return Code.NOT_LEADER
        if len(leading.reads) > self.config.pending_max:
            return Code.LEADER_PENDING_FULL
        return None if leading.ready else Code.LEADER_NOT_READY

    def read(self, token: object, now_ms: int) -> list[Effect]:
        """How far the log is committed, by the group's word and not by this member's alone.
        Answered by ReadDone.
        """
        refused = self.read_refusal()
        if refused is not None:
            standing = self.standing
            self._member.emit(ReadDone(token, refused, NONE, standing.term, standing.leader_id))
        else:
            assert self._leadership is not None
            self._leadership.read(token, now_ms)
        return self._settle(now_ms)

    def appended(self, failure: Code | None, now_ms: int) -> list[Effect]:
        """Answer to AppendAsLeader: all entries are in the log; or those up to its end, and why not
        the rest.
        """
        if self._leadership is not None:
            self._leadership.appended(failure)
        return self._settle(now_ms)

    # -- peers ---------------------------------------------------------------------------------

    def request(self, token: object, request: Request, now_ms: int) -> list[Effect]:
        """Of another member; answered by an Answer with this token, sooner or later."""
        wrong = self._misdirected(request)
        match request:
            case VoteRequest():
                self._vote(token, request, wrong, now_ms)
            case HeartBeatRequest():
                self._heartbeat(token, request, wrong, now_ms)
            case PushRequest():
                self._push(token, request, wrong, now_ms)
            case TransferRequest():
                self._transfer(token, request, wrong, now_ms)
            case _:
                raise ValueError(f"{type(request).__name__} is for a member's clients")
        return self._settle(now_ms)

    def answered(self, token: int, answer: Response | None, now_ms: int) -> list[Effect]:
        """Answer to a Send; None: none came in time, or the connection is lost."""
        self._member.answered(token, answer, now_ms)
        return self._settle(now_ms)

    def taken(self, taken: Taken, count: int, now_ms: int) -> list[Effect]:
        """Answer to AppendAsFollower and RestartAt: `count` entries are in the log, and this came
        of the last that was tried.
        """
        if self._handler is not None:
            self._guarded(lambda handler: handler.taken(taken, count, now_ms))
        return self._settle(now_ms)

    # -- disk and time -------------------------------------------------------------------------

    def flushed(self, now_ms: int) -> list[Effect]:
        """Answer to Flush: `flushed_index` says how far."""
        self._flushing = False
        self._flushed_ms = now_ms
        return self._settle(now_ms)

    def storage_failed(self, reason: str, now_ms: int) -> list[Effect]:
        """The disk refused an effect: nothing is promised any more."""
        self._member.emit(LeaveGroup(reason))
        return self._settle(now_ms)

    def tick(self, now_ms: int) -> list[Effect]:
        """Time passes; call about every 10 ms."""
        config = self.config
        if self.left is not None:
            return []
        if self._handler is not None:
            self._handler.tick(now_ms)
            if now_ms - self._heard_ms > config.silence_ms:
                self._become_candidate(now_ms, self.standing.term, "its leader was silent")
        if self._leadership is not None:
            self._tick_leader(self._leadership, now_ms)
        self._take_over_if_due(now_ms)
        if self._candidacy is not None:
            self._candidacy.tick(now_ms)
        return self._settle(now_ms)

    def transfer(self, token: object, transferee: str, now_ms: int) -> list[Effect]:
        """Hand over to this member, as an operator of this process asks."""
        request = TransferRequest(
            group=self.config.group, remote_id=self.config.self_id, term=self.standing.term,
            transfer_id=self.config.self_id, transferee_id=transferee,
        )  # fmt: skip
        return self.request(token, request, now_ms)

    # -- votes and heartbeats ------------------------------------------------------------------

    def _misdirected(self, request: Request) -> Code | None:
        if self.left is not None:
            return Code.INTERNAL_ERROR
        if request.group != self.config.group:
            return Code.UNKNOWN_GROUP
        return None if request.remote_id == self.config.self_id else Code.UNKNOWN_MEMBER

    def _vote(self, token: object, request: VoteRequest, wrong: Code | None, now_ms: int) -> None:
        member, result = self._member, VoteResult.UNKNOWN
        if wrong is None:
            candidate, term = request.leader_id, request.term
            taking = self._candidacy is not None and self._candidacy.taking
            result = votes.judge(member.voter(taking), candidate, term, request.end, own=False)
            if result is VoteResult.ACCEPT:
                self._give_vote(candidate, term, now_ms)
        term = member.standing.term
        if result is VoteResult.REJECT_TERM_SMALL_THAN_LEDGER:
            term = max(term, member.log.last.term)
        answer = VoteResponse(
            group=self.config.group, remote_id=request.remote_id, local_id=request.local_id,
            leader_id=request.leader_id, code=wrong or Code.SUCCESS, term=term, result=result,
        )  # fmt: skip
        member.emit(Answer(token, answer))

    def _give_vote(self, candidate: str | None, term: int, now_ms: int) -> None:
        standing, transferee = self.standing, self._handing.transferee
        if term > standing.term:
            self._member.stand(Role.CANDIDATE, term, candidate, None)
            self._end_role()
            self._candidacy = Candidacy(self._member, now_ms, term)
            handed = transferee is not None and transferee == candidate
            does = "it handed over to" if handed else f"it voted in term {term} for"
            why = f"{does} {candidate}"
            self._member.emit(RoleChanged(self.standing, why))
        else:
            self._member.stand(standing.role, term, candidate, standing.leader_id)

    def _heartbeat(
        self, token: object, request: HeartBeatRequest, wrong: Code | None, now_ms: int
    ) -> None:
        code = wrong or self._follow(request, now_ms)
        answer = HeartBeatResponse(
            group=self.config.group, remote_id=request.local_id, local_id=self.config.self_id,
            leader_id=request.leader_id, code=code, term=self.standing.term,
            end=self._member.log.last,
        )  # fmt: skip
        self._member.emit(Answer(token, answer))

    def _follow(self, said: HeartBeatRequest | PushRequest, now_ms: int) -> Code:
        """Whether it is the leader's word; then it is followed from here on."""
        code = heartbeats.judge(self.standing, self.config.members, self.config.self_id, said)
        if code is Code.INCONSISTENT_LEADER:
            self._member.report("two_leaders", leader=self.standing.leader_id, other=said.leader_id)
        if code is not Code.SUCCESS:
            return code
        if self.standing.leader_id is None or said.term > self.standing.term:
            self._become_follower(said.term, said.leader_id)
        self._heard_ms = now_ms
        return code

    def _push(self, token: object, push: PushRequest, wrong: Code | None, now_ms: int) -> None:
        code = wrong or self._follow(push, now_ms)
        if code is Code.SUCCESS:
            self._guarded(lambda handler: handler.push(token, push, now_ms))
            return
        last = self._member.log.last
        answer = PushResponse(
            group=self.config.group, remote_id=push.local_id, local_id=self.config.self_id,
            leader_id=push.leader_id, code=code,
            term=self.standing.term if code is Code.EXPIRED_TERM else push.term,
            index=push.first_index, begin_index=self._member.log.first_index,
            end_index=last.index, end_term=last.term,
        )  # fmt: skip
        self._member.emit(Answer(token, answer))

    def _guarded(self, step: Callable[[Handler], None]) -> None:
        """A log that cannot read its own entries cannot say whether it is the leader's."""
        assert self._handler is not None
        try:
            step(self._handler)
        except LogError as error:
            self._member.emit(LeaveGroup(f"the log is damaged: {error}"))

    # -- roles ---------------------------------------------------------------------------------

    def _end_role(self) -> None:
        if self._leadership is not None:
            self._leadership.end()
        if self._handler is not None:
            self._handler.drop()
        self._leadership = self._handler = self._candidacy = None

    def _become_follower(self, term: int, leader_id: str | None) -> None:
        voted_for = self._member.vote_of(term)
        self._member.stand(Role.FOLLOWER, term, voted_for, leader_id)
        self._end_role()
        self._handler = Handler(self._member)
        self._member.emit(RoleChanged(self.standing, f"{leader_id} leads term {term}"))

    def _become_candidate(
        self, now_ms: int, known_term: int, why: str, raises: bool = False, taking: bool = False
    ) -> None:
        standing = self.standing
        self._member.stand(Role.CANDIDATE, standing.term, standing.voted_for, None)
        self._end_role()
        self._candidacy = Candidacy(self._member, now_ms, known_term, raises, taking)
        # A term that is to be raised is raised now: until then the old leader's next word would
        # make a follower of it again.
        self._candidacy.tick(now_ms)
        self._member.emit(RoleChanged(self.standing, why))

    def _become_leader(self, now_ms: int) -> None:
        own = self.config.self_id
        self._end_role()
        self._member.stand(Role.LEADER, self.standing.term, own, own)
        self._handing.begin_to_lead(now_ms)
        self._member.emit(RoleChanged(self.standing, "a majority voted for it"))
        self._leadership = Leadership(self._member, now_ms)
        self._leadership.tick(now_ms)

    def _tick_leader(self, leading: Leadership, now_ms: int) -> None:
        leading.tick(now_ms)
        why = leading.why_over(now_ms)
        if why is not None:
            self._become_candidate(now_ms, self.standing.term, why)
        self._handing.tick_leader(leading, now_ms)

    # -- handing over --------------------------------------------------------------------------

    def _transfer(
        self, token: object, request: TransferRequest, wrong: Code | None, now_ms: int
    ) -> None:
        if wrong is None:
            wrong = self._handing.request(token, request, self._leadership, now_ms)
        if wrong is not None:
            self._handing.answer(token, wrong)
        self._take_over_if_due(now_ms)

    def _take_over_if_due(self, now_ms: int) -> None:
        term = self._handing.stands_now(now_ms)
        if term is not None:
            why = "it was asked to take over"
            self._become_candidate(now_ms, term, why, raises=True, taking=True)

    # -- after every input ---------------------------------------------------------------------

    def _settle(self, now_ms: int) -> list[Effect]:
        """What follows from what has just been learned."""
        self._leave_if_asked()
        if self._candidacy is not None and self._candidacy.won:
            self._become_leader(now_ms)
        leading = self._leadership
        if leading is not None:
            if leading.larger_term > self.standing.term:
                why = f"a member named term {leading.larger_term}"
                self._become_candidate(now_ms, leading.larger_term, why)
            else:
                leading.settle(now_ms)
        if self._handler is not None:
            self._handler.flushed()
        self._handing.settle()
        self._flush_if_due(now_ms)
        self._leave_if_asked()
        return self._member.take_effects()

    def _flush_if_due(self, now_ms: int) -> None:
        member = self._member
        if self._flushing or self.left is not None:
            return
        dirty = member.log.last.index > member.log.flushed_index
        if self.config.durability is Durability.WRITTEN:
            due = now_ms - self._flushed_ms >= self.config.flush_interval_ms
        else:
            due = self._leadership is not None or (
                self._handler is not None and self._handler.waits_for_flush
            )
        if dirty and due:
            self._flushing = True
            member.emit(Flush())

    def _leave_if_asked(self) -> None:
        """After the first word of it nothing is promised: this member only says no."""
        if self.left is not None:
            return
        reason = next((e.reason for e in self._member.effects if isinstance(e, LeaveGroup)), None)
        if reason is None:
            return
        self.left = reason
        standing = self.standing
        self._member.stand(Role.CANDIDATE, standing.term, standing.voted_for, None)
        self._end_role()
        self._handing.leave()
        self._member.emit(RoleChanged(self.standing, reason))
