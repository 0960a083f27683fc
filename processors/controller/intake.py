"""Brokers' commands before they reach the log: repeats that are known, and sets that ask too often.

Responsible for: answering a repeated request, refused or without effect, from memory once a read
barrier has shown that nothing has changed, and holding every set to its rate (setting
`commandsPerSetPerSecond`, for each request code). Whoever is not the replica that it speaks for is
turned away before (`controller.codes`).
Refuses to know: why a request was refused, and the controller's own commands: those are paced where
they are made.
"""

from __future__ import annotations

from msgspec.structs import replace

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import FORWARDED_FOR
from events.commands import Command, RegisterBroker
from events.outcomes import Outcome
from processors.controller.codes import CheckCodes
from processors.controller.commands import Commands
from processors.controller.context import CoreContext
from processors.controller.effects import Effect
from processors.controller.reads import Reads
from processors.controller.refusal_memory import RefusalMemory, Situation, situation
from processors.controller.waiting import PendingCommand, Waiter
from processors.fold.decide import decide
from processors.fold.folder import Applied
from processors.fold.refusals import Decision
from processors.fold.rules import SETTING_COMMANDS_PER_SET_PER_SECOND
from processors.liveness.pulses import NOTICE_TOKEN
from processors.liveness.rate_limit import RateLimit
from processors.settings import recorded
from processors.wire import answers, requests
from processors.wire.operator_requests import COMMAND_BUILDERS, cause_of

REFUSALS_PER_SECOND = 1
REFUSALS_BURST = 200
NEW_SETS_PER_SECOND = 50
"""All new names together may write what one known set may."""
NEW_SETS_BURST = 20_000
"""More than any cluster brings along at once; some 8 MB of log, once per leader."""
WISHES_BURST_S = 2
_MAKES_A_SET = frozenset({RequestCode.CONTROLLER_APPLY_BROKER_ID, RequestCode.REGENT_IMPORT_SET})


class UnknownSetRequests:
    """Stands before `Commands`, at the active controller. Its memory does not grow with the
    names it is told.
    """

    def __init__(self, context: CoreContext, commands: Commands, reads: Reads) -> None:
        self._context = context
        self._commands = commands
        self._reads = reads
        self._rates = RateLimit()

    def request(self, waiter: Waiter) -> list[Effect]:
        """A request that becomes a command if there is room for its kind. Raises BadRequest."""
        decision, _ = self._judged(waiter)
        if decision.refusal is None:
            bucket, rate, burst = self._room_of(waiter)
        else:
            bucket, rate, burst = "refused", REFUSALS_PER_SECOND, REFUSALS_BURST
        if self._rates.take(bucket, self._context.now_ms, rate_per_s=rate, burst=burst):
            return self._commands.request(waiter)
        if decision.refusal is not None and waiter.request.code in requests.BROKER_BUILDERS:
            # Nothing was ever accepted for a set that nobody knows, so this is no repeat of
            # something accepted.
            return self._reads.when_current(waiter, self._unrecorded)
        return self._busy(waiter, f"more than {rate} commands of this kind a second, {bucket}")

    def _room_of(self, waiter: Waiter) -> tuple[str, int, int]:
        code = waiter.request.code
        if code in _MAKES_A_SET:
            return "new sets", NEW_SETS_PER_SECOND, NEW_SETS_BURST
        name = SETTING_COMMANDS_PER_SET_PER_SECOND
        rate = recorded.number(self._context.state, name)
        return f"operators' {code}", rate, WISHES_BURST_S * rate

    def _judged(self, waiter: Waiter) -> tuple[Decision, Command]:
        """What the rules would make of it in the state that is known here."""
        context = self._context
        envelope = context.envelope(_NO_COMMAND_ID, cause_of(waiter.request))
        build = COMMAND_BUILDERS[waiter.request.code]
        command = build(waiter.request, envelope, context.evidence_of)
        return decide(context.state, command), command

    def _unrecorded(self, waiter: Waiter) -> list[Effect]:
        """The fold is as far as the log was when the request came: what is refused here was refused
        there.
        """
        context, request = self._context, waiter.request
        name = request.ext.get("brokerName", "")
        decision, command = self._judged(waiter)
        if decision.refusal is None or name in context.state.sets:
            return self._busy(waiter, "something has changed meanwhile, ask again")
        context.metrics.unrecorded_refusals += 1
        envelope = command.envelope
        outcome = Outcome(
            context.folder.offset,
            envelope.command_id,
            envelope.cluster_id,
            envelope.term,
            type(command).__name__,
            name,
            envelope.cause,
            False,
            decision.refusal.name,
            decision.code,
        )
        answer = answers.from_outcome(request, outcome, context.state, context.is_alive)
        remark = (
            f"{decision.refusal.name} as of offset {context.folder.offset}; too many of these, not "
            "recorded"
        )
        return waiter.answer(replace(answer, remark=remark))

    def _busy(self, waiter: Waiter, why: str) -> list[Effect]:
        self._context.metrics.rate_limited += 1
        return waiter.answer(waiter.request.reply(ResponseCode.SYSTEM_BUSY, remark=f"[RATE]{why}"))


