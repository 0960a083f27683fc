"""One controller among others: heartbeats both ways, and requests that belong to the leader.

Responsible for: telling peers how this controller is, taking what they tell, and seeing forwarded
requests through until they are answered (design D5, D6).
Refuses to know: who may lead (`leadership`), and what the requests say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from msgspec.structs import replace

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import FORWARDED_FOR
from processors.controller import effects as fx
from processors.controller.commands import busy
from processors.controller.context import CoreContext
from processors.controller.effects import Effect
from processors.controller.forwarding import Forwarding, HeartbeatRelay
from processors.controller.leadership import PEER_HEARTBEAT_MS
from processors.controller.metrics import SUCCESS, TIMEOUT
from processors.controller.peer_reports import leader_as_seen, networks_text
from processors.controller.waiting import PendingCommand, Waiter
from processors.liveness.pulses import BrokerKey
from processors.wire import answers

RELAY_TIMEOUT_MS = 1_000


class Peers:
    """What passes between this controller and the others."""

    def __init__(self, context: CoreContext) -> None:
        self._context = context
        self._desk = Forwarding(context.config.request_deadline_ms, context.config.requests_max)
        self._relay = HeartbeatRelay()
        self._heartbeat_due_ms = 0

    # -- heartbeats --------------------------------------------------------------------------------

    def heartbeats(self, able: bool, published_offset: int) -> list[Effect]:
        """One message to every peer, when it is time."""
        context = self._context
        if context.now_ms < self._heartbeat_due_ms:
            return []
        self._heartbeat_due_ms = context.now_ms + PEER_HEARTBEAT_MS
        ext = {
            "controllerId": context.config.controller_id,
            "controllerAddress": context.config.address,
            "active": "true" if context.is_active else "false",
            "able": "true" if able else "false",
            "term": str(context.state.term),
            "appliedOffset": str(context.folder.offset),
            "publishedOffset": str(published_offset),
            "brokersHeard": str(context.liveness.heard_count(context.now_ms)),
            "release": context.config.release,
            "rules": ",".join(map(str, context.config.supported_rules)),
            "networks": networks_text(context.config.networks),
            "httpAddress": context.config.http_address,
        }
        return [
            fx.TellPeer(
                sight.address,
                RemotingCommand.request(RequestCode.REGENT_PEER_HEARTBEAT, dict(ext), oneway=True),
            )
            for sight in context.leadership.peers.values()
        ]

    def metadata(self, waiter: Waiter) -> list[Effect]:
        """1005, served by every node (RULES 3.6)."""
        context = self._context
        addresses = {context.config.controller_id: context.config.address} | {
            peer: sight.address for peer, sight in context.leadership.peers.items()
        }
        ext = {
            "group": context.config.cluster_id,
            "isLeader": "true" if context.is_active else "false",
            "peers": "".join(f"{peer}:{addresses[peer]};" for peer in sorted(addresses)),
        }
        leader = context.leader_address()
        if leader is not None:
            ext["controllerLeaderId"] = str(context.state.leader_id)
            ext["controllerLeaderAddress"] = self._as_seen_from(waiter.peer, leader)
        return waiter.answer(waiter.request.reply(0, ext))

    def _as_seen_from(self, peer: str, leader: str) -> str:
        """An address of the leader, or of one that forwards to it, that `peer` can reach."""
        context = self._context
        leaders = None
        if not context.is_active:
            word = context.peer_reports.last_report(str(context.state.leader_id))
            leaders = () if word is None else word.networks
        return leader_as_seen(peer, default=leader, own=context.config.networks, leaders=leaders)

    # -- requests for the leader -------------------------------------------------------------------

    def take(self, waiter: Waiter) -> list[Effect]:
        """A request for the leader that came here. One that was forwarded already goes no
        further.
        """
        if FORWARDED_FOR in waiter.request.ext:
            return waiter.answer(answers.not_leader(waiter.request))
        if self._desk.is_full:
            return busy(waiter)
        self._desk.park(waiter, self._context.ids, self._context.now_ms)
        return self.drain()

    def take_back(self, pending: PendingCommand) -> list[Effect]:
        """A command that was refused for its term decided nothing: the leader may, under the same
        id.
        """
        ids: Iterator[bytes] = iter([pending.command_id] * len(pending.waiters))
        effects: list[Effect] = []
        for waiter in pending.waiters:
            if FORWARDED_FOR in waiter.request.ext:
                effects += waiter.answer(answers.not_leader(waiter.request))
            else:
                self._desk.park(waiter, ids, self._context.now_ms)
        return effects + self.drain()

    def relay(self, key: BrokerKey, heartbeat: RemotingCommand, *, anew: bool) -> list[Effect]:
        """A broker's heartbeat for a leader that may not hear that broker itself."""
        context = self._context
        leader = None if context.is_active else context.leader_address()
        token = self._relay.begin(key, leader, context.now_ms, anew=anew)
        if token is None or leader is None:
            return []
        ext = heartbeat.ext | {FORWARDED_FOR: context.config.controller_id}
        return [
            fx.ForwardToLeader(token, leader, replace(heartbeat, ext=ext, flag=0), RELAY_TIMEOUT_MS)
        ]

    def drain(self) -> list[Effect]:
        """Send what waits, when there is somebody to send it to."""
        address = None if self._context.is_active else self._context.leader_address()
        if address is None:
            return []
        return [
            fx.ForwardToLeader(token, address, request, timeout_ms)
            for token, request, timeout_ms in self._desk.to_send(self._context.now_ms)
        ]

    def release(self) -> list[Waiter]:
        """Everything that waits, because this controller leads now."""
        return [self._waiter(one.waiter, one.request) for one in self._desk.release()]

    def reply(
        self, token: int, response: RemotingCommand | None
    ) -> tuple[list[Effect], Waiter | None]:
        """The leader's answer (None: it gave none); a waiter comes back when this controller leads
        by now.
        """
        if token < 0:
            self._relay.answered(token, response, self._context.now_ms)
            return [], None
        one = self._desk.came_back(token)
        if one is None:
            return [], None
        if response is not None and response.code != ResponseCode.CONTROLLER_NOT_LEADER:
            answer = replace(response, opaque=one.waiter.request.opaque)
            return one.waiter.answer(answer), None
        if self._context.is_active:
            return [], self._waiter(one.waiter, one.request)
        self._desk.park_again(one, self._context.now_ms)
        return [], None

    @staticmethod
    def _waiter(waiter: Waiter, request: RemotingCommand) -> Waiter:
        return dataclasses.replace(waiter, request=request)

    def expire(self) -> list[Effect]:
        """2007 to those that nobody saw, *unknown* to those that a leader may have acted on."""
        waited_ms = self._context.config.request_deadline_ms
        effects: list[Effect] = []
        for one in self._desk.expired(self._context.now_ms):
            request = one.waiter.request
            answer = (
                answers.unknown(request, waited_ms) if one.sent else answers.not_leader(request)
            )
            effects += one.waiter.answer(answer, TIMEOUT if one.sent else SUCCESS)
        return effects
