"""Consumer groups as operators see them: 208, 303, 308, 317, 343, 345, 352 (PROTOCOL 4.16).

Refuses to know: how offsets and groups are changed, who is master.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brokers.clock import Clock
from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import I64_MAX, flag, reading_fields, text
from brokers.service.clients.groups import ClientGroups
from brokers.service.inspection.bodies import Queue, by_queue, subscription_fields, with_table
from brokers.service.role.services import Served, Service
from brokers.service.tables.table_files import TableFiles
from brokers.store.store import MessageStore

# Groups and topics that one answer to 317 holds.
PAIRS_MAX = 20_000


class GroupInspection(Service):
    """`pulled(group, topic, queue id)`: up to where a group was given messages; None: not here.
    `rate(topic, group)`: messages given per second. `address`: where clients find this broker.
    """

    def __init__(
        self,
        store: MessageStore,
        tables: TableFiles,
        groups: ClientGroups,
        broker_name: str,
        address: str,
        clock: Clock,
        pulled: Callable[[str, str, int], int | None],
        rate: Callable[[str, str], float],
    ) -> None:
        self._rate = rate
        self._store = store
        self._tables = tables
        self._groups = groups
        self._broker_name = broker_name
        self._address = address
        self._clock = clock
        self._pulled = pulled

    def serves(self) -> dict[int, Served]:
        """Every replica answers from what it holds."""
        asked = {
            RequestCode.GET_CONSUME_STATS: self._stats,
            RequestCode.GET_BROKER_CONSUME_STATS: self._all_stats,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self._topics_of,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self._subscription,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self._config,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self._time_spans,
            RequestCode.QUERY_CORRECTION_OFFSET: self._corrections,
        }
        return {code: Served(reading_fields(method)) for code, method in asked.items()}

    def _stats(self, request: RemotingCommand) -> RemotingCommand:
        """208: how far a group is in each queue."""
        group = text(request.ext, "consumerGroup")
        listed = [one for one in request.ext.get("topicList", "").split(";") if one]
        one = request.ext.get("topic", "")
        topics = listed or ([one] if one else self._tables.offsets.topics_of(group))
        live = self._groups.consumers.get(group)
        subscribed = set(live.subscriptions) if live and not listed else None
        rows: list[tuple[Queue, dict[str, int]]] = []
        for topic in topics:
            if not subscribed or topic in subscribed:
                rows += self._progress(group, topic)
        table = by_queue(self._broker_name, rows)
        rate = sum(self._rate(topic, group) for topic in topics)
        return request.reply(body=with_table("offsetTable", table, {"consumeTps": rate}))

    def _progress(self, group: str, topic: str) -> list[tuple[Queue, dict[str, int]]]:
        config = self._tables.topics.get(topic)
        rows = []
        for queue_id in range(0 if config is None else config.read_queues):
            end = max(0, self._store.queue_bounds(topic, queue_id)[1])
            place = max(0, self._tables.offsets.query(group, topic, queue_id) or 0)
            last_ms = self._store.message_store_ms(topic, queue_id, place - 1) if place else 0
            row = {
                "brokerOffset": end,
                "consumerOffset": place,
                "lastTimestamp": max(0, last_ms),
                "pullOffset": max(place, self._pulled(group, topic, queue_id) or 0),
            }
            rows.append(((topic, queue_id), row))
        return rows

    def _all_stats(self, request: RemotingCommand) -> RemotingCommand:
        """317: the same of all groups."""
        ordered = flag(request.ext, "isOrder")
        found: list[bytes] = []
        behind = inflight = 0
        for group, topic in self._pairs(ordered):
            rows = self._progress(group, topic)
            behind += sum(max(0, one["brokerOffset"] - one["consumerOffset"]) for _, one in rows)
            inflight += sum(one["pullOffset"] - one["consumerOffset"] for _, one in rows)
            rate = {"consumeTps": self._rate(topic, group)}
            stats = with_table("offsetTable", by_queue(self._broker_name, rows), rate)
            found.append(b"{%b:[%b]}" % (fastjson.dumps(group), stats))
        fields = {"brokerAddr": self._address, "totalDiff": behind, "totalInflightDiff": inflight}
        table = b"[%b]" % b",".join(found)
        return request.reply(body=with_table("consumeStatsList", table, fields))

    def _pairs(self, ordered: bool) -> Iterable[tuple[str, str]]:
        left = PAIRS_MAX
        for group in self._tables.groups.names():
            for topic in self._tables.offsets.topics_of(group):
                config = self._tables.topics.get(topic)
                if config is None or (ordered and not config.order):
                    continue
                if not left:
                    return
                left -= 1
                yield group, topic

    def _topics_of(self, request: RemotingCommand) -> RemotingCommand:
        """343."""
        topics = sorted(self._tables.offsets.topics_of(text(request.ext, "group")))
        return request.reply(
            body=fastjson.dumps({"brokerAddr": self._address, "topicList": topics})
        )

    def _subscription(self, request: RemotingCommand) -> RemotingCommand:
        """345."""
        group, topic = text(request.ext, "group"), text(request.ext, "topic")
        known = self._groups.subscription(group, topic)
        fields: dict[str, object] = {"group": group, "topic": topic}
        if known is not None:
            fields["subscriptionData"] = subscription_fields(known)
        return request.reply(body=fastjson.dumps(fields))

    def _time_spans(self, request: RemotingCommand) -> RemotingCommand:
        """303: between which times the messages of each queue were stored, and where the group is
        among them.
        """
        group, topic = text(request.ext, "group"), text(request.ext, "topic")
        config = self._tables.topics.get(topic)
        if config is None:
            return request.reply(
                ResponseCode.TOPIC_NOT_EXIST, remark=f"topic[{topic[:127]}] not exist"
            )
        now_ms = self._clock.wall_ms()
        spans = [
            {
                **self._span(topic, queue_id, group, now_ms),
                "messageQueue": {
                    "brokerName": self._broker_name,
                    "queueId": queue_id,
                    "topic": topic,
                },
            }
            for queue_id in range(config.write_queues)
        ]
        return request.reply(body=fastjson.dumps({"consumeTimeSpanSet": spans}))

    def _span(self, topic: str, queue_id: int, group: str, now_ms: int) -> dict[str, int]:
        low, high = self._store.queue_bounds(topic, queue_id)
        place = self._tables.offsets.query(group, topic, queue_id)
        waits = place if place is not None and low <= place < high else None
        unread_ms = 0 if waits is None else self._stored_ms(topic, queue_id, waits)
        return {
            "consumeTimeStamp": self._stored_ms(topic, queue_id, place - 1) if place else 0,
            "delayTime": max(0, now_ms - unread_ms) if unread_ms else 0,
            "maxTimeStamp": self._stored_ms(topic, queue_id, high - 1) if high > low else 0,
            "minTimeStamp": self._stored_ms(topic, queue_id, low) if high > low else 0,
        }

    def _stored_ms(self, topic: str, queue_id: int, offset: int) -> int:
        return max(0, self._store.message_store_ms(topic, queue_id, offset))

    def _corrections(self, request: RemotingCommand) -> RemotingCommand:
        """308: for each queue the smallest place of all groups but those that are left out, or the
        largest number there is where the group to compare with has not come so far. RocketMQ
        deletes the places of those that it leaves out; nothing is changed here.
        """
        topic, compared = text(request.ext, "topic"), text(request.ext, "compareGroup")
        left_out = set(filter(None, request.ext.get("filterGroups", "").split(",")))
        found = self._tables.offsets.smallest(topic, left_out)
        for queue_id, place in self._tables.offsets.of(compared, topic).items():
            if queue_id in found and found[queue_id] > place:
                found[queue_id] = I64_MAX
        return request.reply(body=fastjson.dumps({"correctionOffsets": found}))

    def _config(self, request: RemotingCommand) -> RemotingCommand:
        """352."""
        settings = self._tables.groups.get(text(request.ext, "group"))
        if settings is None:
            return request.reply(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark="No group in this broker"
            )
        return request.reply(body=fastjson.dumps(settings))
