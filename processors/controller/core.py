"""The controller without sockets, log or clock: what comes in, and what is to be done about it.

Responsible for: taking requests, applied commands, hints and time to the parts that know them, and
giving back effects in order.
Refuses to know: how effects are performed, and every rule of the fold: it reads the state and
builds answers from outcomes.

Times: `now_ms` is monotonic and decides about waiting; `wall_ms` is the wall clock, for stamps
only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import FORWARDED_FOR, BadRequest
from events.outcomes import Outcome
from processors.controller import effects as fx
from processors.controller.claims import Claims, Transfers
from processors.controller.codes import CheckCodes
from processors.controller.commands import Commands
from processors.controller.context import CoreConfig, CoreContext, FolderView
from processors.controller.documents import controller_status
from processors.controller.effects import Effect
from processors.controller.gauges import Gauges, figures_of
from processors.controller.heartbeats import Heartbeats
from processors.controller.intake import BrokerRequests, UnknownSetRequests
from processors.controller.leading import Leading
from processors.controller.metrics import FAILED, SUCCESS, Metrics
from processors.controller.operators import OperatorRequests
from processors.controller.outcomes import Outcomes, divergence_of
from processors.controller.peers import Peers
from processors.controller.reads import READS, Reads
from processors.controller.waiting import PendingCommand, Waiter
from processors.fold.folder import Applied
from processors.fold.refusals import Refusal
from processors.wire import requests
from processors.wire.operator_requests import ADMIN_BUILDERS

__all__ = ["ControllerCore", "CoreConfig"]

Handler = Callable[[Waiter], list[Effect]]
STOPPED_MS = 1_000_000_000
"""Beyond every deadline."""


class ControllerCore:
    """One controller process. All calls come from one thread; each returns effects to perform in
    order.
    """

    def __init__(
        self,
        config: CoreConfig,
        folder_view: FolderView,
        ids: Iterator[bytes],
        metrics: Metrics | None = None,
    ) -> None:
        self._context = context = CoreContext(config, folder_view, ids, metrics)
        self._commands = Commands(context)
        self._reads = Reads(context)
        self._leading = Leading(context, self._commands, self._reads)
        self._outcomes = Outcomes(context)
        self._peers = Peers(context)
        self._claims = Claims(context, self._commands, self._reads)
        self._unknown_sets = UnknownSetRequests(context, self._commands, self._reads)
        self._broker_requests = BrokerRequests(
            context, self._commands, self._reads, self._unknown_sets, CheckCodes(context)
        )
        self._admin = OperatorRequests(
            context, self._unknown_sets, self._reads, self._broker_requests.rows_of
        )
        self._transfers = Transfers(context, self._claims, self._reads)
        self._heartbeats = Heartbeats(
            context,
            self._leading,
            self._peers,
            self._outcomes,
            self._reads,
            self._broker_requests.codes,
        )
        self._here: dict[int, Handler] = {
            RequestCode.BROKER_HEARTBEAT: self._heartbeats.broker,
            RequestCode.CONTROLLER_GET_METADATA_INFO: self._peers.metadata,
            RequestCode.GET_CONTROLLER_CONFIG: self._admin.show_config,
            RequestCode.REGENT_PEER_HEARTBEAT: self._heartbeats.peer,
            RequestCode.REGENT_PROCESS_STATUS: self._status,
            RequestCode.REGENT_LOG_LEVEL: self._admin.log_level,
            RequestCode.REGENT_TRANSFER_LEADERSHIP: self._transfer,
        }
        """Answered by every controller for itself."""
        self._led: dict[int, Handler] = {
            **dict.fromkeys(requests.BROKER_BUILDERS, self._broker_requests.request),
            **dict.fromkeys(ADMIN_BUILDERS, self._unknown_sets.request),
            **dict.fromkeys(READS, self._reads.read),
            RequestCode.UPDATE_CONTROLLER_CONFIG: self._admin.update_config,
            RequestCode.REGENT_CONTROLLER_STATE: self._admin.state,
            RequestCode.REGENT_CHANGE_SETTINGS: self._admin.change_settings,
            RequestCode.REGENT_ACTIVATE_RULES: self._admin.activate_rules,
        }
        """Answered by the active controller; a standby forwards them."""

    @property
    def is_active(self) -> bool:
        """True when this process leads, as far as it has applied the log."""
        return self._context.is_active

    def start(self, now_ms: int, wall_ms: int, unpublished: Sequence[Outcome] = ()) -> None:
        """Begin, after bulk catch-up. `unpublished`: outcomes applied beyond the newest published
        one.
        """
        self._context.clock(now_ms, wall_ms)
        self._outcomes.preload(unpublished)
        self._claims.start()

    # -- requests ----------------------------------------------------------------------------------

    def on_request(
        self, conn_id: int, peer: str, request: RemotingCommand, now_ms: int, wall_ms: int
    ) -> list[Effect]:
        """Take a request; the answer may come now, later, or (one-way) never."""
        self._context.clock(now_ms, wall_ms)
        return self._guarded(Waiter(conn_id, peer, request, now_ms))

    def _guarded(self, waiter: Waiter) -> list[Effect]:
        try:
            return self._take(waiter)
        except BadRequest as error:
            status = FAILED if error.code == ResponseCode.SYSTEM_ERROR else SUCCESS
            return waiter.answer(waiter.request.reply(error.code, remark=str(error)), status)

    def _take(self, waiter: Waiter) -> list[Effect]:
        request = waiter.request
        if FORWARDED_FOR in request.ext and not self._context.config.is_of_peer("", waiter.peer):
            raise self._not_of_a_peer(waiter)
        here = self._here.get(request.code)
        if here is not None:
            return here(waiter)
        led = self._led.get(request.code)
        if led is None:
            remark = f" request type {request.code} not supported"
            return waiter.answer(
                request.reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
            )
        return led(waiter) if self.is_active else self._peers.take(waiter)

    def _not_of_a_peer(self, waiter: Waiter) -> BadRequest:
        """Whoever may say for whom he asks speaks in the place of anybody: only controllers do."""
        self._context.metrics.strange_peer_words += 1
        return BadRequest(f"{waiter.peer} is at no host of a controller that is configured here")

    def _transfer(self, waiter: Waiter) -> list[Effect]:
        if self._transfers.is_invitation(waiter.request):
            if not self._context.config.is_of_peer("", waiter.peer):
                raise self._not_of_a_peer(waiter)
            return self._transfers.invited(waiter)
        return self._transfers.request(waiter) if self.is_active else self._peers.take(waiter)

    def _status(self, waiter: Waiter) -> list[Effect]:
        answer = controller_status(
            waiter.request,
            self._context,
            started=self._claims.is_started and self.knows_leader,
            log_answers=self.log_answers,
            end_offset=self._reads.end_offset,
            published_offset=self._outcomes.published_offset,
        )
        return waiter.answer(answer)

    @property
    def log_answers(self) -> bool:
        """What is appended comes through, and what is new in the log is learnt, both in time."""
        return self._commands.is_able() and self._reads.is_able()

    @property
    def knows_leader(self) -> bool:
        """True when this process leads and the log answers, or when it hears who leads."""
        able = not self.is_active or self.log_answers
        return able and self._context.leader_address() is not None

    def replica_hosts(self) -> frozenset[str]:
        """The hosts of registered replicas: where they registered, and from where they are
        heard.
        """
        return self._context.replica_hosts()

    def figures(self, now_ms: int) -> Iterator[Gauges | None]:
        """What the metrics show of this moment; None at each step before the last."""
        self._context.clock(now_ms)
        return figures_of(
            self._context,
            self._reads.end_offset,
            self._outcomes.published_offset,
            self._commands.waiting,
        )

    def on_end_offset(self, token: int, offset: int | None) -> list[Effect]:
        """The log's end (offset of the next record) that was asked for with `token`; None: not
        learnt.
        """
        return self._reads.answered(token, offset)

    # -- what comes back from the log --------------------------------------------------------------

    def on_append_result(self, command_id: bytes, offset: int | None, now_ms: int) -> list[Effect]:
        """The producer's report. None is *unknown*: the record may still come to be applied."""
        self._context.clock(now_ms)
        if self._commands.append_result(command_id, offset):
            return self._outcomes.appended(command_id)
        return []

    def on_applied(self, applied: Applied, now_ms: int, wall_ms: int) -> list[Effect]:
        """The folder has just applied this record; its state is the state after it."""
        context, outcome = self._context, applied.outcome
        context.clock(now_ms, wall_ms)
        if applied.digest_agrees is False and applied.record is not None:
            return [fx.Halt(divergence_of(applied))]
        pending = self._commands.after_apply(applied)
        was_active = self.is_active
        effects = self._claims.follow(applied, pending)
        self._heartbeats.follow(applied)
        context.metrics.record(applied, self.is_active)
        phases = {} if pending is None else dict(pending.phases)
        phases["applied"] = wall_ms
        if pending is not None and pending.waiters:
            effects += self._answer(pending, applied)
            phases["answered"] = wall_ms
        if self.is_active:
            effects += [] if was_active else self._begin_leading()
            effects += self._leading.after(outcome, phases) + self._commands.admit()
        elif was_active:
            effects += self._step_down()
        effects += self._transfers.after_apply() + self._reads.after_apply(applied.offset)
        return effects + self._outcomes.after_apply(outcome, phases, own=pending is not None)

    def _answer(self, pending: PendingCommand, applied: Applied) -> list[Effect]:
        outcome = applied.outcome
        if outcome.refusal == Refusal.STALE_TERM.name:
            return self._peers.take_back(pending)
        self._broker_requests.after_apply(pending, applied)
        return self._commands.answers(pending, outcome)

    # -- leading -----------------------------------------------------------------------------------

    def _begin_leading(self) -> list[Effect]:
        effects = self._leading.begin_leading() + self._outcomes.start()
        for waiter in self._peers.release():
            effects += self._guarded(waiter)
        return effects + self._leading.scan(())

    def _step_down(self) -> list[Effect]:
        self._outcomes.stop()
        waiting = [
            effect for waiter in self._commands.release() for effect in self._peers.take(waiter)
        ]
        return self._leading.step_down() + waiting

    # -- other controllers -------------------------------------------------------------------------

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
        self._context.clock(now_ms)
        return self._heartbeats.peer_heard(
            peer_id, active=active, able=able, term=term, published_offset=published_offset
        )

    def on_peer_closed(self, address: str, refused: bool, now_ms: int) -> list[Effect]:
        """The connection to another controller is gone; `refused`: nobody listens there any
        more.
        """
        self._context.clock(now_ms)
        if refused:
            self._context.leadership.refused(address, now_ms)
            return self._claims.due()
        self._context.leadership.lost(address, now_ms)
        return [fx.Probe(one) for one in self._context.liveness.want_probes([address])]

    def on_reply_from_leader(
        self, token: int, response: RemotingCommand | None, now_ms: int | None = None
    ) -> list[Effect]:
        """The leader's answer to a forwarded request; None: it did not answer, the effect is
        unknown.
        """
        if now_ms is not None:
            self._context.clock(now_ms)
        effects, waiter = self._peers.reply(token, response)
        return effects if waiter is None else effects + self._guarded(waiter)

    def on_broker_answer(
        self, token: int, answer: RemotingCommand | None, now_ms: int
    ) -> list[Effect]:
        """A broker's answer to `AskBroker`; None: it gave none in time."""
        self._context.clock(now_ms)
        return self._leading.answered(token, answer) + self._reads.release()

    # -- hints and time ----------------------------------------------------------------------------

    def on_connection_closed(self, conn_id: int, now_ms: int) -> list[Effect]:
        """An inbound connection is gone: whoever heartbeated over it is probed at once (design
        D8).
        """
        self._context.clock(now_ms)
        addresses = self._context.liveness.connection_closed(conn_id, now_ms)
        return [fx.Probe(address) for address in addresses]

    def on_probe_result(self, address: str, result: str, now_ms: int, wall_ms: int) -> list[Effect]:
        """`result`: refused (nobody listens), open, or timeout."""
        context = self._context
        context.clock(now_ms, wall_ms)
        gone = context.liveness.probe_result(address, result, now_ms)
        if result != "refused":
            return []
        effects: list[Effect] = [
            fx.Note("warning", f"{name}: broker {broker_id} is gone, {address} refuses")
            for _, name, broker_id in gone
        ]
        if context.leadership.refused(address, now_ms):
            effects += self._claims.due()
        return effects + self._leading.refused(address, gone)

    def on_last_published(self, token: int, offset: int | None, now_ms: int) -> list[Effect]:
        """The newest published command offset (-1: none); None: not learnt, asked again later."""
        self._context.clock(now_ms)
        return self._outcomes.last_published(token, offset)

    def on_folded_again(self, outcomes: Sequence[Outcome] | None, now_ms: int) -> list[Effect]:
        """The outcomes that `FoldAgain` asked for; None: the log could not be read."""
        self._context.clock(now_ms)
        return self._outcomes.folded_again(outcomes)

    def on_publish_result(self, command_offset: int, ok: bool, now_ms: int) -> list[Effect]:
        """The producer's report on the outcome of the command at `command_offset`."""
        self._context.clock(now_ms)
        return self._outcomes.result(command_offset, ok)

    def stop(self, now_ms: int) -> list[Effect]:
        """This process ends: everybody who waits is answered as if their time were over."""
        self._context.clock(now_ms + STOPPED_MS)
        return self._overdue()

    def _overdue(self) -> list[Effect]:
        effects = self._commands.expire() + self._reads.expire() + self._peers.expire()
        return effects + self._reads.release() + self._transfers.settle()

    def tick(self, now_ms: int, wall_ms: int) -> list[Effect]:
        """Time has passed. Called some tens of times a second."""
        context = self._context
        if not self._claims.is_started:
            self.start(now_ms, wall_ms)
        context.clock(now_ms, wall_ms)
        context.leadership.tick(now_ms)
        expired, probes = context.liveness.tick(now_ms)
        probes += context.liveness.want_probes(context.leadership.probes_due(now_ms))
        effects: list[Effect] = [fx.Probe(address) for address in probes]
        effects += self._leading.scan(expired)
        effects += self._claims.due()
        able = self._commands.is_able() and self._reads.is_able()
        published = self._outcomes.published_offset
        effects += self._peers.heartbeats(able, published)
        effects += self._overdue()
        return effects + self._reads.ask() + self._peers.drain() + self._outcomes.tick()
