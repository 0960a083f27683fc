"""Commands that no known set answers for: names nobody knows, and what operators wish.

Responsible for: how fast they may make a log grow that is kept for ever. What the rules would
refuse is recorded at one slow rate for all of them together; beyond it whoever asks about an
unknown set is told what the rules say, after a read barrier and without a record. What the rules
would accept has rates of its own.
Refuses to know: repeats (`controller.intake`), and the rates of sets that are known.
"""

from __future__ import annotations

from msgspec.structs import replace

from brokers.remoting.codes import RequestCode, ResponseCode
from events.commands import Command
from events.outcomes import Outcome
from processors.controller.commands import CommandDesk
from processors.controller.context import CoreContext
from processors.controller.effects import Effect
from processors.controller.reads import ReadDesk
from processors.controller.waiting import Waiter
from processors.fold.decide import decide
from processors.fold.refusals import Decision
from processors.liveness.rate_limit import RateLimit
from processors.settings import recorded
from processors.wire import answers, requests
from processors.wire.operator_requests import COMMAND_BUILDERS

REFUSALS_PER_SECOND = 1
REFUSALS_BURST = 200
NEW_SETS_PER_SECOND = 50
"""All new names together may write what one known set may."""
NEW_SETS_BURST = 20_000
"""More than any cluster brings along at once; some 8 MB of log, once per leader."""
WISHES_BURST_S = 2
_NO_COMMAND_ID = bytes(16)
_MAKES_A_SET = frozenset({RequestCode.CONTROLLER_APPLY_BROKER_ID, RequestCode.REGENT_IMPORT_SET})


class StrangerDesk:
    """Stands before the command desk, at the active controller. Its memory does not grow with the
    names it is told.
    """

    def __init__(self, context: CoreContext, commands: CommandDesk, reads: ReadDesk) -> None:
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
        name = recorded.COMMANDS_PER_SET_PER_SECOND
        rate = recorded.number(self._context.state, name)
        return f"operators' {code}", rate, WISHES_BURST_S * rate

    def _judged(self, waiter: Waiter) -> tuple[Decision, Command]:
        """What the rules would make of it in the state that is known here."""
        context = self._context
        envelope = context.envelope(_NO_COMMAND_ID, requests.cause_of(waiter.request))
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
