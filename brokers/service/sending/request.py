"""A send (10, 310, 320) as a typed value, and whether it may be stored
(PROTOCOL 4.3).

Responsible for: both header forms, the checks in their order, the properties a broker adds, the
answer.
Refuses to know: sockets, clocks, the store, replication.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokers.remoting import fastjson
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import I32_MAX, I64_MAX, I64_MIN, flag, number, number_or_none, text
from brokers.service.sending.delayed import HALF_TOPIC, TIMER_REQUESTS, asked_level
from brokers.service.sending.timed import TIMER_TOPIC, waiting_of
from brokers.service.tables.topics import (
    NOT_WRITABLE_BY_CLIENTS,
    RETRY_PREFIX,
    REVIVE_PREFIX,
    USER_TOPIC_CHARACTERS_MAX,
    TopicConfig,
    name_refusal,
)
from brokers.store.log.properties import PROPERTIES_BYTES_MAX, SCHEDULE_TOPIC
from brokers.store.log.records import BODY_BYTES_MAX, SYS_FLAG_TRANSACTION_MASK

REGION_ID = "DefaultRegion"
# Properties by which a message is something else than one for now.
MARK_TRANSACTION = "TRAN_MSG"
MARK_LEVEL = "DELAY\x01"
MARK_TIMER = "TIMER_D"
MARK_POP = "POP_CK"
MARK_ORDER = "__SHARDINGKEY\x01"
_KINDS = {HALF_TOPIC: "transaction", SCHEDULE_TOPIC: "delay", "rmq_sys_wheel_timer": "delay"}


def kind_of(stored_topic: str, properties: str) -> str:
    """RocketMQ's message type, as its metrics name it, by where a message waits."""
    kind = _KINDS.get(stored_topic, "normal")
    return "fifo" if MARK_ORDER in properties and kind != "transaction" else kind


# A client of this version or a newer one says itself how often (RocketMQ 3.4.9).
SAYS_TRIES_VERSION = 121
I32_MIN = -(2**31)
SYS_FLAGS_INNER_BATCH = 0x40 | 0x80
# A check point of 32 messages takes a tenth of it.
REVIVE_BYTES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not done: RocketMQ's code and a remark for people."""

    code: int
    remark: str


@dataclass(frozen=True, slots=True)
class SendRequest:
    """What a producer asks for. `queue_id` below 0 leaves the choice to the broker."""

    producer_group: str
    topic: str
    default_topic: str
    default_queues: int
    queue_id: int
    sys_flag: int
    born_ms: int
    flag: int
    properties: str
    reconsume_times: int
    unit: bool
    batch: bool


def parse_v2(ext: Mapping[str, str]) -> SendRequest:
    """The header of 310 and 320; `BadField` when one is missing or no number."""
    return SendRequest(
        text(ext, "a"),
        text(ext, "b"),
        text(ext, "c"),
        number(ext, "d"),
        number(ext, "e"),
        number(ext, "f"),
        number(ext, "g"),
        number(ext, "h"),
        ext.get("i") or "",
        number(ext, "j", 0),
        flag(ext, "k"),
        flag(ext, "m"),
    )


def parse_v1(ext: Mapping[str, str]) -> SendRequest:
    """The header of 10; `BadField` when one is missing or no number."""
    return SendRequest(
        text(ext, "producerGroup"),
        text(ext, "topic"),
        text(ext, "defaultTopic"),
        number(ext, "defaultTopicQueueNums"),
        number(ext, "queueId"),
        number(ext, "sysFlag"),
        number(ext, "bornTimestamp"),
        number(ext, "flag"),
        ext.get("properties") or "",
        number(ext, "reconsumeTimes", 0),
        flag(ext, "unitMode"),
        flag(ext, "batch"),
    )


def tries_max(request: RemotingCommand) -> int | None:
    """How often a group tries a message, as the client says that sends it to the retry topic (310,
    10), or sends it back (36); None: it leaves that to the group's settings.
    """
    if request.version < SAYS_TRIES_VERSION:
        return None
    ext = request.ext
    return number_or_none(ext, "l" if "l" in ext else "maxReconsumeTimes")


def topic_refusal(topic: str) -> Refusal | None:
    """The checks that need nothing but the name."""
    reason = name_refusal(topic)
    if reason is not None:
        return Refusal(ResponseCode.INVALID_PARAMETER, reason)
    if topic in NOT_WRITABLE_BY_CLIENTS:
        return Refusal(ResponseCode.NO_PERMISSION, f"sending to topic {topic} is forbidden")
    return None


def refusal(request: SendRequest, config: TopicConfig, body: bytes) -> Refusal | None:
    """The checks on a send to a topic that exists, in RocketMQ's order; None when it may be stored.
    A topic's permission is none of them: clients see it in the route and go elsewhere.
    """
    if request.queue_id >= config.queues:
        return Refusal(
            ResponseCode.INVALID_PARAMETER,
            f"queue {request.queue_id} of {config.queues} does not exist",
        )
    if request.batch and (
        request.topic.startswith(RETRY_PREFIX) or len(request.topic) > USER_TOPIC_CHARACTERS_MAX
    ):
        return Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            "a batch cannot go to a retry topic, nor to one with a name this long",
        )
    if len(body) > BODY_BYTES_MAX:
        return Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the body of {len(body)} bytes is larger than {BODY_BYTES_MAX}",
        )
    if not body:
        return Refusal(ResponseCode.SYSTEM_ERROR, "the message body is empty")
    if request.batch and (_has_level(request.properties) or _has_time(request.properties)):
        return Refusal(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be delayed")
    if not _numbers_fit(request):
        return Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            "a number of the request does not fit its place in the log",
        )
    return _unfit_for_wheel(request) or _unfit_for_revival(request, body) or _unserved(request)


