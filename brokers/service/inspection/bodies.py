"""Bodies that operators' tools read (PROTOCOL 4.16).

Responsible for: objects as keys, which Java's JSON has; connections and subscriptions. Refuses to
know: where their facts come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from brokers.remoting import fastjson
from brokers.service.clients.groups import Channel
from brokers.service.clients.subscriptions import Subscription

Queue = tuple[str, int]
"""Topic and queue id."""


def queue_key(broker_name: str, topic: str, queue_id: int) -> bytes:
    """A queue as JSON, which is also a key of JSON objects in RocketMQ."""
    return fastjson.dumps({"brokerName": broker_name, "queueId": queue_id, "topic": topic})


def by_queue(broker_name: str, rows: Iterable[tuple[Queue, object]]) -> bytes:
    """An object whose keys are queues."""
    parts = [
        b"%b:%b" % (queue_key(broker_name, topic, queue_id), fastjson.dumps(value))
        for (topic, queue_id), value in rows
    ]
    return b"{%b}" % b",".join(parts)


def with_table(name: str, table: bytes, fields: Mapping[str, object]) -> bytes:
    """An object of these fields and of one that is JSON already."""
    rest = fastjson.dumps(fields)[1:]
    separator = b"" if rest == b"}" else b","
    return b'{"%b":%b%b%b' % (name.encode(), table, separator, rest)


def subscription_fields(one: Subscription) -> dict[str, object]:
    """RocketMQ's SubscriptionData."""
    tags = [] if one.codes is None else [tag.strip() for tag in one.expression.split("||")]
    return {
        "classFilterMode": False,
        "codeSet": sorted(one.codes or ()),
        "expressionType": one.expression_type,
        "subString": one.expression,
        "subVersion": one.version,
        "tagsSet": sorted({tag for tag in tags if tag}),
        "topic": one.topic,
    }


def connection_fields(channel: Channel, peer: str) -> dict[str, object]:
    """RocketMQ's Connection."""
    return {
        "clientAddr": peer,
        "clientId": channel.client_id,
        "language": channel.language,
        "version": channel.version,
    }
