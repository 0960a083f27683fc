"""The forms of a message with a time of delivery: as it waits for the wheel, as it is delivered, as
it is recalled (PROTOCOL 4.18).

Responsible for: which time a message asks for and whether it may, where it waits, what is delivered
of it, the handle by which it is recalled.
Refuses to know: the store, clocks, the wheel, when it is due.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from brokers.remoting.codes import ResponseCode
from brokers.service.sending.delayed import (
    REAL_QUEUE,
    REAL_TOPIC,
    TIMER_REQUESTS,
    as_stored,
    asked_level,
    stored_form,
    with_more,
)
from brokers.service.tables.topics import NOT_WRITABLE_BY_CLIENTS, RETRY_PREFIX, name_refusal
from brokers.store.log.properties import (
    PROPERTIES_BYTES_MAX,
    decode_properties,
    encode_properties,
    property_value,
)
from brokers.store.log.records import SYS_FLAG_COMMIT, SYS_FLAG_TRANSACTION_MASK, MessageFields

TIMER_TOPIC = "rmq_sys_wheel_timer"
DELIVER_MS, DELAY_MS, DELAY_SEC = TIMER_REQUESTS
OUT_MS, DELETES = "TIMER_OUT_MS", "TIMER_DEL_UNIQKEY"
ENQUEUED_MS, DEQUEUED_MS, ROLLS = "TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS", "TIMER_ROLL_TIMES"
UNIQUE_KEY = "UNIQ_KEY"
RECALL_TAG = "_RECALL_TAG_"
# What it says in TIMER_ENQUEUE_MS when its time was over before the wheel saw it.
NEVER_ENQUEUED = 2**63 - 1
# All of them begin with it; a search for it is cheaper than one for each name.
_ASKS = b"TIMER_D"
_NUMBER = re.compile(rb"[+-]?[0-9]{1,19}\Z")
_OUT = OUT_MS.encode() + b"\x01"
_DELIVER = DELIVER_MS.encode()
_GOES_NAMES = tuple(name.encode() for name in (OUT_MS, REAL_TOPIC, REAL_QUEUE))
# How a time is asked for, the first one that wins in front; 0: it is no delay.
_UNITS_MS = ((DELAY_SEC.encode(), 1_000), (DELAY_MS.encode(), 1), (DELIVER_MS.encode(), 0))
# In front of a property: the end of another one, or nothing.
_IN_FRONT = (b"\x02", b"")
# What is added to a message that waits, at the end of its text: names, numbers, a topic.
GOES_BYTES_MAX = 384
_GOES = re.compile(
    rb"TIMER_OUT_MS\x01([0-9]{1,18})\x02REAL_TOPIC\x01([^\x01\x02]+)\x02"
    rb"REAL_QID\x01([0-9]{1,9})\x02\Z"
)
# No slot holds more: its number has 32 bits.
NO_SLOT_LIMIT = 2**31 - 1
_I64_MAX = 2**63 - 1
# Two names and a key are far below it.
HANDLE_CHARACTERS_MAX = 4_096
HANDLE_VERSION = "v1"
PRECISIONS_MS = (100, 200, 500, 1_000)
# Half the wheel, less a minute: what lies further on would be taken for what is over.
ROLL_WINDOW_MAX = 604_740


@dataclass(slots=True)
class TimerRules:
    """What this broker allows; all parts share one, of which an operator may change some. By
    RocketMQ's settings timerWheelEnable, timerPrecisionMs, timerMaxDelaySec (here in ms),
    timerRollWindowSlot, timerCongestNumEachSlot, timerStopEnqueue, timerStopDequeue,
    timerFlushIntervalMs, mappedFileSizeTimerLog, recallMessageEnable.
    """

    broker_name: str = "broker-a"
    enabled: bool = True
    precision_ms: int = 1_000
    delay_max_ms: int = 259_200_000
    roll_window_slots: int = 172_800
    slot_messages: int = NO_SLOT_LIMIT
    stop_enqueue: bool = False
    stop_dequeue: bool = False
    flush_interval_ms: int = 1_000
    log_file_bytes: int = 100 << 20
    recall_enabled: bool = False

    def adopt(self, other: TimerRules) -> None:
        """Take over what does not shape the wheel and its files."""
        self.delay_max_ms, self.slot_messages = other.delay_max_ms, other.slot_messages
        self.stop_enqueue, self.stop_dequeue = other.stop_enqueue, other.stop_dequeue
        self.flush_interval_ms = other.flush_interval_ms
        self.recall_enabled = other.recall_enabled

    def floor(self, time_ms: int) -> int:
        """The time of the slot in which `time_ms` lies."""
        return time_ms - time_ms % self.precision_ms

    def slot_of(self, deliver_ms: int) -> int:
        """TIMER_OUT_MS: the slot is read one precision later, and that is never early."""
        return self.floor(deliver_ms - 1)


class TimerRefused(ValueError):
    """A time of delivery that is not served. `code`, the text: what a client is answered."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(remark)
        self.code = code


