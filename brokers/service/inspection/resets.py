"""Setting a group back, or forward: 222 (PROTOCOL 4.16).

Responsible for: where each queue goes on, that a consumer's own places do not undo it. Refuses to
know: how offsets are kept and copied.
"""

from __future__ import annotations

from brokers.clock import Clock
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import number, reading_fields, text
from brokers.service.inspection.bodies import Queue, by_queue
from brokers.service.role.services import Served, Service, Where
from brokers.service.tables.pending_resets import PendingResets
from brokers.service.tables.table_files import TableFiles
from brokers.store.store import MessageStore


class OffsetResets(Service):
    """`pending`: what consumers still have to hear of."""

    def __init__(
        self,
        store: MessageStore,
        tables: TableFiles,
        clock: Clock,
        broker_name: str,
        pending: PendingResets,
    ) -> None:
        self._store = store
        self._tables = tables
        self._clock = clock
        self._broker_name = broker_name
        self._pending = pending

    def serves(self) -> dict[int, Served]:
        """The master's: offsets are."""
        return {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Served(
                reading_fields(self._reset), Where.MASTER, writes=True
            )
        }

    def mastership_over(self) -> None:
        self._pending.clear()

    def _reset(self, request: RemotingCommand) -> RemotingCommand:
        ext = request.ext
        topic, group = text(ext, "topic"), text(ext, "group")
        timestamp_ms, only = number(ext, "timestamp"), number(ext, "queueId", -1)
        wanted = number(ext, "offset", -1)
        config = self._tables.topics.get(topic)
        if config is None:
            return request.reply(
                ResponseCode.TOPIC_NOT_EXIST, remark=f"Topic {topic} does not exist"
            )
        if self._tables.groups.get(group) is None:
            return request.reply(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark=f"Group {group} does not exist"
            )
        if only >= config.read_queues:
            return request.reply(
                ResponseCode.INVALID_PARAMETER, remark=f"topic {topic} has no queue {only}"
            )
        places: list[tuple[Queue, int]] = []
        for queue_id in range(config.read_queues) if only < 0 else (only,):
            if only >= 0 and wanted != -1:
                low, high = self._store.queue_bounds(topic, queue_id)
                if not low <= wanted <= high + 1:
                    remark = f"Target offset {wanted} not in consume queue range [{low}-{high}]"
                    return request.reply(ResponseCode.SYSTEM_ERROR, remark=remark)
                places.append(((topic, queue_id), wanted))
            else:
                places.append(((topic, queue_id), self._by_time(topic, queue_id, timestamp_ms)))
        for (_, queue_id), place in places:
            self._tables.offsets.commit(group, topic, queue_id, place, self._clock.wall_ms())
            self._pending.put(group, topic, queue_id, place)
        table = by_queue(self._broker_name, places)
        return request.reply(body=b'{"offsetTable":%b}' % table)

    def _by_time(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        if timestamp_ms < 0:
            return self._store.queue_bounds(topic, queue_id)[1]
        return self._store.offset_by_time(topic, queue_id, timestamp_ms)
