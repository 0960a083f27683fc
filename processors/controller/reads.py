"""Reads at the active controller: 1004, 1006, 1012, and whatever else must be current (design D5).

Responsible for: letting each wait until the fold is as far as the log was when it arrived, then
serving it.
Refuses to know: how the end of the log is learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import BadRequest
from processors.controller import effects as fx
from processors.controller.commands import busy
from processors.controller.context import CoreContext
from processors.controller.effects import Effect
from processors.controller.metrics import TIMEOUT
from processors.controller.overload import UNABLE_AFTER_MS, UNABLE_MAX_MS
from processors.controller.waiting import Waiter
from processors.wire import answers, requests

QUESTION_EVERY_MS = 500
"""Also a controller that nobody asks for anything wants to know."""
KEPT_MAX = 1_000
"""Polls of Java slaves that wait for a new master's role; those of more are answered at once."""


class LogAccess:
    """Times are monotonic ms. Before the first look the bulk of the log has just been read."""

    def __init__(self) -> None:
        self._answered_ms: int | None = None
        self._goal: tuple[int, int] | None = None
        """(offset to be applied, since when that is known)"""
        self._progress_ms = 0

    def is_question_due(self, now_ms: int) -> bool:
        """True when nobody has learnt the log's end for a while."""
        if self._answered_ms is None:
            self._answered_ms = now_ms
        return now_ms - self._answered_ms >= QUESTION_EVERY_MS

    def answered(self, end_offset: int, applied_offset: int, now_ms: int) -> None:
        """The log ends there (offset of the next record)."""
        self._answered_ms = now_ms
        if self._goal is None and end_offset - 1 > applied_offset:
            self._goal = end_offset - 1, now_ms

    def after_apply(self, offset: int, now_ms: int) -> None:
        """The fold has come this far."""
        self._progress_ms = now_ms
        if self._goal is not None and offset >= self._goal[0]:
            self._goal = None

    def is_able(self, now_ms: int, limit_ms: int = UNABLE_AFTER_MS) -> bool:
        """False when nothing comes any more: neither word of the log's end, nor the records that
        stand before it.

        A reader far behind that comes forward is overloaded and not cut off; it counts as cut off
        only after a long time.
        """
        answered_ms = now_ms if self._answered_ms is None else self._answered_ms
        since_ms = now_ms if self._goal is None else self._goal[1]
        if now_ms - min(answered_ms + QUESTION_EVERY_MS, since_ms) > UNABLE_MAX_MS:
            return False
        heard_ms = max(answered_ms + QUESTION_EVERY_MS, self._progress_ms)
        return now_ms - min(heard_ms, max(since_ms, self._progress_ms)) <= limit_ms

    def is_current(self, now_ms: int, since_ms: int = 0) -> bool:
        """True when the log's end was learnt since then, and of late, and what stands before it
        arrives in time.
        """
        if self._answered_ms is None or self._answered_ms < since_ms:
            return False
        if now_ms - self._answered_ms > QUESTION_EVERY_MS + UNABLE_AFTER_MS:
            return False
        return self._goal is None or now_ms - self._goal[1] <= UNABLE_AFTER_MS


T = TypeVar("T")

READS_MAX = 10_000


@dataclass(slots=True)
class _Waiting(Generic[T]):
    read: T
    deadline_ms: int


class ReadBarrier(Generic[T]):
    """`ask` says when a question must be put; the answer comes back through `answered`."""

    def __init__(self, limit: int = READS_MAX) -> None:
        self._limit = limit
        self._unasked: list[_Waiting[T]] = []
        self._asked: list[_Waiting[T]] = []
        self._held: list[tuple[int, _Waiting[T]]] = []
        self._held_until = 0
        """No held read is served below this offset, so not every record has to look at them all."""
        self._token = 0
        self._open = False

    def __len__(self) -> int:
        return len(self._unasked) + len(self._asked) + len(self._held)

    @property
    def is_full(self) -> bool:
        return len(self) >= self._limit

    def add(self, read: T, deadline_ms: int) -> None:
        self._unasked.append(_Waiting(read, deadline_ms))

    def ask(self, *, unasked_for: bool = False) -> int | None:
        """The token of a new question, or None. A question already under way is too old for
        newcomers.
        """
        if self._open or not (self._unasked or unasked_for):
            return None
        self._open = True
        self._token += 1
        self._asked, self._unasked = self._unasked, []
        return self._token

    def answered(self, token: int, end_offset: int | None, applied_offset: int) -> list[T]:
        """The reads that may be served now. `end_offset` None: not learnt; the reads ask again."""
        if not self._open or token != self._token:
            return []
        self._open = False
        asked, self._asked = self._asked, []
        if end_offset is None:
            self._unasked = asked + self._unasked
            return []
        ready = [waiting.read for waiting in asked if applied_offset >= end_offset - 1]
        if not ready and asked:
            self._held_until = (
                min(self._held_until, end_offset - 1) if self._held else end_offset - 1
            )
            self._held.extend((end_offset - 1, waiting) for waiting in asked)
        return ready

    def after_apply(self, offset: int) -> list[T]:
        """The reads that the fold has caught up with."""
        if not self._held or offset < self._held_until:
            return []
        ready = [waiting.read for until, waiting in self._held if until <= offset]
        self._held = [(until, waiting) for until, waiting in self._held if until > offset]
        self._held_until = min((until for until, _ in self._held), default=0)
        return ready

    def expired(self, now_ms: int) -> list[T]:
        """Reads past their deadline; they are dropped."""
        late: list[T] = []
        for waiting in [*self._unasked, *self._asked, *(waiting for _, waiting in self._held)]:
            if now_ms >= waiting.deadline_ms:
                late.append(waiting.read)
        if late:
            self._unasked = [one for one in self._unasked if now_ms < one.deadline_ms]
            self._asked = [one for one in self._asked if now_ms < one.deadline_ms]
            self._held = [(until, one) for until, one in self._held if now_ms < one.deadline_ms]
        return late


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


