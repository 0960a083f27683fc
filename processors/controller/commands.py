"""Commands on their way into the log and back (design D5).

Responsible for: turning requests, elections, claims and the formation into appends, and answering
those who wait when the command has been applied or its deadline has passed.
Refuses to know: when an election or a claim is due.
"""

from __future__ import annotations

from bisect import insort
from collections import deque

from msgspec import structs

from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import FORWARDED_FOR, NAME_CHARS_MAX, BadRequest
from events.codec import COMMAND_FINGERPRINTS, MalformedRecord, encode, fingerprint_of
from events.commands import ClaimLeadership, ClusterFormed, Command, ElectMaster, RegisterBroker
from events.outcomes import Outcome
from processors.controller import effects as fx
from processors.controller.context import CoreContext
from processors.controller.effects import Effect
from processors.controller.elections import Elections
from processors.controller.metrics import TIMEOUT
from processors.controller.overload import QUEUED_MAX_MS, Admission
from processors.controller.waiting import PendingCommand, PendingCommands, Purpose, Waiter
from processors.fold.candidates import REASON_UNSHOWN
from processors.fold.folder import Applied
from processors.fold.refusals import RESPONSE_CODES, Refusal
from processors.fold.state import BrokerSet, Replica
from processors.liveness.pulses import NOTICE_TOKEN
from processors.liveness.triggers import ElectionCall, may_live
from processors.wire import answers as responses
from processors.wire import requests
from processors.wire.answers import asked_by_another_start
from processors.wire.operator_requests import COMMAND_BUILDERS, cause_of

REUSED_CODE = int(RESPONSE_CODES[Refusal.COMMAND_ID_REUSED])


def busy(waiter: Waiter) -> list[Effect]:
    """Code 2: this controller holds as many requests as it may."""
    remark = "too many requests are waiting for the log"
    return waiter.answer(waiter.request.reply(ResponseCode.SYSTEM_BUSY, remark=remark))


def _require_same(pending: PendingCommand | None, request: RemotingCommand) -> None:
    """Under one id there is one command: who asks for another would be told what came of the first
    (as the fold has it).
    """
    if pending is None or not pending.waiters:
        return
    first = pending.waiters[0].request
    if (first.code, first.ext.get("brokerName")) != (request.code, request.ext.get("brokerName")):
        raise BadRequest(
            f"{Refusal.COMMAND_ID_REUSED.name}: the id is another request's", REUSED_CODE
        )