_REQUESTS = tuple(name.encode() for name in TIMER_REQUESTS)


def asks_for_time(properties: bytes) -> bool:
    """Whether a message asks for a time of delivery."""
    return _ASKS in properties and any(property_value(properties, name) for name in _REQUESTS)


class InWheel(NamedTuple):
    """A message in the form in which it waits, and the handle by which it is recalled."""

    message: MessageFields
    recall_handle: str


class Timed:
    """Messages as they go into the log, at the times of this broker. `now_ms()`: ms since 1970;
    `waiting(slot_ms)`: messages in a slot; `chance()`: from 0 to 1.
    """

    def __init__(
        self,
        rules: TimerRules,
        now_ms: Callable[[], int],
        waiting: Callable[[int], int],
        chance: Callable[[], float],
    ) -> None:
        self._rules = rules
        self._now_ms = now_ms
        self._waiting = waiting
        self._chance = chance

    def as_stored(self, message: MessageFields) -> MessageFields:
        """A message as it goes into the log: itself, or the form in which it waits for its level or
        its time. TimerRefused; ValueError: it cannot be stored.
        """
        properties = message.properties
        if not asks_for_time(properties) or asked_level(properties):
            return as_stored(message)
        if message.topic == TIMER_TOPIC or not _is_told(message.sys_flag):
            return message
        if property_value(properties, OUT_MS.encode()):
            return message
        if not self._rules.enabled:
            raise TimerRefused(
                ResponseCode.SYSTEM_ERROR,
                "accurate timer message is not enabled, timerWheelEnable is false",
            )
        now_ms = self._now_ms()
        deliver_ms = _asked_ms(properties, now_ms)
        if deliver_ms is None or deliver_ms - now_ms > self._rules.delay_max_ms:
            raise self._illegal()
        if deliver_ms <= now_ms:
            if property_value(properties, DELETES.encode()):
                raise self._illegal()
            return message
        return self._in_wheel(message, deliver_ms)

    def usual(self, message: MessageFields, unique_key: str) -> InWheel | None:
        """What `as_stored` makes of a message that asks for no level and waits for its time, as
        nearly all do that ask for one; None: `as_stored` has to look at it.
        """
        rules, properties = self._rules, message.properties
        now_ms = self._now_ms()
        deliver_ms = _asked_ms(properties, now_ms)
        if (
            deliver_ms is None
            or not now_ms < deliver_ms <= now_ms + rules.delay_max_ms
            or not rules.enabled
            or _OUT in properties
            or message.topic.startswith(RETRY_PREFIX)
        ):
            return None
        slot_ms, most = rules.slot_of(deliver_ms), rules.slot_messages
        if most < NO_SLOT_LIMIT and self._waiting(slot_ms) > most:
            return None
        handle = RecallHandle(message.topic, rules.broker_name, slot_ms + 1, unique_key)
        try:
            return InWheel(_waiting_form(message, slot_ms), encode_handle(handle))
        except ValueError:
            return None

    def at(self, message: MessageFields, deliver_ms: int) -> MessageFields:
        """The same for a message of this broker itself, as a check point of a pop, that is
        delivered at `deliver_ms`; no limit is asked. ValueError: its properties have no room.
        """
        if deliver_ms <= self._now_ms():
            return message
        if property_value(message.properties, _DELIVER) != b"%d" % deliver_ms:
            found = decode_properties(message.properties)
            found[DELIVER_MS] = str(deliver_ms)
            message = replace(message, properties=stored_form(found))
        return _waiting_form(message, self._rules.slot_of(deliver_ms))

    def _in_wheel(self, message: MessageFields, deliver_ms: int) -> MessageFields:
        slot_ms, most = self._rules.slot_of(deliver_ms), self._rules.slot_messages
        there = self._waiting(slot_ms)
        # the fuller, the likelier: RocketMQ means the same and refuses the less full ones
        if there > most and (there >= 2 * most or self._chance() < (there - most) / most):
            raise TimerRefused(
                ResponseCode.SYSTEM_ERROR,
                f"timer message is under flow control, max num limit is {2 * most} or the current "
                f"value is greater than {most} and less than {2 * most}, trigger random flow "
                "control",
            )
        return _waiting_form(message, slot_ms)

    def _illegal(self) -> TimerRefused:
        return TimerRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            "timer message illegal, the delay time should not be bigger than the max delay "
            f"{self._rules.delay_max_ms}ms; or if set del msg, the delay time should be bigger "
            "than the current time",
        )


