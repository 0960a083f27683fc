"""Reads at the active controller: 1004, 1006, 1012, and whatever else must be current (design D5).

Responsible for: letting each wait until the fold is as far as the log was when it arrived, then
serving it.
Refuses to know: how the end of the log is learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from processors.controller import effects as fx
from processors.controller.commands import busy
from processors.controller.context import CoreContext
from processors.controller.effects import Effect
from processors.controller.log_access import LogAccess
from processors.controller.metrics import TIMEOUT
from processors.controller.read_barrier import ReadBarrier
from processors.controller.waiting import Waiter
from processors.wire import answers, read_answers, requests

READS = frozenset(
    {
        RequestCode.CONTROLLER_GET_REPLICA_INFO,
        RequestCode.CONTROLLER_GET_SYNC_STATE_DATA,
        RequestCode.CONTROLLER_GET_NEXT_BROKER_ID,
    }
)

NO_CONNECTION = -1
Serve: TypeAlias = Callable[[Waiter], list[Effect]]
"""What to do for a waiter once the fold is current."""


class ReadDesk:
    """The reads that wait here."""

    def __init__(self, context: CoreContext) -> None:
        self._context = context
        self._barrier: ReadBarrier[tuple[Waiter, Serve]] = ReadBarrier(context.config.requests_max)
        self._access = LogAccess()
        self.end_offset = 0
        """The newest end of the log that was learnt (offset of the next record)."""
        self._known_end = 0
        """Where the log ended for certain when the question under way was put."""

    def read(self, waiter: Waiter) -> list[Effect]:
        """Take a broker's or operator's read in. Raises BadRequest for a body that will never be
        readable.
        """
        if waiter.request.code == RequestCode.CONTROLLER_GET_SYNC_STATE_DATA:
            requests.wanted_set_names(waiter.request)
        return self.when_current(waiter, self._serve)

    def when_current(self, waiter: Waiter, serve: Serve) -> list[Effect]:
        """Do `serve` when the fold has passed the end that the log has now; code 1 when that takes
        too long.
        """
        if self._barrier.is_full:
            return busy(waiter)
        context = self._context
        deadline_ms = waiter.answer_by_ms(context.config.request_deadline_ms, context.now_ms)
        self._barrier.add((waiter, serve), deadline_ms)
        return self.ask()

    def once_current(self, act: Callable[[], list[Effect]]) -> list[Effect]:
        """Do something that nobody asked for once it is proven to be current; not at all when that
        takes too long.
        """
        nobody = RemotingCommand.request(RequestCode.REGENT_PROCESS_STATUS, oneway=True)
        return self.when_current(Waiter(NO_CONNECTION, "", nobody), lambda _: act())

    def ask(self) -> list[Effect]:
        """The next question about the log's end, if one is needed."""
        token = self._barrier.ask(unasked_for=self._access.is_question_due(self._context.now_ms))
        if token is None:
            return []
        self._known_end = max(self.end_offset, self._context.folder.offset + 1)
        return [fx.AskEndOffset(token)]

    def answered(self, token: int, end_offset: int | None) -> list[Effect]:
        """The log's end; None: not learnt, and then the next question waits for the next tick."""
        context = self._context
        if end_offset is not None and end_offset < self._known_end:
            # A log never gets shorter: whoever answered is behind and proves nothing. What was
            # applied while the answer was on its way says nothing against it: under load that is
            # the rule.
            end_offset = None
        if end_offset is not None:
            self.end_offset = end_offset
            self._access.answered(end_offset, context.folder.offset, context.now_ms)
        ready = self._barrier.answered(token, end_offset, context.folder.offset)
        served = _all(ready)
        return served if end_offset is None else served + self.ask()

    def applied(self, offset: int) -> list[Effect]:
        """The fold has come this far."""
        self._access.applied(offset, self._context.now_ms)
        return _all(self._barrier.applied(offset))

    def is_able(self) -> bool:
        """True while something comes from the log: word of its end, and the records that stand
        before it.
        """
        context = self._context
        return self._access.is_able(context.now_ms, context.patience.limit_ms(context.now_ms))

    def is_current(self, since_ms: int) -> bool:
        """True when the log's end was learnt at `since_ms` or later, and this controller keeps up
        with it.
        """
        return self._access.is_current(self._context.now_ms, since_ms)

    def expire(self) -> list[Effect]:
        waited_ms = self._context.config.request_deadline_ms
        effects: list[Effect] = []
        for waiter, _ in self._barrier.expired(self._context.now_ms):
            effects += waiter.answer(answers.unread(waiter.request, waited_ms), TIMEOUT)
        return effects

    def _serve(self, waiter: Waiter) -> list[Effect]:
        request, state = waiter.request, self._context.state
        if request.code == RequestCode.CONTROLLER_GET_REPLICA_INFO:
            at_risk = self._context.is_at_risk(request.ext.get("brokerName"))
            response = read_answers.replica_info(request, state, at_risk)
        elif request.code == RequestCode.CONTROLLER_GET_NEXT_BROKER_ID:
            response = read_answers.next_broker_id(request, state)
        else:
            names = requests.wanted_set_names(request)
            response = read_answers.sync_state_data(request, names, state, self._context.is_alive)
        return waiter.answer(response)


def _all(ready: list[tuple[Waiter, Serve]]) -> list[Effect]:
    return [effect for waiter, serve in ready for effect in _one(waiter, serve)]


def _one(waiter: Waiter, serve: Serve) -> list[Effect]:
    """Who asked for what cannot be is told so, and the others are served."""
    try:
        return serve(waiter)
    except requests.BadRequest as error:
        return waiter.answer(waiter.request.reply(error.code, remark=str(error)))
