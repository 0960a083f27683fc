"""Heartbeats of brokers (904) and of other controllers (19001).

Responsible for: taking what they tell to liveness, leadership and the book of peers, and what a
return asks for.
Refuses to know: who is elected because of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from brokers.remoting.addresses import host_of
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import FORWARDED_FOR, BadRequest, Fields
from events.broker_events import LossNoticed
from events.commands import RegisterBroker
from processors.controller import effects as fx
from processors.controller.codes import CheckCodes
from processors.controller.context import CoreContext
from processors.controller.effects import Effect, Report
from processors.controller.forwarding import HEARD, HERE, RELAYED
from processors.controller.leading import CAUSE_WENT_BACK, Leading
from processors.controller.outcomes import Outcomes
from processors.controller.peers import Peers
from processors.controller.reads import Reads
from processors.controller.waiting import Waiter
from processors.fold.folder import Applied
from processors.fold.state import EPOCH_REACH
from processors.liveness.ahead_of_log import LogDoubts, ahead_of, behind_brokers, beyond_belief
from processors.liveness.fact_headers import FactHeaders
from processors.liveness.heard_losses import shows_less
from processors.liveness.heartbeat_gaps import HeartbeatGaps
from processors.liveness.pulses import Heartbeat
from processors.liveness.rate_limit import RateLimit
from processors.wire import answers, requests

AHEAD_MAX = 100_000
"""Records behind a peer: beyond this gap a controller is catching up, and ignores the peer's
offsets.
"""
LOSSES_PER_S = 1
"""Of one replica: what is on its way through the log is not told again at once."""
_OFFSETS = ("appliedOffset", "publishedOffset")


class Heartbeats:
    """Every controller takes them, whoever leads (RULES 3.1)."""

    def __init__(
        self,
        context: CoreContext,
        leading: Leading,
        peers: Peers,
        outcomes: Outcomes,
        reads: Reads,
        codes: CheckCodes,
    ) -> None:
        self._context = context
        self._leading = leading
        self._peers = peers
        self._outcomes = outcomes
        self._reads = reads
        self._doubts = LogDoubts()
        self._codes = codes
        self._losses = RateLimit()
        self._headers = FactHeaders(context.config.controller_id)
        self._gaps = HeartbeatGaps(self._headers)

    def broker(self, waiter: Waiter) -> list[Effect]:
        """904: one-way from brokers; whoever wants an answer gets 0 without a header. Raises
        BadRequest (2005).
        """
        context = self._context
        beat = self._believed(requests.heartbeat_of(waiter.request))
        if FORWARDED_FOR in waiter.request.ext:
            return self._relayed(waiter, beat)
        host = host_of(waiter.peer)
        if self._is_strange(beat, waiter.request, host):
            return self._taken(waiter)
        effects = self._gap(beat)
        returned = context.liveness.heard(beat, waiter.conn_id, context.now_ms, host=host)
        effects += self._doubt(beat) + self._loss(beat)
        effects += self._leading.returned(beat.key) if returned else []
        effects += self._peers.relay(beat.key, waiter.request, anew=returned)
        return effects + self._taken(waiter)

    def _believed(self, beat: Heartbeat) -> Heartbeat:
        """Without an epoch that cannot be one of that set: counted, it would use up those of its
        next masters (S18).

        A set without an election here may be older than our record of it: there every epoch may be
        true.
        """
        broker_set = self._context.state.live_set(beat.key[1])
        if (
            broker_set is None
            or not broker_set.has_had_master
            or beat.epoch <= broker_set.highest_epoch_seen + EPOCH_REACH
        ):
            return beat
        return structs.replace(beat, epoch=-1, max_offset=-1)

    @staticmethod
    def _taken(waiter: Waiter) -> list[Effect]:
        return waiter.answer(waiter.request.reply(0, remark="Received broker heartbeat success"))

    def _is_strange(self, beat: Heartbeat, request: RemotingCommand, host: str) -> bool:
        """True when another process than the registered one speaks under that id: it counts for
        nothing.

        A replica of ours is known by its check code and its incarnation, which counts once it
        registered. A Java broker tells none: while it is heard, only its own host and the one it
        was heard from last speak for it (it may be behind an address translation).
        """
        context = self._context
        cluster, name, broker_id = beat.key
        broker_set = context.state.live_set(name)
        replica = (
            broker_set.replica(broker_id)
            if broker_set is not None and broker_set.cluster_name == cluster
            else None
        )
        if replica is None:
            return False
        if self._codes.doubt(name, broker_id, request, host) is not None:
            strange = True
        elif not replica.is_registered:
            return False
        elif replica.incarnation is not None:
            strange = beat.incarnation != replica.incarnation
        else:
            pulse = context.liveness.pulse(beat.key)
            strange = (
                pulse is not None
                and pulse.is_alive(context.now_ms)
                and pulse.host != ""
                and host not in ("", pulse.host, host_of(replica.address))
            )
        context.metrics.strange_heartbeats += strange
        return strange

    def _relayed(self, waiter: Waiter, beat: Heartbeat) -> list[Effect]:
        """One that a standby heard counts here unless this leader hears that broker itself (defect
        16).
        """
        context = self._context
        if not context.is_active:
            return waiter.answer(answers.not_leader(waiter.request))
        pulse = context.liveness.pulse(beat.key)
        if self._is_strange(beat, waiter.request, ""):
            return waiter.answer(waiter.request.reply(0, {HEARD: RELAYED}))
        effects = self._doubt(beat)
        if pulse is not None and pulse.is_heard_here(context.now_ms):
            return effects + waiter.answer(waiter.request.reply(0, {HEARD: HERE}))
        effects += self._gap(beat)
        returned = context.liveness.heard(beat, waiter.conn_id, context.now_ms, relayed=True)
        effects += self._loss(beat)
        effects += self._leading.returned(beat.key) if returned else []
        return effects + waiter.answer(waiter.request.reply(0, {HEARD: RELAYED}))

    def _doubt(self, beat: Heartbeat) -> list[Effect]:
        """Who knows more than what is applied here may only have heard sooner: the log itself is
        asked before it counts.
        """
        context, name = self._context, beat.key[1]
        ahead = ahead_of(context.state.live_set(name), beat)
        if ahead is None:
            return []
        if not ahead.is_within_reach:
            return (
                [fx.Note("warning", beyond_belief(name, ahead))]
                if self._doubts.is_news(name)
                else []
            )
        if not self._doubts.begins(name, context.now_ms):
            return []

        def check() -> list[Effect]:
            still = ahead_of(context.state.live_set(name), beat)
            if not self._doubts.proven(name, still, context.now_ms) or still is None:
                return []
            return [fx.Halt(behind_brokers(name, still, context.folder.offset + 1))]

        return self._reads.once_current(check)

    def _gap(self, beat: Heartbeat) -> list[Effect]:
        """Only who leads tells of a silence, and only of replicas that the log knows."""
        context = self._context
        _, name, broker_id = beat.key
        broker_set = context.state.live_set(name)
        if not context.is_active or broker_set is None or broker_set.replica(broker_id) is None:
            return []
        fact = self._gaps.ended(
            context.liveness.pulse(beat.key), beat, context.now_ms, context.wall_ms
        )
        return [] if fact is None else [Report(fact)]

    def follow(self, applied: Applied) -> None:
        """A Java broker registers when it starts, and tells nothing of its log."""
        record = applied.record
        if (
            isinstance(record, RegisterBroker)
            and applied.outcome.accepted
            and record.incarnation is None
            and record.last_epoch is None
        ):
            self._context.liveness.starts_anew(
                (record.cluster_name, record.broker_name, record.broker_id)
            )

    def _loss(self, beat: Heartbeat) -> list[Effect]:
        """A Java member that came back with less than it held is registered in its name as what it
        is: unclean (S15).
        """
        context = self._context
        broker_set, pulse = context.state.live_set(beat.key[1]), context.liveness.pulse(beat.key)
        if (
            not context.is_active
            or broker_set is None
            or pulse is None
            or broker_set.cluster_name != beat.key[0]
        ):
            return []
        held = shows_less(context.state.rules_version, broker_set, pulse, beat)
        if held is None or not self._losses.take(
            str(beat.key), context.now_ms, rate_per_s=LOSSES_PER_S, burst=1
        ):
            return []
        header = self._headers.next(beat.key, context.wall_ms)
        told = LossNoticed(
            header, beat.key[2], beat.epoch, beat.max_offset, held[1], CAUSE_WENT_BACK
        )
        return [Report(told), *self._leading.went_back(broker_set, beat)]

    def peer(self, waiter: Waiter) -> list[Effect]:
        """19001: one-way from controllers; whoever wants an answer gets one. Raises BadRequest."""
        peer_id = Fields(waiter.request.ext).text("controllerId")
        if peer_id not in self._context.leadership.peers:
            self._context.metrics.strange_peer_words += 1
            raise BadRequest(f"no controller {peer_id} is configured here")
        if not self._context.config.is_of_peer(peer_id, waiter.peer):
            self._context.metrics.strange_peer_words += 1
            raise BadRequest(f"{waiter.peer} is not at the host of controller {peer_id}")
        ext = self._credible(peer_id, waiter.request.ext)
        fields = Fields(ext)
        self._context.peer_reports.note(peer_id, ext, self._context.now_ms)
        effects = self.peer_heard(
            peer_id,
            active=fields.flag("active"),
            able=fields.flag("able"),
            term=fields.number("term"),
            published_offset=fields.number("publishedOffset", -1),
        )
        return effects + waiter.answer(waiter.request.reply(0))

    def _credible(self, peer_id: str, ext: Mapping[str, str]) -> Mapping[str, str]:
        """Without offsets that cannot be: from another address than that controller's, or far
        beyond all we know.
        """
        context = self._context
        fields = Fields(ext)
        addresses = {context.leadership.peers[peer_id].address}
        if peer_id == context.state.leader_id:
            addresses.add(str(context.state.leader_address))  # As it wrote it into the log.
        most = context.folder.offset + AHEAD_MAX
        strange = ext.get("controllerAddress", min(addresses)) not in addresses
        if not strange and all(fields.number(name, -1) <= most for name in _OFFSETS):
            return ext
        context.metrics.strange_peer_words += 1
        return {name: value for name, value in ext.items() if name not in _OFFSETS}

    def peer_heard(
        self, peer_id: str, *, active: bool, able: bool, term: int, published_offset: int
    ) -> list[Effect]:
        """Another controller is there, and says whether it leads and gets through to the log."""
        context = self._context
        context.leadership.heard(peer_id, active, able, term, context.now_ms)
        if active and term == context.state.term and peer_id == context.state.leader_id:
            self._outcomes.published_elsewhere(published_offset)
        return self._peers.drain()
