"""What came of a put, here or at another set's master, and of a get (PROTOCOL 7.4).

Responsible for: the two tables of results, one for both ways, and the request for one message.
Refuses to know: what is tried again, and when.
"""

from __future__ import annotations

from enum import Enum

from brokers.acting.messages import Place
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand

MAX_I32 = 2**31 - 1
SUBSCRIPTION_FLAG = 4


class Put(Enum):
    """`STORED`: under the terms of that set. `SOFT`: in its master's log, and not known to be with
    its replicas or on its disk. `ILLEGAL`: that master will never take it. `FAILED`: it did not
    this time. `UNKNOWN`: no answer; it may be stored.
    """

    STORED = "stored"
    SOFT = "stored, not safe"
    ILLEGAL = "not taken for what it is"
    FAILED = "not taken"
    UNKNOWN = "no answer"


_SOFT = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)


def put_of(code: int | None) -> Put:
    """By the code of an answer, or of an own put, which are the same. None: no answer came."""
    if code is None:
        return Put.UNKNOWN
    if code == ResponseCode.SUCCESS:
        return Put.STORED
    if code in _SOFT:
        return Put.SOFT
    return Put.ILLEGAL if code == ResponseCode.MESSAGE_ILLEGAL else Put.FAILED


def is_done(put: Put) -> bool:
    """Whether the message has its place in another log: also for a soft answer, which a producer
    would not repeat either. RocketMQ's delay levels and timers do, and deliver twice; its revival
    takes no remote answer for one.
    """
    return put in (Put.STORED, Put.SOFT)


class Got(Enum):
    """`RETRY`: it may be there and was not reached."""

    FOUND = "found"
    ABSENT = "not there"
    RETRY = "to be asked for again"


_NOT_THERE = (
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


def got_of(code: int | None, *, has_address: bool = True) -> Got:
    """By the code of an answer to a remote pull; None: no answer. `has_address`: the route named
    one, after it had been fetched again.
    """
    if not has_address or code is None:
        return Got.RETRY
    if code == ResponseCode.SUCCESS:
        return Got.FOUND
    return Got.ABSENT if code in _NOT_THERE else Got.RETRY


def got_locally(found: bool) -> Got:
    """Of a store in this process: what it does not have, it will not have."""
    return Got.FOUND if found else Got.ABSENT


def get_request(
    topic: str, queue_id: int, offset: int, broker_name: str, place: Place, wall_ms: int
) -> RemotingCommand:
    """11 for the one message at a queue's offset, at the broker of that name."""
    ext = {
        "consumerGroup": f"InnerConsumerGroup_{place.broker_name}_{place.broker_id}",
        "topic": topic,
        "queueId": str(queue_id),
        "queueOffset": str(offset),
        "maxMsgNums": "1",
        "maxMsgBytes": str(MAX_I32),
        "sysFlag": str(SUBSCRIPTION_FLAG),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": "*",
        "subVersion": str(wall_ms),
        "expressionType": "TAG",
        "bname": broker_name,
    }
    return RemotingCommand.request(RequestCode.PULL_MESSAGE, ext)