def _is_told(sys_flag: int) -> bool:
    return sys_flag & SYS_FLAG_TRANSACTION_MASK in (0, SYS_FLAG_COMMIT)


def _asked_ms(properties: bytes, now_ms: int) -> int | None:
    """When it is to be delivered: the first one that it says; None: no number of 64 bits."""
    for name, unit_ms in _UNITS_MS:
        text = property_value(properties, name)
        if text:
            if not _NUMBER.match(text) or abs(int(text)) > _I64_MAX:
                return None
            return now_ms + int(text) * unit_ms if unit_ms else int(text)
    return None


def _waiting_form(message: MessageFields, slot_ms: int) -> MessageFields:
    goes = _goes_text(slot_ms, message.topic, message.queue_id)
    properties = with_more(message.properties, goes, _GOES_NAMES)
    return replace(message, topic=TIMER_TOPIC, queue_id=0, properties=properties)


@lru_cache(maxsize=4_096)
def _goes_text(slot_ms: int, topic: str, queue_id: int) -> bytes:
    goes = {OUT_MS: str(slot_ms), REAL_TOPIC: topic, REAL_QUEUE: str(queue_id)}
    return encode_properties(goes)


# -- out of the wheel ------------------------------------------------------------------------------


class Waiting(NamedTuple):
    """What a record of the timer topic says: its slot's time, and where it goes. `deletes`: the
    message that it recalls, None when it is one itself.
    """

    slot_ms: int
    topic: str
    queue_id: int
    deletes: bytes | None


def waiting_of(properties: bytes) -> Waiting:
    """ValueError: it does not say when, or where to."""
    deletes = property_value(properties, DELETES.encode()) if b"TIMER_DEL_" in properties else None
    begin = properties.rfind(_OUT)
    if 0 <= begin >= len(properties) - GOES_BYTES_MAX and (
        properties[begin - 1 : begin] in _IN_FRONT
    ):
        goes = _goes(properties[begin:])
        if goes is not None:
            return goes if deletes is None else goes._replace(deletes=deletes)
    return _anywhere(properties, deletes)


@lru_cache(maxsize=4_096)
def _goes(added: bytes) -> Waiting | None:
    """Of what `_waiting_form` adds, which messages of one slot and queue have in common; None: it
    is more than that, or less.
    """
    found = _GOES.match(added)
    if found is None:
        return None
    return Waiting(int(found[1]), _real_topic(found[2]), int(found[3]), None)


def _anywhere(properties: bytes, deletes: bytes | None) -> Waiting:
    """Wherever it says it."""
    out = property_value(properties, OUT_MS.encode()) or b""
    queue = property_value(properties, REAL_QUEUE.encode()) or b""
    if not out.isdigit() or len(out) > 18:
        raise ValueError("it does not say when it is due")
    if not queue.isdigit() or len(queue) > 9:
        raise ValueError("it does not say to which queue it goes")
    topic = _real_topic(property_value(properties, REAL_TOPIC.encode()) or b"")
    return Waiting(int(out), topic, int(queue), deletes)


@lru_cache(maxsize=4_096)
def _real_topic(name: bytes) -> str:
    topic = name.decode("utf-8", "surrogateescape")
    if (reason := name_refusal(topic)) is not None:
        raise ValueError(f"it does not say to which topic it goes: {reason}")
    if topic in NOT_WRITABLE_BY_CLIENTS or topic == TIMER_TOPIC:
        raise ValueError(f"nothing is delivered to {topic}")
    return topic


