"""What leaves a set that has no master: a message that waited, in the form in which another set's
master takes it (PROTOCOL 7.4).

Responsible for: one form for each kind, and the send request (310). Refuses to know: what is due,
where it goes, what comes of it.

The receiver must not take it for what it was: a level that is over would be waited for again.
Unlike RocketMQ's, a request does not ask to be answered before the replicas have the message.
"""

from __future__ import annotations

from enum import Enum

from msgspec.structs import replace

from brokers.acting.messages import Place
from brokers.acting.targets import Target
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.service.sending.delayed import (
    DELAY,
    HALF_TOPIC,
    REAL_QUEUE,
    REAL_TOPIC,
    TIMER_REQUESTS,
    delivered,
    stored_form,
)
from brokers.service.sending.request import MARK_TRANSACTION
from brokers.service.sending.timed import DELETES, OUT_MS, TIMER_TOPIC
from brokers.service.tables.topics import RETRY_PREFIX, REVIVE_PREFIX, name_refusal
from brokers.store.log.properties import SCHEDULE_TOPIC, decode_properties, property_value
from brokers.store.log.records import (
    SYS_FLAG_BORN_HOST_V6,
    SYS_FLAG_PREPARED,
    SYS_FLAG_STORE_HOST_V6,
    SYS_FLAG_TRANSACTION_MASK,
    MessageFields,
    StoredMessage,
)

PREPARED_OFFSET, PRODUCER_GROUP, WAIT = "TRAN_PREPARED_QUEUE_OFFSET", "PGROUP", "WAIT"
DEFAULT_TOPIC, DEFAULT_QUEUES = "TBW102", 8
# Every broker adds its own to what it stores.
_ADDED = ("MSG_REGION", "TRACE_ON", "CLUSTER")
_HOSTS_V6 = SYS_FLAG_BORN_HOST_V6 | SYS_FLAG_STORE_HOST_V6


class Kind(Enum):
    """What a message was waiting for."""

    LEVEL = "delay level"
    TIMER = "timer"
    HALF = "transaction"
    REVIVAL = "check point or acknowledgement"
    RETRY = "copy of a popped message"


class Stays(ValueError):
    """A message that is not to leave; the text says why."""


def is_fixed(kind: Kind, message: MessageFields) -> bool:
    """Whether all of its like go to one queue; also a check point that comes out of the wheel."""
    return kind in (Kind.REVIVAL, Kind.RETRY) or message.topic.startswith(REVIVE_PREFIX)


def leaving(kind: Kind, stored: StoredMessage) -> MessageFields:
    """A message of the store as it leaves. `Stays`."""
    match kind:
        case Kind.LEVEL:
            return _told_apart(_delivered(stored))
        case Kind.TIMER:
            return _of_timer(stored)
        case Kind.HALF:
            return _of_half(stored.fields)
        case Kind.REVIVAL | Kind.RETRY:
            return of_own(kind, stored.fields)


def copy_leaving(kind: Kind, copy: MessageFields) -> MessageFields:
    """The copy that this set's own log would get if it had a master, as it leaves instead: of a
    level, of the wheel (also one that is rolled on, and records of the revive topic), a half as it
    is stored, a copy of a popped message. `Stays`.
    """
    match kind:
        case Kind.LEVEL:
            return _told_apart(copy)
        case Kind.TIMER if copy.topic == TIMER_TOPIC:
            return _rolled(copy)
        case Kind.TIMER if copy.topic.startswith(REVIVE_PREFIX):
            return _of_revive_topic(copy)
        case Kind.TIMER:
            return _told_apart(copy)
        case Kind.HALF:
            return _of_half(copy)
        case Kind.REVIVAL | Kind.RETRY:
            return of_own(kind, copy)


def _of_revive_topic(fields: MessageFields) -> MessageFields:
    """A record whose time has come: the receiver's reviver reads it at once."""
    found = decode_properties(fields.properties)
    for name in (DELAY, *TIMER_REQUESTS):
        found.pop(name, None)
    return _clean(fields, found, 0)


def rolled(stored: StoredMessage) -> MessageFields:
    """A timed message that is far from due, for another master's wheel. `Stays`."""
    return _rolled(stored.fields)


