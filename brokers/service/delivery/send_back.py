"""What consumers could not process: 36, and sends to retry topics (PROTOCOL 4.14).

Responsible for: the retry that comes later, the dead letter when there were enough, that both are
held by the members before anybody is answered. Refuses to know: when a delayed message is due.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace as changed

from msgspec.structs import replace

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.fields import BadField, number, text
from brokers.replica.put_rules import PutStatus
from brokers.service.role.forward import Serve
from brokers.service.role.services import Moves, Served, Service, Where
from brokers.service.sending.delayed import DELAY, as_stored, stored_form
from brokers.service.sending.log_writes import NotPut
from brokers.service.sending.own_puts import OwnPuts
from brokers.service.sending.request import Refusal, SendRequest, tries_max, with_property
from brokers.service.tables.subscription_groups import SubscriptionGroups, group_refusal
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import DLQ_PREFIX, RETRY_PREFIX, TopicConfig
from brokers.store.index.key_query import message_at
from brokers.store.log.integrity import BadRecord
from brokers.store.log.properties import decode_properties, property_value
from brokers.store.log.records import (
    MessageFields,
    StoredMessage,
    decode_message,
    offset_message_id,
)
from brokers.store.store import MessageStore

# The first retry comes after the third level's delay, each later one a level more.
FIRST_RETRY_LEVEL = 3
# As text, of a message that its consumer sent to the retry topic itself once too often.
NEVER = "-1"
# Clients wait 3 s or longer, and one that is refused may drop the message (rocketmq-client-go).
PUT_WITHIN_S, PUT_PAUSE_S = 2.0, 0.1
ORIGIN_ID, RETRY_TOPIC = "ORIGIN_MESSAGE_ID", "RETRY_TOPIC"


class RetryRules:
    """Where a message goes that a group sends to its retry topic (10, 310). `locked(group)`: an
    orderly consumer of the group holds a queue here.
    """

    def __init__(self, groups: SubscriptionGroups, locked: Callable[[str], bool]) -> None:
        self._groups = groups
        self._locked = locked

    def destination(self, send: SendRequest, client_max: int | None) -> SendRequest:
        """The same send, or one to the dead letters of the group. `client_max`: the client's own
        limit of tries.
        """
        group = send.topic[len(RETRY_PREFIX) :].partition("+")[0]
        most = self._groups.retry_max(group) if client_max is None else client_max
        if send.reconsume_times <= most and not self._locked(group):
            return send
        return changed(
            send,
            topic=DLQ_PREFIX + group,
            queue_id=0,
            properties=with_property(send.properties, DELAY, NEVER),
        )


class SendBack(Service):
    """`known(groups)`: sees to it that groups exist. `hold(topics)`: these are on all members when
    it returns, or why not. `unheld`: topics that are in the table and not on all members.
    `leads()`: this broker may write. `not_serving(connection, request, serve)`: the answer of
    whoever leads, this broker's when it does. `counts(topic, group, dead)`.
    """

    def __init__(
        self,
        store: MessageStore,
        tables: TableFiles,
        puts: OwnPuts,
        *,
        known: Callable[[Iterable[str]], None],
        hold: Callable[[list[TopicConfig]], Awaitable[Refusal | None]],
        unheld: set[str],
        repair: Callable[[BadRecord, str], object],
        leads: Callable[[], bool],
        not_serving: Callable[[Connection, RemotingCommand, Serve], Answer],
        counts: Callable[[str, str, bool], object] = lambda topic, group, dead: None,
    ) -> None:
        self._counts = counts
        self._store = store
        self._topics, self._groups = tables.topics, tables.groups
        self._puts = puts
        self._known = known
        self._hold = hold
        self._unheld = unheld
        self._repair = repair
        self._leads, self._not_serving = leads, not_serving

    def serves(self) -> dict[int, Served]:
        """The master's: it puts a message."""
        return {
            RequestCode.CONSUMER_SEND_MSG_BACK: Served(
                self.serve, Where.MASTER, writes=True, moves=Moves.MESSAGES_IN
            )
        }

    async def serve(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """Handler of 36 on the master. A put that is refused for the moment is tried again."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + PUT_WITHIN_S
        while True:
            try:
                return await self._send_back(request)
            except BadField as error:
                return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
            except ValueError as error:
                return request.reply(ResponseCode.MESSAGE_ILLEGAL, remark=str(error))
            except NotPut as refusal:
                if not self._leads():
                    answer = self._not_serving(connection, request, self.serve)
                    if answer is None or isinstance(answer, RemotingCommand):
                        return answer
                    return await answer
                if loop.time() + PUT_PAUSE_S > give_up or connection.closed:
                    return request.reply(refusal.code, remark=refusal.remark)
            await asyncio.sleep(PUT_PAUSE_S)

    async def _send_back(self, request: RemotingCommand) -> RemotingCommand:
        ext = request.ext
        offset, group, level = number(ext, "offset"), text(ext, "group"), number(ext, "delayLevel")
        self._known([group] if not group_refusal(group) else [])
        if self._groups.get(group) is None:
            return request.reply(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                remark=f"subscription group not exist, {group[:80]}",
            )
        if self._groups.retry_queues(group) <= 0:
            return request.reply()
        failed = self._message_at(offset)
        if failed is None:
            return request.reply(
                ResponseCode.SYSTEM_ERROR, remark=f"look message by offset failed, {offset}"
            )
        most = tries_max(request)
        if most is None:
            most = self._groups.retry_max(group)
        dead = failed.fields.reconsume_times >= most or level < 0
        topic = self._target(group, dead)
        if (refused := await self._held(topic)) is not None:
            return request.reply(refused.code, remark=refused.remark)
        outcome = await self._puts.put(as_stored(self._again(failed, topic, level, dead)))
        if outcome.status is not PutStatus.PUT_OK:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=outcome.status.value)
        first = property_value(failed.fields.properties, RETRY_TOPIC.encode())
        topic_name = failed.fields.topic if first is None else first.decode("utf-8", "replace")
        self._counts(topic_name, group, dead)
        return request.reply()

    def _message_at(self, offset: int) -> StoredMessage | None:
        data = (
            message_at(self._store.log, offset, self._store.dispatched_offset)
            if offset >= 0
            else None
        )
        if isinstance(data, BadRecord):
            self._repair(data, "send back")
        return decode_message(data) if isinstance(data, bytes) else None

    def _target(self, group: str, dead: bool) -> TopicConfig:
        if dead:
            name, queues = DLQ_PREFIX + group, 1
        else:
            name, queues = RETRY_PREFIX + group, self._groups.retry_queues(group)
        return self._topics.get(name) or TopicConfig(name, queues, queues)

    async def _held(self, topic: TopicConfig) -> Refusal | None:
        if self._topics.get(topic.name) is not None and topic.name not in self._unheld:
            return None
        return await self._hold([topic])

    def _again(
        self, failed: StoredMessage, topic: TopicConfig, level: int, dead: bool
    ) -> MessageFields:
        """The message once more. ValueError: its properties have no room for where it came from."""
        fields = failed.fields
        properties = decode_properties(fields.properties)
        properties.setdefault(RETRY_TOPIC, fields.topic)
        properties.setdefault(
            ORIGIN_ID, offset_message_id(fields.store_host, failed.physical_offset)
        )
        properties["WAIT"] = "false"
        if dead:
            properties[DELAY] = "0"
        else:
            properties[DELAY] = str(level or FIRST_RETRY_LEVEL + fields.reconsume_times)
        return replace(
            fields,
            topic=topic.name,
            queue_id=0 if dead else random.randrange(max(1, topic.write_queues)),
            properties=stored_form(properties),
            store_host=self._puts.store_host,
            reconsume_times=fields.reconsume_times + 1,
            prepared_transaction_offset=0,
        )
