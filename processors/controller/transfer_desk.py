"""Handing leadership over: on an operator's wish (request 19008), or because this leader hears too
few brokers.

Responsible for: choosing who is asked to claim, and telling the operator once another one leads.
Refuses to know: whether the claim wins (the fold); the way is an ordinary claim, so nothing rests
on this.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from processors.controller import effects as fx
from processors.controller.claims import ClaimDesk
from processors.controller.context import CoreContext
from processors.controller.deaf_leader import DeafLeader
from processors.controller.effects import Effect
from processors.controller.peer_reports import PeerWord
from processors.controller.reads import ReadDesk
from processors.controller.waiting import Waiter
from processors.wire.requests import BadRequest, Fields

INVITED_IN_TERM = "claimInTerm"
WAITING_MAX = 100


@dataclass(frozen=True, slots=True)
class _Transfer:
    waiter: Waiter
    term: int
    target: str
    deadline_ms: int


class TransferDesk:
    """The wishes that wait for another term."""

    def __init__(self, context: CoreContext, claims: ClaimDesk, reads: ReadDesk) -> None:
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

    def _able(self) -> dict[str, PeerWord]:
        """The other controllers that are heard and reach the log."""
        context = self._context
        words = {
            peer: context.peer_book.word(peer, context.now_ms) for peer in context.leadership.peers
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

    def applied(self) -> list[Effect]:
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
