"""The controller without sockets, log or clock: what comes in, and what is to be done about it.

Responsible for: taking requests, applied commands, hints and time; giving back effects in order.
Composes liveness, triggers, leadership, the gateway and the waiting rooms.
Refuses to know: how effects are performed, and every rule of the fold: it reads `folder.state` and
builds answers from outcomes.

Times: `now_ms` is monotonic and decides about waiting; `wall_ms` is the wall clock, for stamps only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from events.codec import COMMAND_FINGERPRINTS, MalformedRecord, encode
from events.commands import ClaimLeadership, ClusterFormed, RegisterBroker
from events.envelope import Envelope, ReplicaEvidence
from events.outcomes import Outcome
from processors import effects as fx
from processors import gateway, responses
from processors.decide_refusals import Refusal
from processors.effects import Effect
from processors.elections import ElectionDesk
from processors.fold import Applied
from processors.forwarding import FORWARDED_FOR, ForwardingDesk
from processors.leadership import PEER_HEARTBEAT_MS, Leadership
from processors.liveness import Liveness
from processors.outcome_backlog import HOLD_FOR_ACK_MS, OutcomeBacklog
from processors.pending import PendingCommand, PendingCommands, Purpose, Waiter
from processors.read_barrier import ReadBarrier
from processors.state import RULES_VERSION, BrokerSet, ControllerState, Replica
from processors.status import controller_status

REQUEST_DEADLINE_MS = 2_500
"""Below the 3 s that brokers wait (controller.md 10.4)."""
SCAN_MS = 250
FORM_STAGGER_MS = 300
UNABLE_AFTER_MS = 1_500
"""A leader whose oldest command waits this long tells its peers that it is not able."""
ASK_PUBLISHED_RETRY_MS = 500

_STALE_TERM = Refusal.STALE_TERM.name
_READS = frozenset(
    {
        RequestCode.CONTROLLER_GET_REPLICA_INFO,
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
    }
)


class FolderView(Protocol):
    """What the core reads of the folder; it never writes."""

    @property
    def state(self) -> ControllerState: ...
    @property
    def offset(self) -> int: ...
    @property
    def digest(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """Who this controller is. `peers`: controller id -> advertised address, itself included or not."""

    controller_id: str
    address: str
    cluster_id: str
    peers: Mapping[str, str] = field(default_factory=dict)
    release: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    request_deadline_ms: int = REQUEST_DEADLINE_MS


class ControllerCore:
    """One controller process. All calls come from one thread; each returns effects to perform in order."""

    def __init__(self, config: CoreConfig, folder_view: FolderView, ids: Iterator[bytes]) -> None:
        self._config = config
        self._folder = folder_view
        self._ids = ids
        self.liveness = Liveness()
        self.leadership = Leadership(config.controller_id, config.peers)
        self._elections = ElectionDesk(self.liveness)
        self._pending = PendingCommands(config.request_deadline_ms)
        self._desk = ForwardingDesk(config.request_deadline_ms)
        self._barrier: ReadBarrier[Waiter] = ReadBarrier()
        self._backlog = OutcomeBacklog()
        self._end_offset = 0
        self._started_ms: int | None = None
        self._heartbeat_due_ms = 0
        self._scan_due_ms = 0
        self._publish_token = 0
        self._ask_published_due_ms: int | None = None
        self._trouble_ms: int | None = None
        self._now_ms = 0
        self._wall_skew_ms = 0

    @property
    def is_active(self) -> bool:
        return self.leadership.is_active

    # -- start -------------------------------------------------------------------------------------

    def start(self, now_ms: int, wall_ms: int, unpublished: Sequence[Outcome] = ()) -> None:
        """Begin, after bulk catch-up. `unpublished`: outcomes applied so far beyond the newest published one."""
        self._clock(now_ms, wall_ms)
        self._started_ms = now_ms
        self._backlog.preload(unpublished)
        state = self._folder.state
        self.leadership.note_state(state.term, state.leader_id, own_claim=False, now_ms=now_ms)

    # -- requests ----------------------------------------------------------------------------------

    def on_request(
        self, conn_id: int, peer: str, request: RemotingCommand, now_ms: int, wall_ms: int
    ) -> list[Effect]:
        """Take a request; the answer may come now, later, or (one-way) never."""
        self._clock(now_ms, wall_ms)
        waiter = Waiter(conn_id, peer, request)
        try:
            effects = self._take(waiter, now_ms)
        except gateway.BadRequest as error:
            effects = [fx.Reply(conn_id, request.reply(error.code, remark=str(error)))]
        if request.is_oneway:
            return [effect for effect in effects if not isinstance(effect, fx.Reply)]
        return effects

    def _take(self, waiter: Waiter, now_ms: int) -> list[Effect]:
        request = waiter.request
        match request.code:
            case RequestCode.BROKER_HEARTBEAT:
                return self._broker_heartbeat(waiter, now_ms)
            case RequestCode.CONTROLLER_GET_METADATA_INFO:
                return [fx.Reply(waiter.conn_id, self._metadata(request, now_ms))]
            case RequestCode.REGENT_PEER_HEARTBEAT:
                return self._peer_heartbeat(request, now_ms)
            case RequestCode.REGENT_PROCESS_STATUS:
                return [fx.Reply(waiter.conn_id, self._status(request, now_ms))]
        if request.code not in _READS and request.code not in gateway.COMMAND_BUILDERS:
            remark = f" request type {request.code} not supported"
            return [fx.Reply(waiter.conn_id, request.reply(3, remark=remark))]
        if self.is_active:
            return self._leader_request(waiter, now_ms)
        if FORWARDED_FOR in request.ext:
            return [fx.Reply(waiter.conn_id, responses.not_leader(request))]
        if self._desk.is_full:
            return [self._busy(waiter)]
        self._desk.park(waiter, self._ids, now_ms)
        return self._drain_desk(now_ms)

    def _broker_heartbeat(self, waiter: Waiter, now_ms: int) -> list[Effect]:
        beat = gateway.heartbeat_of(waiter.request)
        returned = self.liveness.heard(beat, waiter.conn_id, now_ms)
        effects: list[Effect] = []
        if returned and self.is_active:
            # A replica that was away missed the pushes, and an election may have waited for it.
            _, name, broker_id = beat.key
            effects += self._elections.tell_one(self._folder.state, name, broker_id)
            effects += self._call_elections([name], now_ms)
        if not waiter.request.is_oneway:
            remark = "Received broker heartbeat success"
            effects.append(fx.Reply(waiter.conn_id, waiter.request.reply(0, remark=remark)))
        return effects

    def _metadata(self, request: RemotingCommand, now_ms: int) -> RemotingCommand:
        state = self._folder.state
        addresses = {self._config.controller_id: self._config.address} | {
            peer: sight.address for peer, sight in self.leadership.peers.items()
        }
        ext = {
            "group": self._config.cluster_id,
            "isLeader": "true" if self.is_active else "false",
            "peers": "".join(f"{peer}:{addresses[peer]};" for peer in sorted(addresses)),
        }
        if self._leader_address(now_ms) is not None:
            ext["controllerLeaderId"] = str(state.leader_id)
            ext["controllerLeaderAddress"] = str(self._leader_address(now_ms))
        return request.reply(0, ext)

    def _leader_address(self, now_ms: int) -> str | None:
        """The address of the controller that leads, as far as can be told; None when nobody does."""
        if self.is_active:
            return self._config.address
        state = self._folder.state
        if state.leader_id is None or self.leadership.leader_lost_ms(now_ms) is not None:
            return None
        return state.leader_address

    def _status(self, request: RemotingCommand, now_ms: int) -> RemotingCommand:
        return controller_status(
            request,
            self._config.controller_id,
            self._folder,
            self.liveness,
            now_ms,
            active=self.is_active,
            ready=self._started_ms is not None and self._leader_address(now_ms) is not None,
            end_offset=max(self._end_offset, self._folder.offset + 1),
            published_offset=self._backlog.published_offset,
        )

    def _leader_request(self, waiter: Waiter, now_ms: int) -> list[Effect]:
        request = waiter.request
        if request.code in _READS:
            return self._read(waiter, now_ms)
        if self._pending.is_full:
            return [self._busy(waiter)]
        command_id = gateway.command_id_of(request)
        before = None if command_id is None else self._pending.get(command_id)
        if before is not None and not before.unknown:
            before.waiters.append(waiter)
            return []
        command_id = command_id or next(self._ids)
        requested_by = request.ext.get(FORWARDED_FOR, waiter.peer)
        envelope = self._envelope(command_id, gateway.cause_of(request), requested_by)
        command = gateway.COMMAND_BUILDERS[request.code](request, envelope, self._evidence_of)
        append = self._encode(command_id, command)
        if isinstance(command, RegisterBroker) and FORWARDED_FOR not in request.ext:
            key, address, incarnation, position = gateway.introduction_of(command)
            self.liveness.introduced(
                key, address, incarnation, position, waiter.conn_id, now_ms
            )
        name = getattr(command, "broker_name", None)
        self._pending.add(
            PendingCommand(
                command_id, Purpose.REQUEST, now_ms, {"received": self._wall()}, name, [waiter]
            )
        )
        return [append]

    def _encode(self, command_id: bytes, command: object) -> fx.Append:
        try:
            return fx.Append(command_id, encode(command))  # type: ignore[arg-type]
        except MalformedRecord as error:
            raise gateway.BadRequest(f"the request has no encoding: {error}") from None

    def _evidence_of(self, name: str, asker: int | None) -> tuple[ReplicaEvidence, ...]:
        return self.liveness.evidence(self._folder.state.sets.get(name), self._now_ms, asker)

    def _envelope(self, command_id: bytes, cause: str, requested_by: str | None = None) -> Envelope:
        state = self._folder.state
        return Envelope(
            command_id=command_id,
            cluster_id=state.cluster_id or self._config.cluster_id,
            term=state.term,
            issuer=self._config.controller_id,
            issued_at_ms=self._wall(),
            cause=cause,
            requested_by=requested_by,
            applied_offset=self._folder.offset,
            applied_digest=self._folder.digest if self._folder.offset >= 0 else b"",
        )

    def _busy(self, waiter: Waiter) -> Effect:
        remark = "too many requests are waiting for the log"
        return fx.Reply(
            waiter.conn_id, waiter.request.reply(ResponseCode.SYSTEM_BUSY, remark=remark)
        )

    # -- reads -------------------------------------------------------------------------------------

    def _read(self, waiter: Waiter, now_ms: int) -> list[Effect]:
        if self._barrier.is_full:
            return [self._busy(waiter)]
        if waiter.request.code == RequestCode.CONTROLLER_GET_SYNC_STATE_DATA:
            gateway.wanted_set_names(waiter.request)  # A bad body is refused before any waiting.
        self._barrier.add(waiter, now_ms + self._config.request_deadline_ms)
        return self._ask_end(now_ms)

    def _ask_end(self, now_ms: int) -> list[Effect]:
        token = self._barrier.ask(now_ms)
        return [] if token is None else [fx.AskEndOffset(token)]

    def on_end_offset(self, token: int, offset: int | None) -> list[Effect]:
        """The log's end (offset of the next record) that was asked for with `token`; None: not learnt."""
        self._end_offset = max(self._end_offset, offset or 0)
        ready = self._barrier.answered(token, offset, self._folder.offset)
        effects: list[Effect] = [self._serve(waiter) for waiter in ready]
        # After a failure the next question waits for the tick: a dead log is not asked in a loop.
        return effects if offset is None else effects + self._ask_end(self._now_ms)

    def _serve(self, waiter: Waiter) -> Effect:
        request, state = waiter.request, self._folder.state
        if request.code == RequestCode.CONTROLLER_GET_REPLICA_INFO:
            response = responses.replica_info(request, state)
        elif request.code == RequestCode.CONTROLLER_GET_NEXT_BROKER_ID:
            response = responses.next_broker_id(request, state)
        else:
            names = gateway.wanted_set_names(request)
            response = responses.sync_state_data(request, names, state, self._is_alive)
        return fx.Reply(waiter.conn_id, response)

    def _is_alive(self, broker_set: BrokerSet, replica: Replica) -> bool:
        return self.liveness.is_alive(broker_set, replica, self._now_ms)

    # -- what comes back from the log --------------------------------------------------------------

    def on_append_result(self, command_id: bytes, offset: int | None, now_ms: int) -> list[Effect]:
        """The producer's report. None is *unknown*: the record may still come to be applied."""
        pending = self._pending.get(command_id)
        if offset is None:
            self._trouble_ms = now_ms if self._trouble_ms is None else self._trouble_ms
            if pending is not None:
                pending.unknown = True
            return []
        wall_ms = now_ms + self._wall_skew_ms
        if pending is not None:
            pending.phases.setdefault("appended", wall_ms)
        else:
            self._backlog.stamp(command_id, "appended", wall_ms)
        return self._publish(now_ms)

    def on_applied(self, applied: Applied, now_ms: int, wall_ms: int) -> list[Effect]:
        """The folder has just applied this record; its state is the state after it."""
        self._clock(now_ms, wall_ms)
        outcome, state = applied.outcome, self._folder.state
        if applied.digest_agrees is False and applied.record is not None:
            return [fx.Halt(_divergence(applied))]
        pending = self._pending.take(outcome.command_id)
        was_active = self.is_active
        own_claim = pending is not None and pending.purpose is Purpose.CLAIM
        self.leadership.note_state(state.term, state.leader_id, own_claim, now_ms)
        if applied.record is not None:
            envelope = applied.record.envelope
            self.leadership.heard_through_log(envelope.issuer, envelope.term, now_ms)
        phases = {"applied": wall_ms} if pending is None else pending.phases | {"applied": wall_ms}
        effects: list[Effect] = []
        if pending is not None:
            self._trouble_ms = None
            effects += self._answer(pending, outcome, phases, now_ms)
        if self.is_active:
            if not was_active:
                effects += self._take_over(now_ms)
            effects += self._after(outcome, phases, now_ms)
        elif was_active:
            effects += self._step_down()
        effects += [self._serve(waiter) for waiter in self._barrier.applied(applied.offset)]
        waits = pending is not None and "appended" not in phases
        self._backlog.add(outcome, phases, now_ms + HOLD_FOR_ACK_MS if waits else 0)
        return effects + self._publish(now_ms)

    def _answer(
        self, pending: PendingCommand, outcome: Outcome, phases: dict[str, int], now_ms: int
    ) -> list[Effect]:
        state = self._folder.state
        if not pending.waiters:
            return []
        if outcome.refusal == _STALE_TERM:
            # Nothing was decided: whoever leads now may decide it under the same id.
            for waiter in pending.waiters:
                self._desk.park(waiter, iter([pending.command_id]), now_ms)
            return self._drain_desk(now_ms)
        phases["answered"] = self._wall()
        return [
            fx.Reply(
                waiter.conn_id,
                responses.from_outcome(waiter.request, outcome, state, self._is_alive),
            )
            for waiter in pending.waiters
        ]

    def _after(self, outcome: Outcome, phases: dict[str, int], now_ms: int) -> list[Effect]:
        """What an applied command asks of the active controller: pushes, and elections it makes due."""
        effects = self._elections.applied(outcome, self._folder.state, now_ms)
        if any(isinstance(effect, fx.NotifyRole) for effect in effects):
            phases["notified"] = self._wall()
        if outcome.broker_name is not None and outcome.changes:
            effects += self._call_elections([outcome.broker_name], now_ms)
        return effects

    # -- leading -----------------------------------------------------------------------------------

    def _take_over(self, now_ms: int) -> list[Effect]:
        state = self._folder.state
        effects: list[Effect] = [fx.Note("info", f"leading in term {state.term}")]
        effects += self._elections.take_over(state, now_ms)
        effects += self._ask_last_published(now_ms)
        for one in self._desk.release():
            waiter = replace(one.waiter, request=replace(one.request, opaque=one.waiter.request.opaque))
            try:
                effects += self._leader_request(waiter, now_ms)
            except gateway.BadRequest as error:
                effects.append(
                    fx.Reply(waiter.conn_id, waiter.request.reply(error.code, remark=str(error)))
                )
        return effects + self._call_elections(None, now_ms)

    def _step_down(self) -> list[Effect]:
        self._backlog.stop()
        self._ask_published_due_ms = None
        state = self._folder.state
        return [fx.Note("warning", f"{state.leader_id} leads in term {state.term}; standing by")]

    def _call_elections(self, names: Sequence[str] | None, now_ms: int) -> list[Effect]:
        """Append an election for each set in need; `names` None looks at all sets."""
        if not self.is_active:
            return []
        effects: list[Effect] = []
        for call, phases in self._elections.calls(
            self._folder.state, names, now_ms, self._wall_skew_ms
        ):
            command_id = next(self._ids)
            command = self._elections.command(call, self._envelope(command_id, call.cause))
            phases["received"] = self._wall()
            self._pending.add(
                PendingCommand(command_id, Purpose.ELECTION, now_ms, phases, call.broker_name)
            )
            effects.append(fx.Note("info", f"{call.broker_name}: electing, {call.cause}"))
            effects.append(self._encode(command_id, command))
        return effects

    def _form_or_claim(self, now_ms: int) -> list[Effect]:
        started_ms = self._started_ms if self._started_ms is not None else now_ms
        if self._folder.offset < 0:
            due_ms = started_ms + self.leadership.rank() * FORM_STAGGER_MS
            if now_ms < due_ms or self._pending.has(Purpose.FORMATION):
                return []
            command_id = next(self._ids)
            formed = ClusterFormed(
                self._envelope(command_id, "empty_log"),
                RULES_VERSION,
                dict(self._config.settings),
                COMMAND_FINGERPRINTS,
            )
            return self._issue(command_id, Purpose.FORMATION, formed, now_ms)
        if not self.leadership.claim_due(now_ms):
            return []
        self.leadership.claimed(now_ms)
        command_id = next(self._ids)
        claim = ClaimLeadership(
            self._envelope(command_id, self.leadership.claim_cause()),
            self._folder.state.term,
            self._config.controller_id,
            self._config.address,
            self._config.release,
        )
        return self._issue(command_id, Purpose.CLAIM, claim, now_ms)

    def _issue(
        self, command_id: bytes, purpose: Purpose, command: object, now_ms: int
    ) -> list[Effect]:
        phases = {"received": self._wall()}
        self._pending.add(PendingCommand(command_id, purpose, now_ms, phases))
        return [self._encode(command_id, command)]

    # -- other controllers -------------------------------------------------------------------------

    def _peer_heartbeat(self, request: RemotingCommand, now_ms: int) -> list[Effect]:
        fields = gateway.Fields(request.ext)
        return self.on_peer_heartbeat(
            fields.text("controllerId"),
            active=fields.flag("active"),
            able=fields.flag("able"),
            term=fields.number("term"),
            published_offset=fields.number("publishedOffset", -1),
            now_ms=now_ms,
        )

    def on_peer_heartbeat(
        self,
        peer_id: str,
        *,
        active: bool,
        able: bool,
        term: int,
        published_offset: int,
        now_ms: int,
    ) -> list[Effect]:
        """Another controller is there, and says whether it leads and gets through to the log."""
        self.leadership.heard(peer_id, active, able, term, now_ms)
        if active and not self.is_active and term == self._folder.state.term:
            self._backlog.trim(min(published_offset, self._folder.offset))
        return self._drain_desk(now_ms)

    def on_peer_closed(self, address: str, refused: bool, now_ms: int) -> list[Effect]:
        """The connection to another controller is gone; `refused`: nobody listens there any more."""
        if refused:
            self.leadership.refused(address, now_ms)
            return self._drain_desk(now_ms)
        return [fx.Probe(address) for address in self.liveness.want_probes([address])]

    def on_reply_from_leader(
        self, token: int, response: RemotingCommand | None, now_ms: int | None = None
    ) -> list[Effect]:
        """The leader's answer to a forwarded request; None: it did not answer, the effect is unknown."""
        now_ms = self._now_ms if now_ms is None else now_ms
        one = self._desk.came_back(token)
        if one is None:
            return []
        if response is not None and response.code != ResponseCode.CONTROLLER_NOT_LEADER:
            answer = replace(response, opaque=one.waiter.request.opaque)
            return [fx.Reply(one.waiter.conn_id, answer)]
        if self.is_active:
            return self._leader_request(replace(one.waiter, request=one.request), now_ms)
        self._desk.park_again(one, now_ms)
        return []

    def _drain_desk(self, now_ms: int) -> list[Effect]:
        address = None if self.is_active else self._leader_address(now_ms)
        if address is None:
            return []
        return [
            fx.ForwardToLeader(token, address, request, timeout_ms)
            for token, request, timeout_ms in self._desk.to_send(now_ms)
        ]

    def _tell_peers(self, now_ms: int) -> list[Effect]:
        if now_ms < self._heartbeat_due_ms:
            return []
        self._heartbeat_due_ms = now_ms + PEER_HEARTBEAT_MS
        ext = {
            "controllerId": self._config.controller_id,
            "controllerAddress": self._config.address,
            "active": "true" if self.is_active else "false",
            "able": "true" if self._is_able(now_ms) else "false",
            "term": str(self._folder.state.term),
            "appliedOffset": str(self._folder.offset),
            "publishedOffset": str(self._backlog.published_offset),
        }
        return [
            fx.TellPeer(
                sight.address,
                RemotingCommand.request(RequestCode.REGENT_PEER_HEARTBEAT, dict(ext), oneway=True),
            )
            for sight in self.leadership.peers.values()
        ]

    def _is_able(self, now_ms: int) -> bool:
        if self._trouble_ms is not None and now_ms - self._trouble_ms > UNABLE_AFTER_MS:
            return False
        return self._pending.oldest_age_ms(now_ms) <= UNABLE_AFTER_MS

    # -- hints and time ----------------------------------------------------------------------------

    def on_connection_closed(self, conn_id: int, now_ms: int) -> list[Effect]:
        """An inbound connection is gone: whoever heartbeated over it is probed at once (design D8)."""
        return [fx.Probe(address) for address in self.liveness.connection_closed(conn_id, now_ms)]

    def on_probe_result(
        self, address: str, result: str, now_ms: int, wall_ms: int
    ) -> list[Effect]:
        """`result`: refused (nobody listens), open, or timeout."""
        self._clock(now_ms, wall_ms)
        gone = self.liveness.probe_result(address, result, now_ms)
        effects: list[Effect] = []
        if result == "refused":
            if self.leadership.refused(address, now_ms):
                effects += self._form_or_claim(now_ms) if self._started_ms is not None else []
            effects += self._call_elections(None, now_ms)
        for _, name, broker_id in gone:
            effects.insert(0, fx.Note("warning", f"{name}: broker {broker_id} is gone, {address} refuses"))
        return effects

    def tick(self, now_ms: int, wall_ms: int) -> list[Effect]:
        """Time has passed. Called some tens of times a second."""
        self._clock(now_ms, wall_ms)
        if self._started_ms is None:
            self.start(now_ms, wall_ms)
        self.leadership.tick(now_ms)
        expired, probes = self.liveness.tick(now_ms)
        effects: list[Effect] = [fx.Probe(address) for address in probes]
        effects += [fx.Note("warning", f"{name}: broker {broker} fell silent") for _, name, broker in expired]
        if expired or now_ms >= self._scan_due_ms:
            self._scan_due_ms = now_ms + SCAN_MS
            effects += self._call_elections(None, now_ms)
        effects += self._form_or_claim(now_ms)
        effects += self._tell_peers(now_ms)
        effects += self._expire(now_ms)
        effects += self._ask_end(now_ms) + self._drain_desk(now_ms)
        if self._ask_published_due_ms is not None and now_ms >= self._ask_published_due_ms:
            effects += self._ask_last_published(now_ms)
        return effects + self._publish(now_ms)

    def _expire(self, now_ms: int) -> list[Effect]:
        waited_ms = self._config.request_deadline_ms
        late = [waiter for pending in self._pending.expired(now_ms) for waiter in pending.waiters]
        late += self._barrier.expired(now_ms)
        effects: list[Effect] = [
            fx.Reply(waiter.conn_id, responses.unknown(waiter.request, waited_ms)) for waiter in late
        ]
        for one in self._desk.expired(now_ms):
            request = one.waiter.request
            answer = responses.unknown(request, waited_ms) if one.sent else responses.not_leader(request)
            effects.append(fx.Reply(one.waiter.conn_id, answer))
        return effects

    # -- outcomes ----------------------------------------------------------------------------------

    def _ask_last_published(self, now_ms: int) -> list[Effect]:
        self._publish_token += 1
        self._ask_published_due_ms = now_ms + ASK_PUBLISHED_RETRY_MS * 4
        return [fx.AskLastPublished(self._publish_token)]

    def on_last_published(self, token: int, offset: int | None, now_ms: int) -> list[Effect]:
        """The newest published command offset (-1: none); None: not learnt, asked again later."""
        if token != self._publish_token or not self.is_active:
            return []
        if offset is None:
            self._ask_published_due_ms = now_ms + ASK_PUBLISHED_RETRY_MS
            return []
        self._ask_published_due_ms = None
        if not self._backlog.resume(offset):
            return [
                fx.Halt(
                    f"outcomes behind offset {offset} are not kept here any more; start this "
                    "controller again: it then folds from a snapshot below that offset"
                )
            ]
        return self._publish(now_ms)

    def on_publish_result(self, command_offset: int, ok: bool, now_ms: int) -> list[Effect]:
        """The producer's report on an outcome. After a failure publishing starts again behind the topic's end."""
        if ok:
            self._backlog.trim(command_offset)
            return self._publish(now_ms)
        if self.is_active and self._ask_published_due_ms is None:
            self._backlog.stop()
            self._ask_published_due_ms = now_ms + ASK_PUBLISHED_RETRY_MS
        return []

    def _publish(self, now_ms: int) -> list[Effect]:
        if not self.is_active:
            return []
        taken = self._backlog.take(self._config.controller_id, now_ms, self._wall())
        return [fx.Publish(outcome) for outcome in taken]

    # -- clock -------------------------------------------------------------------------------------

    def _clock(self, now_ms: int, wall_ms: int) -> None:
        self._now_ms, self._wall_skew_ms = now_ms, wall_ms - now_ms

    def _wall(self) -> int:
        return self._now_ms + self._wall_skew_ms


def _divergence(applied: Applied) -> str:
    assert applied.record is not None
    envelope = applied.record.envelope
    return (
        f"the command at offset {applied.offset} says that {envelope.issuer} had the digest "
        f"{envelope.applied_digest.hex()} at offset {envelope.applied_offset}; here it is another one, so one "
        "of the two folded another history: run `regent verify` before starting either again"
    )
