"""Recalling a message before its time: 370 (PROTOCOL 4.18).

Responsible for: whether a handle is one of this broker, the record that takes the message out of
its slot, that the members hold it before anybody is answered. Refuses to know: whether the message
is still there: the slot's reader sees.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.clock import Clock
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.replica.put_rules import STORED
from brokers.service.role.services import Moves, Served, Service, Where
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.messages import packed_peer
from brokers.service.sending.own_puts import OwnPuts
from brokers.service.sending.request import REGION_ID
from brokers.service.sending.timed import (
    DELETES,
    DELIVER_MS,
    RECALL_TAG,
    TIMER_TOPIC,
    UNIQUE_KEY,
    RecallHandle,
    Timed,
    TimerRules,
    decode_handle,
)
from brokers.service.tables.topics import TopicTable
from brokers.store.log.properties import encode_properties
from brokers.store.log.records import MessageFields

BODY = b"0"


class RecallRequests(Service):
    """`now_ms()`: the wheel's time."""

    def __init__(
        self,
        rules: TimerRules,
        timed: Timed,
        puts: OwnPuts,
        topics: TopicTable,
        clock: Clock,
        now_ms: Callable[[], int],
    ) -> None:
        self._rules = rules
        self._timed = timed
        self._puts = puts
        self._topics = topics
        self._clock = clock
        self._now_ms = now_ms

    def serves(self) -> dict[int, Served]:
        """The master's: it puts a record."""
        return {
            RequestCode.RECALL_MESSAGE: Served(
                self.serve, Where.MASTER, writes=True, moves=Moves.NOTHING
            )
        }

    async def serve(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Handler of 370 on the master."""

        def answer(code: int, remark: str | None, key: str | None = None) -> RemotingCommand:
            ext = {"MSG_REGION": REGION_ID}
            return request.reply(code, ext if key is None else {**ext, "msgId": key}, remark=remark)

        topic = request.ext.get("topic") or ""
        if not self._rules.recall_enabled:
            return answer(ResponseCode.NO_PERMISSION, "recall failed, operation is forbidden")
        if self._topics.get(topic) is None:
            remark = f"recall failed, the topic[{topic[:255]}] not exist"
            return answer(ResponseCode.TOPIC_NOT_EXIST, remark)
        handle = decode_handle(request.ext.get("recallHandle") or "")
        why = self._refusal(handle, topic)
        if why is not None or handle is None:
            return answer(ResponseCode.ILLEGAL_OPERATION, why)
        try:
            record = self._timed.as_stored(self._record(connection, request, handle))
            if record.topic != TIMER_TOPIC:
                raise ValueError("its time is over")
            outcome = await self._puts.put(record)
        except NotPut as refused:
            return answer(refused.code, refused.remark)
        except ValueError:
            return answer(ResponseCode.SYSTEM_ERROR, "recall failed, execute error")
        if outcome.status not in STORED:
            return answer(ResponseCode.SYSTEM_ERROR, "recall failed, execute error")
        return answer(ResponseCode.SUCCESS, None, handle.unique_key)

    def _refusal(self, handle: RecallHandle | None, topic: str) -> str | None:
        if handle is None:
            return "recall handle is invalid"
        if handle.topic != topic:
            return "recall failed, topic not match"
        if handle.broker_name != self._rules.broker_name:
            return "recall failed, broker service not available"
        if not 0 < handle.time_ms - self._now_ms() < self._rules.delay_max_ms:
            return "recall failed, timestamp invalid"
        return None

    def _record(
        self, connection: Connection, request: RemotingCommand, handle: RecallHandle
    ) -> MessageFields:
        """ValueError: a name in it cannot be stored."""
        wall_ms = self._clock.wall_ms()
        properties = {
            DELETES: f"{handle.topic}+{handle.unique_key}",
            UNIQUE_KEY: handle.unique_key,
            DELIVER_MS: str(handle.time_ms),
            "TAGS": RECALL_TAG,
            "BORN_TIMESTAMP": str(wall_ms),
        }
        if group := request.ext.get("producerGroup"):
            properties["PGROUP"] = group
        return MessageFields(
            handle.topic,
            0,
            BODY,
            encode_properties(properties),
            wall_ms,
            packed_peer(connection.peer),
            self._puts.store_host,
        )