class Reads:
    """The reads that wait here."""

    def __init__(self, context: CoreContext) -> None:
        self._context = context
        self._barrier: ReadBarrier[tuple[Waiter, Serve]] = ReadBarrier(context.config.requests_max)
        self._access = LogAccess()
        self.end_offset = 0
        """The newest end of the log that was learnt (offset of the next record)."""
        self._known_end = 0
        """Where the log ended for certain when the question under way was put."""
        self._kept: list[Waiter] = []
        """Polls whose answer is not for Java slaves yet, in the order in which they came."""

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
            # A log never gets shorter: the answering node is behind and proves nothing. What was
            # applied while the answer was on its way says nothing against it: under load that is
            # the rule.
            end_offset = None
        if end_offset is not None:
            self.end_offset = end_offset
            self._access.answered(end_offset, context.folder.offset, context.now_ms)
        ready = self._barrier.answered(token, end_offset, context.folder.offset)
        served = _all(ready)
        return served if end_offset is None else served + self.ask()

    def after_apply(self, offset: int) -> list[Effect]:
        """The fold has come this far."""
        self._access.after_apply(offset, self._context.now_ms)
        return _all(self._barrier.after_apply(offset))

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

    def release(self) -> list[Effect]:
        """Serve the kept polls whose time has come."""
        kept, self._kept = self._kept, []
        return [effect for waiter in kept for effect in _one(waiter, self._serve)]

    def _keeps(self, waiter: Waiter) -> bool:
        """Keep a poll that may be a Java slave's which is not to hear of its new master yet. Java's
        brokers do not say who asks, but each has one connection for all that it says.
        """
        request, context = waiter.request, self._context
        name = request.ext.get("brokerName", "")
        one = context.state.sets.get(name)
        if one is None or one.master() is None:
            return False
        answer_by_ms = waiter.answer_by_ms(context.config.request_deadline_ms, context.now_ms)
        if (
            request.code != RequestCode.CONTROLLER_GET_REPLICA_INFO
            or "regentBrokerId" in request.ext
            or not context.takings.keeps(name, one.master_epoch, context.now_ms)
            or context.now_ms >= answer_by_ms
            or len(self._kept) >= KEPT_MAX
        ):
            return False
        key = (one.cluster_name, name, one.master_broker_id or NO_CONNECTION)
        pulse = context.liveness.pulse(key)
        if pulse is not None and pulse.conn_id == waiter.conn_id:
            return False
        self._kept.append(waiter)
        return True

    def _serve(self, waiter: Waiter) -> list[Effect]:
        request, state = waiter.request, self._context.state
        if self._keeps(waiter):
            return []
        if request.code == RequestCode.CONTROLLER_GET_REPLICA_INFO:
            at_risk = self._context.is_at_risk(request.ext.get("brokerName"))
            response = answers.replica_info(request, state, at_risk)
        elif request.code == RequestCode.CONTROLLER_GET_NEXT_BROKER_ID:
            response = answers.next_broker_id(request, state)
        else:
            names = requests.wanted_set_names(request)
            response = answers.sync_state_data(request, names, state, self._context.is_alive)
        return waiter.answer(response)


def _all(ready: list[tuple[Waiter, Serve]]) -> list[Effect]:
    return [effect for waiter, serve in ready for effect in _one(waiter, serve)]


def _one(waiter: Waiter, serve: Serve) -> list[Effect]:
    """A question about an impossible place gets an error, and the others are served."""
    try:
        return serve(waiter)
    except BadRequest as error:
        return waiter.answer(waiter.request.reply(error.code, remark=str(error)))