BURST_S = 2
"""A set that was quiet may send as much as comes in this many seconds at once."""
STRANGERS_KEPT = 1_000
"""Refusals kept of sets that nobody knows: invented names must not push out those of sets that are
there.
"""
_NO_COMMAND_ID = bytes(16)


class BrokerRequests:
    """Stands before `Commands`, at the active controller."""

    def __init__(
        self,
        context: CoreContext,
        commands: Commands,
        reads: Reads,
        strangers: UnknownSetRequests,
        codes: CheckCodes,
    ) -> None:
        self._context = context
        self._commands = commands
        self._reads = reads
        self._unknown_sets = strangers
        self.codes = codes
        self._memory = RefusalMemory()
        self._of_strangers = RefusalMemory(STRANGERS_KEPT)
        self._rates = RateLimit()

    def request(self, waiter: Waiter) -> list[Effect]:
        """A request that becomes a command, unless what would come of it is known. Raises
        BadRequest.
        """
        refused = self.codes.refused(waiter)
        if refused is not None:
            return refused
        if self._remembered(waiter.request) is not None:
            return self._reads.when_current(waiter, self._again)
        return self._append(waiter)

    def rows_of(self, name: str) -> list[dict[str, object]]:
        """Refused requests about a set that were repeated and answered from memory."""
        return self._memory_of(name).rows_of(name)

    def after_apply(self, pending: PendingCommand, applied: Applied) -> None:
        """A command of somebody who waited has been applied; the state is the one right after
        it.
        """
        outcome, record = applied.outcome, applied.record
        if outcome.changes or record is None:
            return
        evidence = getattr(record, "evidence", ())
        at = situation(self._context.state, outcome.broker_name, evidence)
        memory = self._memory_of(outcome.broker_name)
        for waiter in pending.waiters:
            if waiter.request.code in requests.BROKER_BUILDERS:
                memory.remember(waiter.request, outcome, at)

    def _memory_of(self, name: str | None) -> RefusalMemory:
        return self._memory if name in self._context.state.sets else self._of_strangers

    def _remembered(self, request: RemotingCommand) -> Outcome | None:
        memory = self._memory_of(request.ext.get("brokerName", ""))
        return memory.find(request, self._situation(request)) if memory.knows(request) else None

    def _situation(self, request: RemotingCommand) -> Situation:
        envelope = self._context.envelope(_NO_COMMAND_ID, "")
        command = requests.BROKER_BUILDERS[request.code](
            request, envelope, self._context.evidence_of
        )
        name = request.ext.get("brokerName")
        return situation(self._context.state, name, getattr(command, "evidence", ()))

    def _again(self, waiter: Waiter) -> list[Effect]:
        """The fold is as far as the log was when the repeat arrived: what was refused then is
        refused now.
        """
        request, context = waiter.request, self._context
        outcome = self._remembered(request)
        if outcome is None:
            return self._append(waiter)
        if not outcome.accepted:
            self._memory_of(outcome.broker_name).count(request, outcome, context.wall_ms)
            context.metrics.repeated_refusals += 1
        if (
            request.code == RequestCode.CONTROLLER_REGISTER_BROKER
            and FORWARDED_FOR not in request.ext
        ):
            self._introduce(waiter)
        at_risk = context.is_at_risk(outcome.broker_name)
        return waiter.answer(
            answers.from_outcome(request, outcome, context.state, context.is_alive, at_risk)
        )

    def _introduce(self, waiter: Waiter) -> None:
        context = self._context
        command = requests.register_broker(
            waiter.request, context.envelope(_NO_COMMAND_ID, ""), context.evidence_of
        )
        assert isinstance(command, RegisterBroker)
        introduction = requests.introduction_of(command)
        context.liveness.introduced(
            *introduction, waiter.conn_id, context.now_ms, waiter.request.ext.get(NOTICE_TOKEN)
        )

    def _append(self, waiter: Waiter) -> list[Effect]:
        name = waiter.request.ext.get("brokerName", "")
        if name not in self._context.state.sets:
            return self._unknown_sets.request(waiter)
        rate = recorded.number(self._context.state, SETTING_COMMANDS_PER_SET_PER_SECOND)
        # Each kind for itself: a master that proposes without end must not keep its slaves from
        # registering.
        bucket = f"{waiter.request.code} {name}"
        if not self._rates.take(
            bucket, self._context.now_ms, rate_per_s=rate, burst=BURST_S * rate
        ):
            self._context.metrics.rate_limited += 1
            remark = f"[RATE]more than {rate} commands of this kind a second for {name}"
            return waiter.answer(waiter.request.reply(ResponseCode.SYSTEM_BUSY, remark=remark))
        return self._commands.request(waiter)
