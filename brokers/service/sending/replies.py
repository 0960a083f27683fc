"""Replies to requests between clients: 324, 325, and 326 to whoever waits (PROTOCOL 4.17).

Responsible for: finding the client that asked, passing the reply on, keeping a copy. Refuses to
know: what is asked and answered.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.clock import Clock
from brokers.remoting.calls import RemotingError
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.fields import BadField
from brokers.service.role.services import Served, Service, Where
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.messages import MessageMaker
from brokers.service.sending.own_puts import OwnPuts
from brokers.service.sending.request import (
    SendRequest,
    answer_ext,
    parse_v1,
    parse_v2,
    property_value,
    refusal,
    with_property,
)
from brokers.service.tables.topics import TopicTable
from brokers.store.log.records import RecordError, host_text

CLIENT_TIMEOUT_MS = 10_000
REPLY_TO, PUSHED_AT = "REPLY_TO_CLIENT", "PUSH_REPLY_TIME"
# Replies that are passed on and not answered yet.
WAITING_MAX = 10_000


class Replies(Service):
    """`client(client id)`: the connection of a client that greeted this broker, None without
    one.
    """

    def __init__(
        self,
        topics: TopicTable,
        puts: OwnPuts,
        clock: Clock,
        cluster_name: str,
        client: Callable[[str], Connection | None],
    ) -> None:
        self._topics = topics
        self._puts = puts
        self._clock = clock
        self._client = client
        self._maker = MessageMaker(cluster_name, puts.store_host)
        self.waiting = 0

    def serves(self) -> dict[int, Served]:
        """The master's: it keeps a copy."""
        served = Served(self.serve, Where.MASTER, writes=True)
        return {RequestCode.SEND_REPLY_MESSAGE: served, RequestCode.SEND_REPLY_MESSAGE_V2: served}

    async def serve(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Handler of 324 and 325."""
        v1 = request.code == RequestCode.SEND_REPLY_MESSAGE
        try:
            send = parse_v1(request.ext) if v1 else parse_v2(request.ext)
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        config = self._topics.get(send.topic)
        if config is None:
            return request.reply(
                ResponseCode.TOPIC_NOT_EXIST, remark=f"topic[{send.topic[:127]}] not exist"
            )
        if (refused := refusal(send, config, request.body)) is not None:
            return request.reply(refused.code, remark=refused.remark)
        if self.waiting >= WAITING_MAX:
            return request.reply(
                ResponseCode.SYSTEM_BUSY, remark=f"{WAITING_MAX} replies are on their way"
            )
        queue_id = send.queue_id if send.queue_id >= 0 else request.opaque % config.queues
        self.waiting += 1
        try:
            failed = await self._push(connection, request, send)
            if failed is not None:
                return request.reply(ResponseCode.SYSTEM_ERROR, remark=failed)
            return await self._kept(connection, request, send, queue_id)
        finally:
            self.waiting -= 1

    async def _push(
        self, connection: Connection, request: RemotingCommand, send: SendRequest
    ) -> str | None:
        """Pass it on; why that failed."""
        client_id = property_value(send.properties, REPLY_TO)
        if client_id is None:
            return f"reply message properties[{REPLY_TO}] is null"
        client = self._client(client_id)
        if client is None:
            return f"push reply message fail, channel of <{client_id[:255]}> not found."
        wall_ms = self._clock.wall_ms()
        ext = {
            "producerGroup": send.producer_group,
            "topic": send.topic,
            "defaultTopic": send.default_topic,
            "defaultTopicQueueNums": str(send.default_queues),
            "queueId": str(send.queue_id),
            "sysFlag": str(send.sys_flag),
            "bornTimestamp": str(send.born_ms),
            "flag": str(send.flag),
            "properties": with_property(send.properties, PUSHED_AT, str(wall_ms)),
            "reconsumeTimes": str(send.reconsume_times),
            "unitMode": str(send.unit).lower(),
            "bornHost": connection.peer,
            "storeHost": host_text(self._puts.store_host),
            "storeTimestamp": str(wall_ms),
        }
        question = RemotingCommand.request(
            RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, ext, request.body
        )
        try:
            answer = await client.call(question, CLIENT_TIMEOUT_MS)
        except RemotingError:
            return f"push reply message to <{client_id[:255]}>fail."
        return None if answer.code == 0 else f"push reply message to <{client_id[:255]}>fail."

    async def _kept(
        self, connection: Connection, request: RemotingCommand, send: SendRequest, queue_id: int
    ) -> RemotingCommand:
        """It has arrived: a copy that cannot be kept fails nothing."""
        not_kept = request.reply(ext=answer_ext("0", queue_id, 0, None))
        try:
            (message,) = self._maker.messages(connection, request, send, queue_id)
            outcome = await self._puts.put(message)
        except (NotPut, RecordError, ValueError):
            return not_kept
        result = outcome.result
        unique_key = property_value(send.properties, "UNIQ_KEY")
        return request.reply(
            ext=answer_ext(result.msg_id, queue_id, result.queue_offset, unique_key)
        )
