"""Acknowledgements that come the short way: those of one turn of the loop are stored, and answered,
together (PROTOCOL 4.9).

Responsible for: that one of them is answered 0 only when every member has its record, and all that
cannot be stored are left to the long way. Refuses to know: how one looks (`usual_acks`), what the
long way answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from brokers.remoting.codec import encode
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.replica.put_rules import PutStatus, code_of
from brokers.service.popping.handles import NAME_CHARACTERS_MAX, BadHandle, parse_handle
from brokers.service.popping.names import ORDERED_REVIVE_QUEUE
from brokers.service.popping.records import Ack, key_of
from brokers.service.popping.terms import PopTerms
from brokers.service.popping.usual_acks import (
    FIELDS_IN_FRONT,
    AckForm,
    AckOf,
    done_frame,
    form_of,
    usual_ack,
)
from brokers.service.sending.log_writes import NotPut
from brokers.service.tables.subscription_groups import group_refusal
from brokers.store.log.records import MessageFields, RecordError

# Check points of which the form of their acknowledgements is kept: more than get some at a time.
FORMS_MAX = 1_024


class _Taken(NamedTuple):
    connection: Connection
    request: RemotingCommand
    record: MessageFields


class ExpressAcks:
    """On the store's thread. `soon(act)`: in the loop's next turn."""

    def __init__(self, terms: PopTerms, soon: Callable[[Callable[[], None]], object]) -> None:
        self._terms = terms
        self._soon = soon
        self._taken: list[_Taken] = []
        self._wall_ms = self._timer_ms = 0  # when the first of them was, by clock and timer
        self._forms: dict[AckOf, AckForm] = {}

    def take(self, connection: Connection, request: RemotingCommand) -> bool:
        """A usual 200051 that can be stored, at once; False, and nothing was done, when the long
        way has to look at it.
        """
        terms = self._terms
        timer, usual = terms.timer, usual_ack(request.ext)
        if usual is None or timer is None or not terms.leads():
            return False
        of, offset = usual
        form = self._forms.get(of) or self._new_form(of)
        config = terms.tables.topics.get(of.topic)
        if form is None or config is None:
            return False
        if not self._taken:
            self._wall_ms, self._timer_ms = terms.clock.wall_ms(), timer.now_ms()
        low, high = terms.store.queue_bounds(of.topic, form.queue_id)
        if (
            form.queue_id >= config.read_queues
            or not low <= offset <= high
            or form.revive_queue >= terms.revive_queues
            or form.visible_ms <= self._timer_ms
        ):
            return False
        if not self._taken:
            self._soon(self._flush)
        self._taken.append(_Taken(connection, request, form.record(offset, self._wall_ms)))
        return True

    def _new_form(self, of: AckOf) -> AckForm | None:
        """After what the long way stores; None: that has to look at them."""
        terms = self._terms
        if group_refusal(of.group) is not None or len(of.topic) > NAME_CHARACTERS_MAX:
            return None
        try:
            handle = parse_handle(f"{of.handle}0")
            if (
                of.handle.count(" ") != FIELDS_IN_FRONT
                or handle.revive_queue < 0
                or handle.revive_queue == ORDERED_REVIVE_QUEUE
            ):
                return None
            key = key_of(handle, of.topic, of.group, int(of.queue))
            record = terms.records.ack(Ack(key, (0,)), handle.visible_ms, handle.revive_queue, 0)
            waiting = terms.waiting(record)
        except (BadHandle, NotPut):
            return None
        if waiting is record:
            return None
        form = form_of(key, handle.revive_queue, handle.visible_ms, waiting)
        if form is not None:
            if len(self._forms) >= FORMS_MAX:
                del self._forms[next(iter(self._forms))]
            self._forms[of] = form
        return form

    def _flush(self) -> None:
        """Everything that came in this turn of the loop goes into the log with one write."""
        taken, self._taken = self._taken, []
        try:
            results = self._terms.puts.append([one.record for one in taken])
        except NotPut as refusal:
            _answer(taken, ResponseCode.SYSTEM_ERROR, refusal.remark)
            return
        stored, end_offset = [], 0
        for one, result in zip(taken, results, strict=True):
            if isinstance(result, RecordError):
                remark = code_of(PutStatus.MESSAGE_ILLEGAL, str(result))[1]
                _answer([one], ResponseCode.SYSTEM_ERROR, remark)
            else:
                stored.append(one)
                end_offset = result.end_offset
        if stored:
            self._terms.puts.tell(end_offset, len(stored), partial(_settled, stored))


def _settled(taken: Sequence[_Taken], status: PutStatus) -> None:
    """What became of their records."""
    if status is PutStatus.PUT_OK:
        _answer(taken, ResponseCode.SUCCESS, None)
    else:
        _answer(taken, ResponseCode.SYSTEM_ERROR, code_of(status, status.value)[1])


def _answer(taken: Sequence[_Taken], code: ResponseCode, remark: str | None) -> None:
    """Those that follow one another on one connection leave together."""
    frames: list[bytes] = []
    body_bytes, done = 0, code == ResponseCode.SUCCESS
    for number, (connection, request, _) in enumerate(taken, 1):
        frames.append(
            done_frame(request.opaque) if done else encode(request.reply(code, remark=remark))
        )
        body_bytes += len(request.body)
        if number == len(taken) or taken[number].connection is not connection:
            connection.answer_express(frames, body_bytes)
            frames, body_bytes = [], 0
