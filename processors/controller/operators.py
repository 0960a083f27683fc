"""What operators ask of controllers beside RocketMQ's own commands: settings, rules, state,
configuration.

Responsible for: 1009, 1010 and the requests 19003 to 19007 (19008: `claims.Transfers`).
Refuses to know: what settings do, and how commands get into the log.
"""

from __future__ import annotations

from brokers.remoting.codes import ResponseCode
from brokers.remoting.fields import BadRequest, Fields
from processors.controller import effects as fx
from processors.controller.context import CoreContext
from processors.controller.documents import RepeatsOf, TooManySets, Wanted, state_document
from processors.controller.effects import Effect
from processors.controller.intake import UnknownSetRequests
from processors.controller.reads import Reads
from processors.controller.waiting import Waiter
from processors.settings import recorded, rocketmq
from processors.wire import operator_requests

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class OperatorRequests:
    """Answers operators. Methods raise BadRequest for what cannot be done; its text is the
    remark.
    """

    def __init__(
        self,
        context: CoreContext,
        commands: UnknownSetRequests,
        reads: Reads,
        repeats_of: RepeatsOf,
    ) -> None:
        self._context = context
        self._commands = commands
        self._repeats_of = repeats_of
        self._reads = reads

    # -- answered here -----------------------------------------------------------------------------

    def show_config(self, waiter: Waiter) -> list[Effect]:
        """1010: start-up values of this controller, settings as they are in force (RULES
        3.9).
        """
        body = rocketmq.shown(self._context.config.startup, self._context.state)
        return waiter.answer(waiter.request.reply(0, body=body))

    def log_level(self, waiter: Waiter) -> list[Effect]:
        """19007: of this process only, until it ends."""
        fields = Fields(waiter.request.ext)
        level = fields.text("level").upper()
        if level not in LOG_LEVELS:
            raise BadRequest(f"the level is none of {', '.join(LOG_LEVELS)}")
        logger = fields.optional("logger")
        if logger is not None and not self._context.config.knows_logger(logger):
            raise BadRequest(
                f"no logger {logger!r} here: name a module of this project that logs, or a "
                "package of it"
            )
        effects: list[Effect] = [fx.SetLogLevel(level, logger)]
        return effects + waiter.answer(waiter.request.reply(0))

    # -- answered by the active controller ---------------------------------------------------------

    def state(self, waiter: Waiter) -> list[Effect]:
        """19003: the state and what the leader sees of the brokers, after a read barrier."""
        return self._reads.when_current(waiter, self._state)

    def _state(self, waiter: Waiter) -> list[Effect]:
        fields = Fields(waiter.request.ext)
        wanted = Wanted(
            name=fields.optional("brokerName"),
            after=fields.text("after", "") if "after" in waiter.request.ext else None,
            sets=fields.text("sets", "").lower() != "false",
        )
        try:
            body = state_document(self._context, wanted, self._repeats_of)
        except TooManySets as error:
            raise BadRequest(str(error)) from None
        return waiter.answer(waiter.request.reply(0, body=body))

    def update_config(self, waiter: Waiter) -> list[Effect]:
        """1009: recorded for all controllers; a black-listed name and nothing is applied
        (RULES 3.9).
        """
        request, context = waiter.request, self._context
        asked = operator_requests.properties_of(request)
        if rocketmq.touches_black_list(asked, context.config.startup):
            remark = "Can not update config in black list."
            return waiter.answer(request.reply(ResponseCode.NO_PERMISSION, remark=remark))
        fixed = rocketmq.fixed_at_start(asked, context.config.startup)
        if fixed:
            raise BadRequest(
                f"{', '.join(fixed)}: fixed when a controller starts; change its file and restart "
                "it"
            )
        return self._change(waiter)

    def change_settings(self, waiter: Waiter) -> list[Effect]:
        """19004: all of the settings in the body, or none."""
        known = recorded.in_force(self._context.state)
        unknown = [
            one for one in operator_requests.wanted_settings(waiter.request) if one not in known
        ]
        if unknown:
            raise BadRequest(f"no such setting: {', '.join(unknown)}")
        return self._change(waiter)

    def _change(self, waiter: Waiter) -> list[Effect]:
        """A command, unless all is as wanted already (only a read barrier can say so) or could
        never be.
        """
        rules = self._context.state.rules_version
        wanted = operator_requests.wanted_settings(waiter.request)
        wrong = [
            why
            for name, value in wanted.items()
            if (why := recorded.why_invalid(name, value, rules))
        ]
        if wrong:
            raise BadRequest(f"INVALID_SETTING: {'; '.join(wrong)}")
        if self._is_so(waiter):
            return self._reads.when_current(waiter, self._change_proven)
        return self._commands.request(waiter)

    def _change_proven(self, waiter: Waiter) -> list[Effect]:
        if self._is_so(waiter):
            return waiter.answer(waiter.request.reply(0))
        return self._commands.request(waiter)

    def _is_so(self, waiter: Waiter) -> bool:
        wanted = operator_requests.wanted_settings(waiter.request)
        in_force = recorded.in_force(self._context.state)
        return all(in_force.get(name) == value for name, value in wanted.items())

    def activate_rules(self, waiter: Waiter) -> list[Effect]:
        """19005: only when every configured controller has been heard and has the rules (design
        D3).
        """
        version = operator_requests.wanted_rules(waiter.request)
        context = self._context
        if version not in context.config.supported_rules:
            raise BadRequest(f"{context.config.controller_id} has no rules version {version}")
        lacking = []
        for peer in sorted(context.leadership.peers):
            word = context.peer_reports.report(peer, context.now_ms)
            if word is None:
                lacking.append(f"{peer} is not heard")
            elif version not in word.rules:
                lacking.append(
                    f"{peer} ({word.release or 'an older release'}) has no rules version {version}"
                )
        if lacking:
            raise BadRequest("not activated: " + "; ".join(lacking))
        return self._commands.request(waiter)
