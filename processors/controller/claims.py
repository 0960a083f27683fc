"""Becoming the active controller: forming a cluster on an empty log, claiming leadership (design
D6).

Responsible for: issuing the formation and claims when they are due, and following who leads as the
log says. Refuses to know: what an active controller then does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import BadRequest, Fields
from events.commands import ClaimLeadership
from processors.controller import effects as fx
from processors.controller.commands import Commands
from processors.controller.context import CoreContext
from processors.controller.effects import Effect
from processors.controller.leadership import CAUSE_NOT_ABLE
from processors.controller.peer_reports import PeerReport
from processors.controller.reads import Reads
from processors.controller.waiting import PendingCommand, Purpose, Waiter
from processors.fold.folder import Applied
from processors.liveness.mass_silence import MASS_SILENCE_BROKERS

FORM_STAGGER_MS = 300


class LogReads(Protocol):
    """What this controller knows of its own way to the log."""

    def is_able(self) -> bool: ...
    def is_current(self, since_ms: int) -> bool: ...


class Namesake:
    """Another process with this controller's id, at another address. Who claimed before it saw the
    other one goes on; the later one knows of the other when it claims, and ends when that one
    claims back: a controller that only moved to another address is not claimed back.
    """

    def __init__(self) -> None:
        self.seen = False
        self._claimed_first: bool | None = None

    def we_claimed(self) -> None:
        if self._claimed_first is None:
            self._claimed_first = not self.seen

    def claimed(self) -> bool:
        """The other one leads; whether this process is the later one."""
        self.seen = True
        return self._claimed_first is False


class Claims:
    """Silent until `start`: nobody claims before the bulk of the log is folded."""

    def __init__(self, context: CoreContext, commands: Commands, reads: LogReads) -> None:
        self._context = context
        self._reads = reads
        self._commands = commands
        self._started_ms: int | None = None
        self._namesake = Namesake()
        self._unlisted_named: str | None = None

    @property
    def is_started(self) -> bool:
        return self._started_ms is not None

    def start(self) -> None:
        """The log has been folded up to its end of a moment ago."""
        context = self._context
        self._started_ms = context.now_ms
        state = context.state
        if state.leader_id == context.config.controller_id:
            self._namesake.seen |= state.leader_address != context.config.address
        context.leadership.note_state(state.term, state.leader_id, False, context.now_ms)

    def follow(self, applied: Applied, pending: PendingCommand | None) -> list[Effect]:
        """Take from an applied command who leads and who lives."""
        context = self._context
        own_claim = pending is not None and pending.purpose is Purpose.CLAIM
        state, leadership = context.state, context.leadership
        leadership.note_state(state.term, state.leader_id, own_claim, context.now_ms)
        context.note_elections(applied.outcome)
        if applied.record is not None:
            envelope = applied.record.envelope
            leadership.heard_through_log(envelope.issuer, envelope.term, context.now_ms)
        if not isinstance(applied.record, ClaimLeadership) or not applied.outcome.accepted:
            return []
        if applied.record.envelope.cause == CAUSE_NOT_ABLE:
            context.patience.succeeded(context.now_ms)
        if own_claim:
            self._namesake.we_claimed()
        return [*self._of_namesake(applied.record), *self._of_unlisted(applied.record)]

    def _of_unlisted(self, claim: ClaimLeadership) -> list[Effect]:
        """A leader that is no configured peer is never heard, so it will be deposed for nothing:
        it is named once.
        """
        leader = self._context.leadership.unlisted_leader
        if leader is None or leader == self._unlisted_named or not self.is_started:
            return []
        self._unlisted_named = leader
        return [
            fx.Note(
                "error",
                f"{leader} at {claim.controller_address} leads and is not among the peers of "
                f"{self._context.config.controller_id}: add it to [peers] of every controller",
            )
        ]

    def _of_namesake(self, claim: ClaimLeadership) -> list[Effect]:
        """Two processes with one name depose each other for ever, and each log looks well: so it is
        said, and the later one ends.
        """
        config = self._context.config
        if (
            claim.controller_id != config.controller_id
            or claim.controller_address == config.address
            or not self.is_started
        ):
            return []
        reason = (
            f"another process leads as {claim.controller_id}, at {claim.controller_address} "
            f"(this one is at {config.address}): every controller needs a controller_id of its own"
        )
        if self._namesake.claimed():
            return [fx.Halt(f"{reason}; that one led before this one: correct controller_id here")]
        return [fx.Note("error", reason)]

    def invited(self, term: int) -> list[Effect]:
        """The leader of `term` steps aside for this controller (an operator's wish)."""
        context = self._context
        if self._started_ms is None or context.is_active or context.state.term != term:
            return []
        if not self._reads.is_able() or self._commands.is_claiming:
            return []
        context.leadership.claimed(context.now_ms)
        return self._commands.claim("leadership_transferred")

    def due(self) -> list[Effect]:
        """The formation or a claim, if it is time for one."""
        context, leadership = self._context, self._context.leadership
        if self._started_ms is None or not self._reads.is_able():
            return []
        if context.folder.offset < 0:
            due_ms = self._started_ms + leadership.rank() * FORM_STAGGER_MS
            return self._commands.formation() if context.now_ms >= due_ms else []
        if not leadership.claim_due(context.now_ms):
            return []
        cause = leadership.claim_cause()
        if cause == CAUSE_NOT_ABLE and not self._is_better_off():
            return []
        leadership.claimed(context.now_ms)
        return self._commands.claim(cause)

    def _is_better_off(self) -> bool:
        """Whether the log is out of reach for the leader only must be learnt after it said that it
        is not able.
        """
        context = self._context
        if not self._reads.is_current(context.leadership.unled_since_ms):
            return False
        word = context.peer_reports.last_report(context.state.leader_id or "")
        return word is None or context.folder.offset >= word.applied_offset


DEAF_FOR_MS = 1_500
"""Whoever has just started hears nobody for a moment."""
OFFER_AGAIN_MS = 2_000


class DeafLeader:
    """Asked often by the leader; `forget` when it leads no more."""

    def __init__(self) -> None:
        self._since_ms: int | None = None
        self._offered_ms: int | None = None

    def forget(self) -> None:
        self._since_ms = self._offered_ms = None

    def successor(self, own_heard: int, heard: Mapping[str, int], now_ms: int) -> str | None:
        """The controller to offer leadership to now, or None.

        `heard`: controllers that reach the log, with how many brokers each hears. It takes more
        than twice as many.
        """
        better = {
            peer: count
            for peer, count in heard.items()
            if count > max(MASS_SILENCE_BROKERS, 2 * own_heard)
        }
        if not better:
            self.forget()
            return None
        if self._since_ms is None:
            self._since_ms = now_ms
        if now_ms - self._since_ms < DEAF_FOR_MS:
            return None
        if self._offered_ms is not None and now_ms - self._offered_ms < OFFER_AGAIN_MS:
            return None
        self._offered_ms = now_ms
        return min(better, key=lambda peer: (-better[peer], peer))


INVITED_IN_TERM = "claimInTerm"
WAITING_MAX = 100


@dataclass(frozen=True, slots=True)
class _Transfer:
    waiter: Waiter
    term: int
    target: str
    deadline_ms: int


class Transfers:
    """The wishes that wait for another term."""

    def __init__(self, context: CoreContext, claims: Claims, reads: Reads) -> None:
        self._context = context
        self._reads = reads
        self._claims = claims
        self._waiting: list[_Transfer] = []
        self._deaf = DeafLeader()

    @staticmethod
    def is_invitation(request: RemotingCommand) -> bool:
        """True for the leader's word to the one who shall lead, false for the operator's wish."""
        return INVITED_IN_TERM in request.ext

    def invited(self, waiter: Waiter) -> list[Effect]:
        """The leader of that term steps aside for this controller. One-way from leaders; others
        hear what came of it.
        """
        request = waiter.request
        claim = self._claims.invited(Fields(request.ext).number(INVITED_IN_TERM))
        if claim:
            return claim + waiter.answer(request.reply(0, remark="leadership is claimed"))
        remark = (
            "not followed: it is not that term, or this controller leads, claims or is cut from "
            "the log"
        )
        return waiter.answer(request.reply(ResponseCode.SYSTEM_ERROR, remark=remark))

    def request(self, waiter: Waiter) -> list[Effect]:
        """An operator's wish, at the active controller. Raises BadRequest when nobody can take
        over.
        """
        context = self._context
        target = self._target(Fields(waiter.request.ext).optional("controllerId"))
        if target == context.config.controller_id:
            return self._reads.when_current(waiter, self._leads_already)
        if len(self._waiting) >= WAITING_MAX:
            raise BadRequest("too many transfers are under way", ResponseCode.SYSTEM_BUSY)
        deadline_ms = waiter.answer_by_ms(context.config.request_deadline_ms, context.now_ms)
        self._waiting.append(_Transfer(waiter, context.state.term, target, deadline_ms))
        return self._offer(target, "on an operator's wish")

    def _offer(self, target: str, why: str) -> list[Effect]:
        context = self._context
        ext = {INVITED_IN_TERM: str(context.state.term)}
        word = RemotingCommand.request(RequestCode.REGENT_TRANSFER_LEADERSHIP, ext, oneway=True)
        return [
            fx.Note("info", f"leadership is offered to {target} {why}"),
            fx.TellPeer(context.leadership.peers[target].address, word),
        ]

    def _step_aside(self) -> list[Effect]:
        """A leader that is cut from the brokers, while another controller is not, leaves it to that
        one (design D8).
        """
        context = self._context
        if not context.is_active:
            self._deaf.forget()
            return []
        own = context.liveness.heard_count(context.now_ms)
        heard = {peer: word.brokers_heard for peer, word in self._able().items()}
        target = self._deaf.successor(own, heard, context.now_ms)
        return (
            []
            if target is None
            else self._offer(target, f"that hears {heard[target]} brokers; {own} are heard here")
        )

    def _able(self) -> dict[str, PeerReport]:
        """The other controllers that are heard and reach the log."""
        context = self._context
        words = {
            peer: context.peer_reports.report(peer, context.now_ms)
            for peer in context.leadership.peers
        }
        return {peer: word for peer, word in words.items() if word is not None and word.able}

    def _leads_already(self, waiter: Waiter) -> list[Effect]:
        if not self._context.is_active:
            raise BadRequest("another controller leads by now", ResponseCode.CONTROLLER_NOT_LEADER)
        return waiter.answer(waiter.request.reply(0, self._leader(), remark="it leads already"))

    def _target(self, named: str | None) -> str:
        context = self._context
        if named == context.config.controller_id:
            return named
        peers = context.leadership.peers
        if named is not None and named not in peers:
            raise BadRequest(
                f"no controller {named} is configured here; there are {', '.join(sorted(peers))}"
            )
        words = self._able()
        if named is not None:
            if named not in words:
                raise BadRequest(f"{named} is not heard, or does not reach the log")
            return named
        if not words:
            raise BadRequest("no other controller is heard that reaches the log")
        return min(words, key=lambda peer: (-words[peer].applied_offset, peer))

    def _leader(self) -> dict[str, str]:
        state = self._context.state
        return {
            "controllerLeaderId": str(state.leader_id),
            "controllerLeaderAddress": str(state.leader_address),
            "term": str(state.term),
        }

    def after_apply(self) -> list[Effect]:
        """A command was applied: nothing here, nearly always, and there are thousands a second."""
        return self.settle() if self._waiting else []

    def settle(self) -> list[Effect]:
        """Answer those whose wish has come true, or whose time is over; hand over when this leader
        is deaf.
        """
        effects = self._step_aside()
        if not self._waiting:
            return effects
        context = self._context
        staying: list[_Transfer] = []
        for one in self._waiting:
            request = one.waiter.request
            if context.state.term > one.term:
                effects += one.waiter.answer(request.reply(0, self._leader()))
            elif context.now_ms >= one.deadline_ms:
                remark = (
                    f"{one.target} has not claimed leadership in time; {context.state.leader_id} "
                    "leads"
                )
                effects += one.waiter.answer(
                    request.reply(ResponseCode.SYSTEM_ERROR, remark=remark)
                )
            else:
                staying.append(one)
        self._waiting = staying
        return effects
