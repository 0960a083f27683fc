"""The body of a client's heartbeat (34) as typed values (PROTOCOL 4.4, 4.13).

Responsible for: decoding it from Java and Go, limits. Refuses to know: what a heartbeat changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from brokers.service.clients.subscriptions import ALL, Subscription, is_tags

GROUPS_PER_CLIENT_MAX = 1_000
SUBSCRIPTIONS_PER_GROUP_MAX = 5_000
NAME_CHARACTERS_MAX = 255


class BadHeartbeat(Exception):
    """The body is no heartbeat; answered with code 1 and this text."""


@dataclass(frozen=True, slots=True)
class ConsumerData:
    """One consumer group of a client. `subscriptions` is empty in a V2 heartbeat without
    subscriptions.
    """

    group: str
    consume_type: str
    message_model: str
    consume_from_where: str
    subscriptions: tuple[Subscription, ...]
    unit_mode: bool = False


@dataclass(frozen=True, slots=True)
class ClientHeartbeat:
    client_id: str
    producer_groups: tuple[str, ...]
    consumers: tuple[ConsumerData, ...]
    fingerprint: int = 0
    without_subscriptions: bool = False


def parse(body: object) -> ClientHeartbeat:
    """A heartbeat out of decoded JSON; `BadHeartbeat` when it is none."""
    fields = _object(body, "the heartbeat")
    producers = _list(fields, "producerDataSet", GROUPS_PER_CLIENT_MAX)
    consumers = _list(fields, "consumerDataSet", GROUPS_PER_CLIENT_MAX)
    fingerprint = fields.get("heartbeatFingerprint")
    return ClientHeartbeat(
        client_id=_name(fields, "clientID"),
        producer_groups=tuple(
            _name(_object(item, "a producer"), "groupName") for item in producers
        ),
        consumers=tuple(_consumer(_object(item, "a consumer")) for item in consumers),
        fingerprint=fingerprint if type(fingerprint) is int else 0,
        without_subscriptions=fields.get("withoutSub") is True,
    )


def _consumer(fields: Mapping[str, object]) -> ConsumerData:
    items = _list(fields, "subscriptionDataSet", SUBSCRIPTIONS_PER_GROUP_MAX)
    return ConsumerData(
        group=_name(fields, "groupName"),
        consume_type=str(fields.get("consumeType") or "CONSUME_PASSIVELY"),
        message_model=str(fields.get("messageModel") or "CLUSTERING"),
        consume_from_where=str(fields.get("consumeFromWhere") or "CONSUME_FROM_LAST_OFFSET"),
        subscriptions=tuple(_subscription(_object(item, "a subscription")) for item in items),
        unit_mode=fields.get("unitMode") is True,
    )


def _subscription(fields: Mapping[str, object]) -> Subscription:
    text = fields.get("subString")
    expression = text if isinstance(text, str) and text else ALL
    version = fields.get("subVersion")
    codes = frozenset(_code(item) for item in _list(fields, "codeSet", SUBSCRIPTIONS_PER_GROUP_MAX))
    expression_type = str(fields.get("expressionType") or "TAG")
    by_tags = is_tags(expression_type) and expression != ALL
    if fields.get("classFilterMode") is True:  # RocketMQ 4's: everything is given
        by_tags, expression_type = False, "TAG"
    return Subscription(
        topic=_name(fields, "topic"),
        expression=expression,
        codes=codes if by_tags else None,
        version=version if type(version) is int else 0,
        expression_type=expression_type,
    )


def _code(item: object) -> int:
    # Go writes the hashes as texts, Java as numbers.
    if type(item) is int:
        return item
    if isinstance(item, str) and len(item) <= 20:
        try:
            return int(item)
        except ValueError:
            pass
    raise BadHeartbeat("a tag hash is no number")


def _object(value: object, what: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise BadHeartbeat(f"{what} is no object")
    return value


def _list(fields: Mapping[str, object], key: str, largest: int) -> Sequence[object]:
    value = fields.get(key)
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > largest:
        raise BadHeartbeat(f"{key} is no list of at most {largest}")
    return value


def _name(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= NAME_CHARACTERS_MAX:
        raise BadHeartbeat(f"{key} is missing or longer than {NAME_CHARACTERS_MAX} characters")
    return value