def identity_of(properties: bytes, topic: str) -> bytes | None:
    """By which a message is recalled, or known again: `<real topic>+<unique key>`."""
    key = property_value(properties, UNIQUE_KEY.encode())
    return None if key is None else topic.encode("utf-8", "surrogateescape") + b"+" + key


def was_rolled(properties: bytes) -> bool:
    """Whether it was in the wheel before, in an earlier slot."""
    return ROLLS.encode() + b"\x01" in properties


def delivered(fields: MessageFields, goes: Waiting, enqueued_ms: int, now_ms: int) -> MessageFields:
    """What is delivered; all its properties stay."""
    properties = _stamped(fields.properties, enqueued_ms, now_ms, None)
    return replace(
        fields,
        topic=goes.topic,
        queue_id=goes.queue_id,
        properties=properties,
        prepared_transaction_offset=0,
    )


def rolled(fields: MessageFields, enqueued_ms: int, now_ms: int) -> MessageFields:
    """The record that waits once more, in a slot further on."""
    text = property_value(fields.properties, ROLLS.encode()) or b"0"
    times = int(text) + 1 if text.isdigit() and len(text) < 10 else 1
    properties = _stamped(fields.properties, enqueued_ms, now_ms, times)
    return replace(fields, topic=TIMER_TOPIC, queue_id=0, properties=properties)


def _stamped(properties: bytes, enqueued_ms: int, now_ms: int, rolls: int | None) -> bytes:
    """With the wheel's stamps; without them, where there is no room."""
    stamps = {ENQUEUED_MS: str(enqueued_ms), DEQUEUED_MS: str(now_ms)}
    if rolls is not None:
        stamps[ROLLS] = str(rolls)
    if b"TIMER_ENQUEUE_MS\x01" in properties:
        try:
            return stored_form({**decode_properties(properties), **stamps})
        except ValueError:
            return properties
    joined = b"" if properties.endswith(b"\x02") or not properties else b"\x02"
    added = "".join(f"{name}\x01{value}\x02" for name, value in stamps.items())
    text = properties + joined + added.encode()
    return text if len(text) <= PROPERTIES_BYTES_MAX else properties


# -- recall ----------------------------------------------------------------------------------------


class RecallHandle(NamedTuple):
    """By which a producer recalls a message. `time_ms`: one behind its slot's time."""

    topic: str
    broker_name: str
    time_ms: int
    unique_key: str


def encode_handle(handle: RecallHandle) -> str:
    """As RocketMQ's, with padding."""
    text = " ".join((HANDLE_VERSION, handle.topic, handle.broker_name, str(handle.time_ms)))
    return base64.urlsafe_b64encode(f"{text} {handle.unique_key}".encode()).decode()


def decode_handle(text: str) -> RecallHandle | None:
    """None: it is none. A time that is no number is −1."""
    if len(text) > HANDLE_CHARACTERS_MAX:
        return None
    try:
        data = base64.b64decode(
            text.rstrip("=").encode("ascii") + b"=" * (-len(text.rstrip("=")) % 4), b"-_", True
        )
        words = data.decode("utf-8").split(" ")
    except (binascii.Error, ValueError):
        return None
    if len(words) < 5 or words[0] != HANDLE_VERSION:
        return None
    _, topic, broker, time, key = words[:5]
    number = int(time) if time.isascii() and time.isdigit() and len(time) <= 18 else -1
    return RecallHandle(topic, broker, number, key)


_HANDLE = (REAL_TOPIC.encode(), UNIQUE_KEY.encode(), OUT_MS.encode())


def handle_of(message: MessageFields, broker_name: str) -> str | None:
    """Of a message as it goes into the log; None: it does not wait in the wheel, or is a retry."""
    if message.topic != TIMER_TOPIC:
        return None
    topic, key, out = (
        (property_value(message.properties, name) or b"").decode("utf-8", "surrogateescape")
        for name in _HANDLE
    )
    if not topic or not key or not out.isdigit() or topic.startswith(RETRY_PREFIX):
        return None
    return encode_handle(RecallHandle(topic, broker_name, int(out) + 1, key))
