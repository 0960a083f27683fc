"""Both sides of a hand-over under way: the leader's, and that of the member that takes over.

Responsible for: when each begins, ends and is undone, and what is answered (PROTOCOL 10.9). Refuses
to know: who may be handed over to (transfer.py), and how an election is won.
"""

from __future__ import annotations

from dataclasses import replace

from brokers.majority.quorum import transfer
from brokers.majority.quorum.effects import Answer
from brokers.majority.quorum.leadership import Leadership
from brokers.majority.quorum.member import Member
from brokers.majority.quorum.standing import Role
from brokers.majority.quorum.transfer import Handover, Taking
from brokers.majority.wire.codes import Code
from brokers.majority.wire.messages import Response, TransferRequest, TransferResponse


class HandingOver:
    """One of each at a time. `leads`: a hand-over is under way here, no append is taken."""

    def __init__(self, member: Member, now_ms: int) -> None:
        self._member = member
        self._handover: Handover | None = None
        self._taking: Taking | None = None
        self._pause_ms = member.config.preferred_check_ms
        self._look_ms = now_ms + self._pause_ms

    @property
    def leads(self) -> bool:
        return self._handover is not None

    @property
    def transferee(self) -> str | None:
        """Who a hand-over that is under way here goes to."""
        return None if self._handover is None else self._handover.transferee

    def request(
        self, token: object, request: TransferRequest, leading: Leadership | None, now_ms: int
    ) -> Code | None:
        """To hand over, or to take over. Why not; None: it is answered later."""
        own = self._member.config.self_id
        if request.transfer_id == own:
            to = request.transferee_id or ""
            return self._hand_over(token, to, request.term, leading, now_ms)
        if request.transferee_id == own:
            return self._take_over(token, request, now_ms)
        return Code.UNEXPECTED_ARGUMENT

    def answer(self, token: object, code: Code) -> None:
        """What became of a request."""
        config, standing = self._member.config, self._member.standing
        answer = TransferResponse(
            group=config.group, local_id=config.self_id, code=code, leader_id=standing.leader_id,
            term=standing.term,
        )  # fmt: skip
        self._member.emit(Answer(token, answer))

    # -- the leader ----------------------------------------------------------------------------

    def begin_to_lead(self, now_ms: int) -> None:
        """A new leader looks for a preferred member after a while."""
        self._look_ms = now_ms + self._member.config.preferred_check_ms

    def tick_leader(self, leading: Leadership, now_ms: int) -> None:
        """Undo what takes too long, and look whether another one should lead."""
        if self._handover is not None and now_ms >= self._handover.until_ms:
            self._handed_over(Code.TIMEOUT)
        if now_ms < self._look_ms:
            return
        self._look_ms = now_ms + self._pause_ms
        if self._handover is not None:
            return
        config = self._member.config
        alive = [one for one in config.peers if leading.pulse.is_alive(one, now_ms)]
        best = transfer.best_preferred(config, alive, leading.lag_of)
        if best is not None:
            self._hand_over(None, best, self._member.standing.term, leading, now_ms)

    def _hand_over(
        self, token: object, to: str, term: int, leading: Leadership | None, now_ms: int
    ) -> Code | None:
        member, config = self._member, self._member.config
        lag = None if leading is None else leading.lag_of(to)
        refused = transfer.refusal(config, member.standing, term, to, lag, self._handover)
        if refused is not None:
            return refused
        handover = Handover(token, to, term, now_ms + config.call_ms)
        self._handover = handover
        own = config.self_id
        request = TransferRequest(
            group=config.group, remote_id=to, local_id=own, leader_id=own, term=term,
            transfer_id=own, transferee_id=to, ledger_index=member.log.last.index,
        )  # fmt: skip

        def hear(answer: Response | None, now_ms: int) -> None:
            if self._handover is handover:
                code = answer.code if isinstance(answer, TransferResponse) else Code.NETWORK_ERROR
                self._handed_over(code)

        member.ask(to, request, hear)
        return None

    def _handed_over(self, code: int) -> None:
        """Done or undone: a leader that still leads takes appends again."""
        handover, self._handover = self._handover, None
        assert handover is not None
        config = self._member.config
        known = Code(code) if code in set(Code) else Code.UNKNOWN
        if known is not Code.SUCCESS:
            self._pause_ms = min(2 * self._pause_ms, config.preferred_pause_max_ms)
            self._member.report("handover_failed", transferee=handover.transferee, code=code)
        else:
            self._pause_ms = config.preferred_check_ms
        if handover.token is not None:
            self.answer(handover.token, known)

    # -- who takes over --------------------------------------------------------------------------

    def _take_over(self, token: object, request: TransferRequest, now_ms: int) -> Code | None:
        config, standing = self._member.config, self._member.standing
        if request.term != standing.term:
            return Code.INCONSISTENT_TERM
        if standing.role is not Role.FOLLOWER or request.local_id != standing.leader_id:
            return Code.INCONSISTENT_LEADER
        if self._taking is not None:
            return Code.LEADER_TRANSFERRING
        until_ms = now_ms + config.transfer_wait_ms
        self._taking = Taking(token, request.term, request.ledger_index, until_ms)
        return None

    def stands_now(self, now_ms: int) -> int | None:
        """The term to stand for, once the log has everything; or the wait is over."""
        taking, standing = self._taking, self._member.standing
        if taking is None or taking.stands:
            return None
        if standing.role is not Role.FOLLOWER or standing.term != taking.term:
            self._taken_over(Code.TAKE_LEADERSHIP_FAILED)
        elif self._member.log.last.index >= taking.index:
            self._taking = replace(taking, stands=True)
            return taking.target_term
        elif now_ms >= taking.until_ms:
            self._taken_over(Code.TAKE_LEADERSHIP_FAILED)
        return None

    def settle(self) -> None:
        """Tell the old leader what became of it, as soon as that is known."""
        taking = self._taking
        if taking is not None and taking.stands:
            code = taking.answer(self._member.standing)
            if code is not None:
                self._taken_over(code)

    def leave(self) -> None:
        """This member promises nothing any more."""
        self._taking = None

    def _taken_over(self, code: Code) -> None:
        taking, self._taking = self._taking, None
        assert taking is not None
        self.answer(taking.token, code)