def _rolled(fields: MessageFields) -> MessageFields:
    if not property_value(fields.properties, OUT_MS.encode()):
        raise Stays("it does not say when it is due")
    return _told_apart(replace(fields, topic=TIMER_TOPIC, queue_id=0), keeps=(OUT_MS,))


def of_own(kind: Kind, fields: MessageFields) -> MessageFields:
    """A check point, an acknowledgement or a copy that this broker has made just now. `Stays`."""
    if kind is Kind.REVIVAL and not fields.topic.startswith(REVIVE_PREFIX):
        raise Stays(f"{fields.topic} takes no check points")
    return _clean(fields, decode_properties(fields.properties), 0)


def _of_timer(stored: StoredMessage) -> MessageFields:
    if property_value(stored.fields.properties, DELETES.encode()):
        raise Stays("it only says that another one is recalled")
    return _told_apart(_delivered(stored))


def _delivered(stored: StoredMessage) -> MessageFields:
    try:
        return delivered(stored)
    except ValueError as error:
        raise Stays(str(error)) from None


def _told_apart(fields: MessageFields, keeps: tuple[str, ...] = ()) -> MessageFields:
    """Without what asks for a time, unless it is to wait for one again."""
    found = decode_properties(fields.properties)
    for name in (DELAY, *TIMER_REQUESTS, MARK_TRANSACTION):
        if name not in keeps and not (keeps and name in TIMER_REQUESTS):
            found.pop(name, None)
    if fields.topic.startswith(REVIVE_PREFIX) or fields.topic in (SCHEDULE_TOPIC, HALF_TOPIC):
        raise Stays(f"nothing is delivered to {fields.topic}")
    return _clean(fields, found, 0)


def _of_half(fields: MessageFields) -> MessageFields:
    """Its producer's send once more: the receiver asks the producer, by `PGROUP`."""
    found = decode_properties(fields.properties)
    topic = found.get(REAL_TOPIC, "")
    if (reason := name_refusal(topic)) is not None or topic in (HALF_TOPIC, SCHEDULE_TOPIC):
        raise Stays(f"it does not say where it goes: {reason or topic}")
    for name in (PREPARED_OFFSET, REAL_QUEUE):
        found.pop(name, None)
    found[MARK_TRANSACTION] = "true"
    return _clean(replace(fields, topic=topic), found, SYS_FLAG_PREPARED)


def _clean(fields: MessageFields, properties: dict[str, str], state: int) -> MessageFields:
    for name in (WAIT, *_ADDED):
        properties.pop(name, None)
    try:
        text = stored_form(properties)
    except ValueError as error:
        raise Stays(str(error)) from None
    flags = fields.sys_flag & ~SYS_FLAG_TRANSACTION_MASK & ~_HOSTS_V6
    return replace(fields, properties=text, sys_flag=flags | state, prepared_transaction_offset=0)


def send_request(message: MessageFields, target: Target, place: Place) -> RemotingCommand:
    """310 to the master of another set, never a batch. A copy for another try brings its own limit:
    by the receiver's, which may know nothing of its group, it would be a dead letter.
    """
    # Half a surrogate pair is no text: the receiver would close the connection.
    properties = message.properties.decode("utf-8", "replace")
    ext = {
        "a": producer_group(message, place),
        "b": message.topic,
        "c": DEFAULT_TOPIC,
        "d": str(DEFAULT_QUEUES),
        "e": str(target.queue_id),
        "f": str(message.sys_flag),
        "g": str(message.born_ms),
        "h": str(message.flag),
        "i": properties,
        "j": str(message.reconsume_times),
        "k": "false",
        "m": "false",
    }
    if message.topic.startswith(RETRY_PREFIX):
        ext["l"] = str(message.reconsume_times)
    return RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, ext, bytes(message.body))


def producer_group(message: MessageFields, place: Place) -> str:
    """Whose message it is: its producers', or this broker's own group."""
    known = property_value(message.properties, PRODUCER_GROUP.encode())
    if known is not None:
        return known.decode("utf-8", "replace")
    return f"InnerProducerGroup_{place.broker_name}_{place.broker_id}"
