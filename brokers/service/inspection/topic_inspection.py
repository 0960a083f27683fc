"""Topics as operators see them: 202, 300, 305, 321, 351 (PROTOCOL 4.16).

Refuses to know: how topics are changed, who is master.
"""

from __future__ import annotations

from collections.abc import Callable

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import number, reading_fields, text
from brokers.service.clients.groups import ClientGroups
from brokers.service.inspection.bodies import by_queue, subscription_fields, with_table
from brokers.service.role.services import Served, Service
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import SYSTEM_TOPICS, system_topics
from brokers.store.queues.entries import FILLER_SIZE
from brokers.store.store import MessageStore

# Entries of a queue that one request shows.
ENTRIES_MAX = 10_000
SYSTEM_PREFIX = "rmq_sys_"


class TopicInspection(Service):
    """`names`: cluster and name of this broker. `rate(topic)`: messages stored per second."""

    def __init__(
        self,
        store: MessageStore,
        tables: TableFiles,
        groups: ClientGroups,
        names: tuple[str, str],
        rate: Callable[[str], float],
    ) -> None:
        self._rate = rate
        self._store = store
        self._tables = tables
        self._groups = groups
        self._cluster_name, self._broker_name = names

    def serves(self) -> dict[int, Served]:
        """Every replica answers from what it holds."""
        asked = {
            RequestCode.GET_TOPIC_STATS_INFO: self._stats,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self._groups_of,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self._system_topics,
            RequestCode.QUERY_CONSUME_QUEUE: self._entries,
            RequestCode.GET_TOPIC_CONFIG: self._config,
        }
        return {code: Served(reading_fields(method)) for code, method in asked.items()}

    def _stats(self, request: RemotingCommand) -> RemotingCommand:
        """202: the ends of a topic's queues, and when the last message came."""
        topic = text(request.ext, "topic")
        config = self._tables.topics.get(topic)
        if config is None:
            return request.reply(
                ResponseCode.TOPIC_NOT_EXIST, remark=f"topic[{topic[:127]}] not exist"
            )
        rows = [((topic, queue), self._ends(topic, queue)) for queue in range(config.queues)]
        table = by_queue(self._broker_name, rows)
        return request.reply(
            body=with_table("offsetTable", table, {"topicPutTps": self._rate(topic)})
        )

    def _ends(self, topic: str, queue_id: int) -> dict[str, int]:
        low, high = self._store.queue_bounds(topic, queue_id)
        last_ms = self._store.message_store_ms(topic, queue_id, high - 1) if high > low else 0
        return {"lastUpdateTimestamp": max(0, last_ms), "maxOffset": high, "minOffset": low}

    def _groups_of(self, request: RemotingCommand) -> RemotingCommand:
        """300: who consumes a topic, now or until lately."""
        topic = text(request.ext, "topic")
        live = {
            name for name, group in self._groups.consumers.items() if topic in group.subscriptions
        }
        return request.reply(
            body=fastjson.dumps(
                {"groupList": sorted(live | set(self._tables.offsets.groups_of(topic)))}
            )
        )

    def _system_topics(self, request: RemotingCommand) -> RemotingCommand:
        """305: topics that are no user's."""
        own = {one.name for one in system_topics(self._cluster_name, self._broker_name, True)}
        known = self._tables.topics.configs
        named = {name for name in known if name.startswith(SYSTEM_PREFIX)}
        return request.reply(
            body=fastjson.dumps({"topicList": sorted(own | SYSTEM_TOPICS | named)})
        )

    def _config(self, request: RemotingCommand) -> RemotingCommand:
        """351: tools take an answer of any other code than 0 and 17 for a failure."""
        topic = text(request.ext, "topic")
        config = self._tables.topics.get(topic)
        if config is None:
            return request.reply(
                ResponseCode.TOPIC_NOT_EXIST,
                remark=f"No topic in this broker. topic: {topic[:127]}",
            )
        return request.reply(body=fastjson.dumps(config.to_wire()))

    def _entries(self, request: RemotingCommand) -> RemotingCommand:
        """321: entries of a queue as they are stored."""
        ext = request.ext
        topic, queue_id = text(ext, "topic"), number(ext, "queueId")
        index, count = number(ext, "index"), min(number(ext, "count"), ENTRIES_MAX)
        queue = self._store.queues.get(topic, queue_id)
        if queue is None:
            return request.reply(
                ResponseCode.SYSTEM_ERROR, remark=f"{queue_id}@{topic[:127]} is not exist!"
            )
        low, high = self._store.queue_bounds(topic, queue_id)
        if not low <= index < high:
            return request.reply(remark=f"Index {index} of {queue_id}@{topic} is not exist!")
        rows = [
            {"physicOffset": offset, "physicSize": size, "tagsCode": code}
            for offset, size, code in queue.read(index, max(0, count))
            if size != FILLER_SIZE
        ]
        body: dict[str, object] = {"maxQueueIndex": high, "minQueueIndex": low, "queueData": rows}
        group = ext.get("consumerGroup", "")
        if group:
            known = self._groups.subscription(group, topic)
            if known is None:
                body["filterData"] = f"{group}@{topic} is not online!"
            else:
                body["subscriptionData"] = subscription_fields(known)
        return request.reply(body=fastjson.dumps(body))
