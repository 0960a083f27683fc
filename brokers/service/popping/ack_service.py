"""Serving what clients say of popped messages on the master: 200051, 200151, 200053
(PROTOCOL 4.9).

Responsible for: that an acknowledgement which is answered 0 is held by every member, and a new
invisible time has its check point. Refuses to know: when messages come back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.fields import BadField
from brokers.service.popping.ack_requests import AckRequest, BatchEntry, parse_ack, parse_batch
from brokers.service.popping.express_acks import ExpressAcks
from brokers.service.popping.handles import BadHandle, Handle, parse_handle
from brokers.service.popping.names import ORDERED_REVIVE_QUEUE
from brokers.service.popping.ordered import Acked
from brokers.service.popping.pop_request import INVISIBLE_MS_MAX
from brokers.service.popping.records import Ack, CheckPoint, key_of
from brokers.service.popping.terms import PopTerms
from brokers.service.role.services import Served, Service, Where
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.request import Refusal
from brokers.store.log.records import MessageFields

# A pop this far ahead of the clock was named before the clock was set back; others nobody popped.
CLOCK_BACK_MS = 3_600_000


class AckService(Service):
    """`freed(topic, group, queue id)`: messages of an ordered queue may be given again.
    `soon(act)`: in the loop's next turn.
    """

    def __init__(
        self,
        terms: PopTerms,
        freed: Callable[[str, str, int], None],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._terms = terms
        self._freed = freed
        self._express = ExpressAcks(terms, soon)

    def serves(self) -> dict[int, Served]:
        """They put records, which is the master's. 200051 has an express way."""
        handlers = {
            RequestCode.ACK_MESSAGE: self.ack,
            RequestCode.BATCH_ACK_MESSAGE: self.batch_ack,
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME: self.change,
        }
        served: dict[int, Served] = {
            code: Served(self._answering(serve), Where.MASTER, writes=True)
            for code, serve in handlers.items()
        }
        ack = served[RequestCode.ACK_MESSAGE]
        served[RequestCode.ACK_MESSAGE] = replace(ack, express=self._express.take)
        return served

    def _answering(
        self, serve: Callable[[RemotingCommand], Awaitable[RemotingCommand]]
    ) -> Callable[[Connection, RemotingCommand], Answer]:
        async def handle(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
            ext = (
                _changed(0, 0, 0)
                if request.code == RequestCode.CHANGE_MESSAGE_INVISIBLETIME
                else None
            )
            try:
                return await serve(request)
            except (BadField, BadHandle) as error:
                return request.reply(ResponseCode.SYSTEM_ERROR, ext, remark=str(error))
            except NotPut as refusal:
                return request.reply(ResponseCode.SYSTEM_ERROR, ext, remark=refusal.remark)

        return handle

    # -- one message -------------------------------------------------------------------------------

    async def ack(self, request: RemotingCommand) -> RemotingCommand:
        """200051. NotPut, BadField, BadHandle."""
        ask = parse_ack(request.ext)
        refused = self._refusal(ask) or self._outside(ask, past_the_end=True)
        if refused is not None:
            return request.reply(refused.code, remark=refused.remark)
        handle = self._handle(ask.extra_info)
        if handle.revive_queue == ORDERED_REVIVE_QUEUE:
            code = self._ordered_ack(ask.topic, ask.group, ask.queue_id, ask.offset, handle.pop_ms)
            remark = None if code == 0 else self._illegal(ask)
            return request.reply(code, remark=remark)
        record = self._ack_record(ask, handle)
        await self._put(record)
        return request.reply()

    def _ack_record(self, ask: AckRequest, handle: Handle) -> MessageFields:
        terms = self._terms
        key = key_of(handle, ask.topic, ask.group, ask.queue_id)
        return terms.records.ack(
            Ack(key, (ask.offset,)), handle.visible_ms, handle.revive_queue, terms.clock.wall_ms()
        )

    async def _put(self, *records: MessageFields) -> None:
        """Every member has these acknowledgements when it returns, or another set's master. NotPut:
        perhaps not.
        """
        if not self._terms.acts:
            await self._terms.note(*records)
            return
        for record in records:
            await self._terms.note_away(record, withdraws=False)

    def _handle(self, text: str) -> Handle:
        handle = parse_handle(text)
        queues = self._terms.revive_queues
        if handle.revive_queue != ORDERED_REVIVE_QUEUE and not 0 <= handle.revive_queue < queues:
            raise BadHandle(f"the handle names revive queue {handle.revive_queue} of {queues}")
        return handle

    def _ordered_ack(self, topic: str, group: str, queue_id: int, offset: int, pop_ms: int) -> int:
        terms = self._terms
        offsets, wall_ms = terms.tables.offsets, terms.clock.wall_ms()
        place = offsets.query(group, topic, queue_id)
        if place is not None and offset < place:
            return ResponseCode.SUCCESS
        key = topic, group, queue_id
        what, goes_on = terms.ordered.ack(key, offset, pop_ms, place)
        if what is Acked.UNKNOWN:
            return ResponseCode.MESSAGE_ILLEGAL
        if what is Acked.MOVED:
            offsets.commit(group, topic, queue_id, goes_on, wall_ms)
            if terms.ordered.is_free(key, wall_ms):
                self._freed(*key)
        return ResponseCode.SUCCESS

    # -- many --------------------------------------------------------------------------------------

    async def batch_ack(self, request: RemotingCommand) -> RemotingCommand:
        """200151: one record for each pop. NotPut, BadField, BadHandle."""
        entries = parse_batch(request.body)
        if not entries:
            return request.reply(ResponseCode.NO_MESSAGE)
        records = [record for one in entries if (record := self._batch_record(one)) is not None]
        if records:
            await self._put(*records)
        return request.reply()

    def _batch_record(self, one: BatchEntry) -> MessageFields | None:
        """None: nothing of it is to be stored."""
        terms, handle = self._terms, one.handle
        queue_id = handle.queue_id
        if not terms.tables.topics.has_queue(one.topic, queue_id):
            return None
        low, high = terms.store.queue_bounds(one.topic, queue_id)
        offsets = tuple(offset for offset in one.offsets if low <= offset <= high)
        if handle.revive_queue == ORDERED_REVIVE_QUEUE:
            for offset in offsets:
                self._ordered_ack(one.topic, one.group, queue_id, offset, handle.pop_ms)
            return None
        if not offsets:
            return None
        if handle.revive_queue >= terms.revive_queues:
            raise BadField(f"there is no revive queue {handle.revive_queue}")
        ack = Ack(key_of(handle, one.topic, one.group, queue_id), offsets)
        wall_ms = terms.clock.wall_ms()
        return terms.records.batch_ack(ack, handle.visible_ms, handle.revive_queue, wall_ms)

    # -- another time ------------------------------------------------------------------------------

    async def change(self, request: RemotingCommand) -> RemotingCommand:
        """200053: a new check point, then an acknowledgement for the old one. NotPut, BadField,
        BadHandle.
        """
        ask = parse_ack(request.ext)
        refused = self._refusal(ask) or self._outside(ask, past_the_end=False)
        if refused is None and not 0 <= ask.invisible_ms <= INVISIBLE_MS_MAX:
            refused = Refusal(
                ResponseCode.INVALID_PARAMETER,
                f"the invisible time is not between 0 and {INVISIBLE_MS_MAX} ms",
            )
        if refused is not None:
            return request.reply(refused.code, _changed(0, 0, 0), remark=refused.remark)
        handle = self._handle(ask.extra_info)
        if handle.revive_queue == ORDERED_REVIVE_QUEUE:
            return request.reply(ext=self._ordered_change(ask, handle))
        terms = self._terms
        now_ms = terms.clock.wall_ms()
        pop_ms = _another_time(handle.pop_ms, now_ms)
        fresh = Handle(
            ask.offset,
            pop_ms,
            ask.invisible_ms,
            handle.revive_queue,
            handle.kind,
            handle.broker_name,
        )
        key = key_of(fresh, ask.topic, ask.group, ask.queue_id)
        point = CheckPoint(key, ask.invisible_ms, (ask.offset,))
        # both in one write, the check point first: of the two, only the acknowledgement may be lost
        records = [terms.records.check_point(point, handle.revive_queue, now_ms)]
        if terms.acts:
            await terms.note_away(records.pop(), withdraws=True)
        await self._put(*records, self._ack_record(ask, handle))
        return request.reply(ext=_changed(pop_ms, ask.invisible_ms, handle.revive_queue))

    def _ordered_change(self, ask: AckRequest, handle: Handle) -> dict[str, str]:
        terms = self._terms
        place = terms.tables.offsets.query(ask.group, ask.topic, ask.queue_id)
        if place is not None and ask.offset < place:
            return _changed(0, 0, 0)
        visible_ms = terms.clock.wall_ms() + ask.invisible_ms
        key = ask.topic, ask.group, ask.queue_id
        terms.ordered.change(key, ask.offset, handle.pop_ms, visible_ms)
        return _changed(handle.pop_ms, visible_ms - handle.pop_ms, ORDERED_REVIVE_QUEUE)

    # -- refusals ----------------------------------------------------------------------------------

    def _refusal(self, ask: AckRequest) -> Refusal | None:
        config = self._terms.tables.topics.get(ask.topic)
        if config is None:
            return Refusal(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{ask.topic}] not exist, apply first please!"
            )
        if not 0 <= ask.queue_id < config.read_queues:
            return Refusal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"queueId[{ask.queue_id}] is illegal, topic:[{ask.topic}] "
                f"topicConfig.readQueueNums:[{config.read_queues}]",
            )
        return None

    def _outside(self, ask: AckRequest, *, past_the_end: bool) -> Refusal | None:
        low, high = self._terms.store.queue_bounds(ask.topic, ask.queue_id)
        if low <= ask.offset < high + past_the_end:
            return None
        return Refusal(
            ResponseCode.NO_MESSAGE,
            f"offset is illegal, key:{ask.topic}@{ask.queue_id}, commit:{ask.offset}, "
            f"store:{low}~{high}",
        )

    def _illegal(self, ask: AckRequest) -> str:
        place = self._terms.tables.offsets.query(ask.group, ask.topic, ask.queue_id)
        return (
            f"offset is illegal, key:{ask.topic}@{ask.group}@{ask.queue_id}, old:{place}, "
            f"commit:{ask.offset}, next:-1"
        )


def _another_time(pop_ms: int, now_ms: int) -> int:
    """The time that names a check point which takes the place of one of `pop_ms`: never the same,
    for the acknowledgement of the old one would end the new one too.
    """
    return pop_ms + 1 if 0 <= pop_ms - now_ms <= CLOCK_BACK_MS else now_ms


def _changed(pop_ms: int, invisible_ms: int, revive_queue: int) -> dict[str, str]:
    """Fields that every answer to 200053 has; clients read them before the code."""
    return {
        "popTime": str(pop_ms),
        "invisibleTime": str(invisible_ms),
        "reviveQid": str(revive_queue),
    }