def _unfit_for_revival(request: SendRequest, body: bytes) -> Refusal | None:
    """One record there that is none would stop a queue of RocketMQ's reviver for ever."""
    if not request.topic.startswith(REVIVE_PREFIX):
        return None
    known = property_value(request.properties, "TAGS") in ("ck", "ack", "bAck")
    try:
        is_object = isinstance(fastjson.loads(body, REVIVE_BYTES_MAX), dict)
    except fastjson.JsonRejected:
        is_object = False
    if known and is_object and not request.batch:
        return None
    return Refusal(
        ResponseCode.MESSAGE_ILLEGAL,
        f"{request.topic} takes check points and acknowledgements of pops only",
    )


def _numbers_fit(request: SendRequest) -> bool:
    return (
        I32_MIN <= request.flag <= I32_MAX
        and I32_MIN <= request.sys_flag <= I32_MAX
        and I32_MIN <= request.reconsume_times <= I32_MAX
        and I64_MIN <= request.born_ms <= I64_MAX
    )


def _unserved(request: SendRequest) -> Refusal | None:
    # Storing these as ordinary messages would deliver them too early: a plain refusal keeps the
    # promise.
    if request.sys_flag & SYS_FLAGS_INNER_BATCH:
        return Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            "inner batches, which are one message of many, are not served by this broker",
        )
    return _unserved_kind(request.properties, request.sys_flag)


def _unserved_kind(properties: str, sys_flag: int) -> Refusal | None:
    if is_transactional(properties):
        if _has_time(properties) or _has_level(properties):
            return Refusal(ResponseCode.MESSAGE_ILLEGAL, "a transaction message cannot be delayed")
        return None
    if sys_flag & SYS_FLAG_TRANSACTION_MASK:
        return Refusal(
            ResponseCode.MESSAGE_ILLEGAL,
            "the system flags are those of a transaction message, the property TRAN_MSG is not",
        )
    return None


def _has_time(properties: str) -> bool:
    return MARK_TIMER in properties and any(
        has_property(properties, each) for each in TIMER_REQUESTS
    )


def _unfit_for_wheel(request: SendRequest) -> Refusal | None:
    """One record there that does not say when and where would hold up RocketMQ's wheel for ever."""
    if request.topic != TIMER_TOPIC:
        return None
    if request.batch:
        return Refusal(ResponseCode.MESSAGE_ILLEGAL, f"a batch cannot go to {TIMER_TOPIC}")
    try:
        waiting_of(request.properties.encode("utf-8", "replace"))
    except ValueError as error:
        return Refusal(ResponseCode.MESSAGE_ILLEGAL, f"{TIMER_TOPIC} does not take it: {error}")
    return None


def is_transactional(properties: str) -> bool:
    """Whether its producer decides later what becomes of it."""
    if MARK_TRANSACTION not in properties:
        return False
    return (property_value(properties, MARK_TRANSACTION) or "").lower() == "true"


def _has_level(properties: str) -> bool:
    """Whether it asks for a delay level, which wins over a time."""
    try:
        return asked_level(properties.encode("utf-8", "replace")) > 0
    except ValueError:
        return True  # it is refused for that


def waits_for_replicas(properties: str) -> bool:
    """False when the producer asked (WAIT, `setWaitStoreMsgOK`) to be answered as soon as the
    message is in the log of the master. Any other word waits.
    """
    # what every Java producer writes
    if "WAIT\x01" not in properties or "WAIT\x01true" in properties:
        return True
    return (property_value(properties, "WAIT") or "").lower() != "false"


def has_property(properties: str, key: str) -> bool:
    """Whether a property string holds `key`."""
    return properties.startswith(key + "\x01") or f"\x02{key}\x01" in properties


def property_value(properties: str, key: str) -> str | None:
    """The value of one property as readers decode it, without decoding the others: of equal names
    the last one with a value.
    """
    mark, end = key + "\x01", len(properties)
    while (at := properties.rfind(mark, 0, end)) >= 0:
        if at == 0 or properties[at - 1] == "\x02":
            value, _, _ = properties[at + len(mark) :].partition("\x02")
            if value:
                return value
        end = at
    return None


def with_property(properties: str, key: str, value: str) -> str:
    """The property string with one more entry at its end."""
    separator = "" if not properties or properties.endswith("\x02") else "\x02"
    return f"{properties}{separator}{key}\x01{value}\x02"


def stored_properties(properties: str, added: str) -> bytes:
    """The property text a single message is stored with; `added` ends with its separator.
    `ValueError`: too long.

    Producers do not write the keys in `added` themselves; one that does is decoded by readers to
    the later value.
    """
    if properties and not properties.endswith("\x02"):
        properties += "\x02"
    data = (properties + added).encode("utf-8")
    if len(data) > PROPERTIES_BYTES_MAX:
        raise ValueError(f"properties of {len(data)} bytes are larger than {PROPERTIES_BYTES_MAX}")
    return data


def joined_properties(own: bytes, common: bytes) -> bytes:
    """A batch message's own properties and those of its request behind them."""
    return own + b"\x02" + common if own and not own.endswith(b"\x02") else own + common


def answer_ext(
    msg_id: str,
    queue_id: int,
    queue_offset: int,
    transaction_id: str | None,
    recall_handle: str | None = None,
) -> dict[str, str]:
    """The ext fields of a stored send."""
    ext = {
        "msgId": msg_id,
        "queueId": str(queue_id),
        "queueOffset": str(queue_offset),
        "MSG_REGION": REGION_ID,
        "TRACE_ON": "true",
    }
    if transaction_id:
        ext["transactionId"] = transaction_id
    if recall_handle:
        ext["recallHandle"] = recall_handle
    return ext