class Commands:
    """The commands of one controller, by id."""

    def __init__(self, context: CoreContext) -> None:
        self._context = context
        self._pending = PendingCommands(
            context.config.request_deadline_ms, context.config.requests_max
        )
        self._admission = Admission()
        self._queue: deque[tuple[int, Waiter]] = deque()
        """(until when, who): requests that have not become commands yet, in order."""
        self._trouble_ms: int | None = None
        self._progress_ms = 0

    # -- in ----------------------------------------------------------------------------------------

    def request(self, waiter: Waiter) -> list[Effect]:
        """A broker's or operator's request, while this controller leads. Raises BadRequest."""
        if self._pending.is_full:
            return busy(waiter)
        context = self._context
        command_id = requests.command_id_of(waiter.request)
        before = None if command_id is None else self._pending.get(command_id)
        _require_same(before, waiter.request)
        if before is not None and not before.unknown:
            self._pending.join(before, waiter)
            return []
        if not self._queue and self._admission.has_room(context.now_ms):
            return self._begin(waiter)
        if len(self._queue) >= context.config.requests_max:
            return busy(waiter)
        answer_by_ms = waiter.answer_by_ms(context.config.request_deadline_ms, context.now_ms)
        # Whoever waited elsewhere before has less time left: it goes before those who have more.
        entry = min(context.now_ms + QUEUED_MAX_MS, answer_by_ms), waiter
        insort(self._queue, entry, key=lambda one: one[0])
        return []

    def admit(self) -> list[Effect]:
        """The requests in the queue for which there is room now."""
        effects: list[Effect] = []
        while (
            self._queue
            and self._context.is_active
            and self._admission.has_room(self._context.now_ms)
        ):
            _, waiter = self._queue.popleft()
            try:
                effects += self._begin(waiter)
            except BadRequest as error:
                effects += waiter.answer(waiter.request.reply(error.code, remark=str(error)))
        return effects

    def release(self) -> list[Waiter]:
        """Everybody in the queue, because another controller leads."""
        waiters = [waiter for _, waiter in self._queue]
        self._queue.clear()
        return waiters

    def _begin(self, waiter: Waiter) -> list[Effect]:
        request, context = waiter.request, self._context
        command_id = requests.command_id_of(request)
        command_id = command_id or next(context.ids)
        _require_same(self._pending.get(command_id), request)
        requested_by = request.ext.get(FORWARDED_FOR, waiter.peer)[:NAME_CHARS_MAX]
        envelope = context.envelope(command_id, cause_of(request), requested_by)
        build = COMMAND_BUILDERS[request.code]
        command = self._of_its_start(request, build(request, envelope, context.evidence_of))
        command = self._beside_its_master(command)
        command = requests.as_active(command, context.state.fingerprints)
        if fingerprint_of(command) not in context.state.fingerprints:
            # In the log it would be bytes that nobody reads, and its sender would never hear of it
            # (D3).
            kind, rules = type(command).__name__, context.state.rules_version
            raise BadRequest(f"{kind} is not active under rules {rules}: upgrade the cluster first")
        append = self._issue(command, Purpose.REQUEST, waiters=[waiter])
        if isinstance(command, RegisterBroker) and FORWARDED_FOR not in request.ext:
            context.liveness.introduced(
                *requests.introduction_of(command),
                waiter.conn_id,
                context.now_ms,
                request.ext.get(NOTICE_TOKEN),
            )
        return append

    def _of_its_start(self, request: RemotingCommand, command: Command) -> Command:
        """Who asks to lead names its start. Of another one than is registered nobody knows the
        position (S5).
        """
        broker_set = self._context.state.sets.get(request.ext.get("brokerName", ""))
        if (
            not isinstance(command, ElectMaster)
            or "regentIncarnation" not in request.ext
            or broker_set is None
        ):
            return command
        if not asked_by_another_start(request, broker_set, str(command.broker_id)):
            return command
        rows = (
            structs.replace(row, alive=False, reason=REASON_UNSHOWN)
            if row.broker_id == command.broker_id
            else row
            for row in command.evidence
        )
        return structs.replace(command, evidence=tuple(rows))

    def _beside_its_master(self, command: Command) -> Command:
        """A broker that asks for a master gets the present one while that may live. An operator
        gets his way.
        """
        if not isinstance(command, ElectMaster) or command.designate or command.broker_id < 0:
            return command
        context = self._context
        broker_set = context.state.sets.get(command.broker_name)
        master = None if broker_set is None else broker_set.master()
        if broker_set is None or master is None:
            return command
        since_ms = context.leading_since_ms
        if not may_live(broker_set, master, context.liveness, since_ms, context.now_ms):
            return command
        rows = (
            structs.replace(row, alive=True, incarnation=row.incarnation or master.incarnation)
            if row.broker_id == master.broker_id
            else row
            for row in command.evidence
        )
        return structs.replace(command, evidence=tuple(rows))

    def election(self, call: ElectionCall, phases: dict[str, int]) -> list[Effect]:
        """An election of the controller's own accord."""
        envelope = self._context.envelope(next(self._context.ids), call.cause)
        command = requests.as_active(
            Elections.command(call, envelope), self._context.state.fingerprints
        )
        note = fx.Note("info", f"{call.broker_name}: electing, {call.cause}")
        return [note, *self._issue(command, Purpose.ELECTION, phases)]

    def unclean_start(
        self, broker_set: BrokerSet, replica: Replica, position: tuple[int, int], cause: str
    ) -> list[Effect]:
        """The registration of a replica that tells no position, of the controller's own accord: it
        lost data.
        """
        epoch, end_offset = position
        command = RegisterBroker(
            self._context.envelope(next(self._context.ids), cause),
            broker_set.cluster_name,
            broker_set.broker_name,
            replica.broker_id,
            replica.address,
            clean=False,
            last_epoch=epoch,
            end_offset=end_offset,
        )
        note = fx.Note(
            "error",
            f"{broker_set.broker_name}: broker {replica.broker_id} lost data: it shows ({epoch}, "
            f"{end_offset})",
        )
        return [note, *self._issue(command, Purpose.REQUEST)]

    def formation(self) -> list[Effect]:
        """Record 0 of an empty log; when several controllers try, the first one counts."""
        if self._pending.has(Purpose.FORMATION):
            return []
        envelope = self._context.envelope(next(self._context.ids), "empty_log")
        settings = dict(self._context.config.settings)
        rules = max(self._context.config.supported_rules)
        formed = ClusterFormed(envelope, rules, settings, COMMAND_FINGERPRINTS)
        return self._issue(formed, Purpose.FORMATION)

    @property
    def is_claiming(self) -> bool:
        """Whether a claim of this controller is under way."""
        return self._pending.has(Purpose.CLAIM)

    def claim(self, cause: str) -> list[Effect]:
        """A claim of leadership for this controller."""
        context = self._context
        claim = ClaimLeadership(
            context.envelope(next(context.ids), cause),
            context.state.term,
            context.config.controller_id,
            context.config.address,
            context.config.release,
        )
        return self._issue(claim, Purpose.CLAIM)

    def _issue(
        self,
        command: Command,
        purpose: Purpose,
        phases: dict[str, int] | None = None,
        waiters: list[Waiter] | None = None,
    ) -> list[Effect]:
        command_id = command.envelope.command_id
        try:
            data = encode(command)
        except MalformedRecord as error:
            raise BadRequest(f"the request has no encoding: {error}") from None
        self._admission.begin(command_id, self._context.now_ms)
        stamps = {**(phases or {}), "received": self._context.wall_ms}
        self._pending.add(
            PendingCommand(
                command_id,
                purpose,
                self._context.now_ms,
                command.envelope.term,
                stamps,
                waiters or [],
            )
        )
        return [fx.Append(command_id, data)]

    # -- out ---------------------------------------------------------------------------------------

    def append_result(self, command_id: bytes, offset: int | None) -> bool:
        """Take the producer's report; True when the command has been applied already."""
        pending = self._pending.get(command_id)
        if offset is None:
            self._admission.gave_up(command_id)
            if self._trouble_ms is None:
                self._trouble_ms = self._context.now_ms
            if pending is not None:
                pending.unknown = True
            return False
        if pending is None:
            return True
        pending.phases.setdefault("appended", self._context.wall_ms)
        return False

    def after_apply(self, applied: Applied) -> PendingCommand | None:
        """What waited for this command here."""
        self._progress_ms = now_ms = self._context.now_ms
        self._admission.back(applied.outcome.command_id, now_ms)
        if (
            applied.record is not None
            and applied.record.envelope.issuer == self._context.config.controller_id
        ):
            self._trouble_ms = None  # However long it took: what is appended here arrives.
        pending = self._pending.get(applied.outcome.command_id)
        if pending is None or applied.record is None:
            return None
        stale = applied.outcome.refusal == Refusal.STALE_TERM.name
        if stale and applied.record.envelope.term != pending.term:
            # A former leader's copy under the same id decided nothing; ours is still to come.
            return None
        return self._pending.take(pending.command_id)

    def answers(self, pending: PendingCommand, outcome: Outcome) -> list[Effect]:
        """The answers to everybody who waited; the state is the one right after the command."""
        context = self._context
        state, at_risk = context.state, context.is_at_risk(outcome.broker_name)
        effects: list[Effect] = []
        for waiter in pending.waiters:
            request = waiter.request
            effects += waiter.answer(
                responses.from_outcome(request, outcome, state, context.is_alive, at_risk)
            )
        return effects

    def _turned_away(self) -> list[Effect]:
        """Code 2 to waiters that no answer could reach in time any more."""
        effects: list[Effect] = []
        while self._queue and self._context.now_ms >= self._queue[0][0]:
            effects += busy(self._queue.popleft()[1])
        return effects

    def expire(self) -> list[Effect]:
        """Code 1, *unknown*, to those whose deadline has passed; code 2 to those whose turn came
        too late.
        """
        waited_ms, now_ms = self._context.config.request_deadline_ms, self._context.now_ms
        late = self._pending.impatient(now_ms)
        for pending in self._pending.expired(now_ms):
            late += pending.waiters
        unknown = [
            effect
            for waiter in late
            for effect in waiter.answer(responses.unknown(waiter.request, waited_ms), TIMEOUT)
        ]
        return unknown + self._turned_away() + self.admit()

    @property
    def waiting(self) -> int:
        """Commands handed to the log and not applied yet, and requests before them."""
        return len(self._pending) + len(self._queue)

    def is_able(self) -> bool:
        """False when commands wait and for a while nothing has come through: the log is out of
        reach.
        """
        now_ms = self._context.now_ms
        limit_ms = self._context.patience.limit_ms(now_ms, len(self._admission))
        if self._trouble_ms is not None and now_ms - self._trouble_ms > limit_ms:
            return False
        waiting_ms = min(self._pending.oldest_age_ms(now_ms), now_ms - self._progress_ms)
        return waiting_ms <= limit_ms
