"""Serving offsets on the master: 14, 15, 29, 30, 31, 32, 43, and 19014 on a slave
(PROTOCOL 4.6).

Responsible for: these answers. Refuses to know: who is master, when offsets are written to disk.
"""

from __future__ import annotations

from brokers.clock import Clock
from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.fields import BadField, flag, number, reading_fields, text
from brokers.service.clients.groups import ClientGroups
from brokers.service.metadata.group_starts import GroupStarts
from brokers.service.metadata.held_by_members import HeldByMembers
from brokers.service.metadata.offset_copy import AFTER, LINE, MORE, UP_TO
from brokers.service.metadata.table_pieces import whole_table
from brokers.service.role.role_view import RoleView
from brokers.service.role.services import Served, Service, Where
from brokers.service.tables.offsets import ConsumerOffsets
from brokers.service.tables.pending_resets import PendingResets
from brokers.service.tables.subscription_groups import group_refusal
from brokers.service.tables.table_files import TableFiles
from brokers.store.store import MessageStore


class OffsetRequests(Service):
    """Offsets of queues and of consumer groups."""

    def __init__(
        self,
        store: MessageStore,
        tables: TableFiles,
        clock: Clock,
        roles: RoleView,
        held: HeldByMembers,
        groups: ClientGroups,
        pending: PendingResets,
    ) -> None:
        self._pending = pending
        self._store = store
        self._tables = tables
        self._clock = clock
        self._starts = GroupStarts(tables, roles, held, groups, self._first_place)

    def serves(self) -> dict[int, Served]:
        """Offsets are the master's. During a hand-over a commit waits for the next one: it would be
        too late for the copy.
        """
        asked = {
            RequestCode.QUERY_CONSUMER_OFFSET: self._query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search,
            RequestCode.GET_MAX_OFFSET: self._max,
            RequestCode.GET_MIN_OFFSET: self._min,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self._earliest,
        }
        served: dict[int, Served] = {
            code: Served(
                reading_fields(method),
                Where.MASTER,
                repeatable=True,
                writes=code == RequestCode.UPDATE_CONSUMER_OFFSET,
            )
            for code, method in asked.items()
        }
        served[RequestCode.GET_ALL_CONSUMER_OFFSET] = Served(self.dump, Where.TABLE)
        served[RequestCode.REGENT_PUSH_STARTS] = Served(self.take_starts, Where.FOR_REPLICAS)
        return served

    def dump(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """43: consumer offsets, for slaves. One of ours is told what changed since, in pieces; a
        Java slave gets the whole table, or a clear answer where a frame cannot hold it.
        """
        offsets = self._tables.offsets
        if AFTER not in request.ext:
            return whole_table(request, offsets.text(for_java=True))
        try:
            piece = offsets.piece(request.ext.get(LINE, ""), number(request.ext, AFTER))
        except BadField as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        return request.reply(
            ext={LINE: offsets.line, UP_TO: str(piece.up_to), MORE: str(piece.more).lower()},
            body=piece.body,
        )

    async def take_starts(
        self, _connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """19014, from the master: success means that where a group began to read is on this
        replica's disk.
        """
        try:
            table = ConsumerOffsets.from_wire(
                fastjson.loads(request.body, fastjson.TABLE_BYTES_MAX)
            )
            taken = await self._starts.take_push(table, number(request.ext, "regentMasterEpoch"))
        except (BadField, ValueError, OSError) as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        if not taken:
            return request.reply(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                remark=("this replica follows a newer master, or leads"),
            )
        return request.reply()

    def _query(self, request: RemotingCommand) -> Answer:
        group, topic, queue_id = (
            text(request.ext, "consumerGroup"),
            text(request.ext, "topic"),
            number(request.ext, "queueId"),
        )
        stored = self._pending.get(group, topic, queue_id)
        if stored is None:
            stored = self._tables.offsets.query(group, topic, queue_id)
        if stored is not None:
            return request.reply(ext={"offset": str(stored)})
        not_found = request.reply(
            ResponseCode.QUERY_NOT_FOUND, remark=("not found, the consumer group may be new")
        )
        if not flag(request.ext, "setZeroIfNotFound", default=True):
            return not_found
        smallest, largest = self._store.queue_bounds(topic, queue_id)
        began = self._starts.before(group, topic, queue_id)
        if began is not None:
            return request.reply(ext={"offset": str(max(began, smallest))})
        answer = (
            request.reply(ext={"offset": "0"})
            if self._begins_at_zero(smallest, largest)
            else not_found
        )
        return (
            self._once_held(answer, group, topic)
            if self._starts.is_news(group, topic, queue_id)
            else answer
        )

    async def first_held(self, group: str, topic: str) -> None:
        """Until this disk and the members have the group's first offset, a bounded time."""
        await self._starts.held(group, topic)

    async def _once_held(self, answer: RemotingCommand, group: str, topic: str) -> RemotingCommand:
        await self._starts.held(group, topic)
        return answer

    def _begins_at_zero(self, smallest: int, largest: int) -> bool:
        """Groups new to a young topic start at its beginning: clients and their tests rely on this
        quirk.
        """
        # RocketMQ asks whether the first message is in memory; a queue without messages counts as
        # such there too.
        return smallest <= 0 and (largest == 0 or self._store.log_min == 0)

    def _first_place(self, topic: str, queue_id: int) -> int:
        """Where a new group begins: at 0, or with CONSUME_FROM_LAST_OFFSET at the end."""
        smallest, largest = self._store.queue_bounds(topic, queue_id)
        return 0 if self._begins_at_zero(smallest, largest) else largest

    def _update(self, request: RemotingCommand) -> Answer:
        group, topic, queue_id = (
            text(request.ext, "consumerGroup"),
            text(request.ext, "topic"),
            number(request.ext, "queueId"),
        )
        offset = number(request.ext, "commitOffset")
        if self._tables.topics.get(topic) is None:
            return request.reply(
                ResponseCode.TOPIC_NOT_EXIST, remark=(f"topic {topic} does not exist")
            )
        # A queue that was taken away may still be read to its end.
        if (
            not self._tables.topics.has_queue(topic, queue_id)
            and self._store.queue_bounds(topic, queue_id)[1] <= 0
        ):
            return request.reply(
                ResponseCode.INVALID_PARAMETER, remark=(f"topic {topic} has no queue {queue_id}")
            )
        if reason := group_refusal(group):
            return request.reply(ResponseCode.INVALID_PARAMETER, remark=reason)
        if self._pending.get(group, topic, queue_id) is not None:
            return request.reply(remark="Offset has been previously reset")
        offsets = self._tables.offsets
        is_first = (
            offsets.query(group, topic, queue_id) is None
            and not offsets.has_begun(group, topic, queue_id)
            and offset >= 0
        )
        if (
            not offsets.commit(group, topic, queue_id, offset, self._clock.wall_ms())
            and offset >= 0
        ):
            return request.reply(
                ResponseCode.SYSTEM_ERROR, remark=("this broker takes no more consumer offsets")
            )
        return self._once_held(request.reply(), group, topic) if is_first else request.reply()

    def _search(self, request: RemotingCommand) -> RemotingCommand:
        topic, queue_id = text(request.ext, "topic"), number(request.ext, "queueId")
        upper = request.ext.get("boundaryType", "LOWER").upper() == "UPPER"
        offset = self._store.offset_by_time(
            topic, queue_id, number(request.ext, "timestamp"), upper=upper
        )
        return request.reply(ext={"offset": str(offset)})

    def _max(self, request: RemotingCommand) -> RemotingCommand:
        bounds = self._store.queue_bounds(
            text(request.ext, "topic"), number(request.ext, "queueId")
        )
        return request.reply(ext={"offset": str(bounds[1])})

    def _min(self, request: RemotingCommand) -> RemotingCommand:
        bounds = self._store.queue_bounds(
            text(request.ext, "topic"), number(request.ext, "queueId")
        )
        return request.reply(ext={"offset": str(bounds[0])})

    def _earliest(self, request: RemotingCommand) -> RemotingCommand:
        stored_ms = self._store.earliest_store_ms(
            text(request.ext, "topic"), number(request.ext, "queueId")
        )
        return request.reply(ext={"timestamp": str(stored_ms)})
