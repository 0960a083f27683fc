"""A pull (11, 361) as a typed value, and what the answer to each result of the store is
(PROTOCOL 4.5).

Responsible for: the header, the flag bits, the table from store result to code and next offset.
Refuses to know: sockets, clocks, the store, when a pull is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokers.remoting.codes import ResponseCode
from brokers.remoting.fields import number, text

FLAG_COMMIT_OFFSET, FLAG_SUSPEND, FLAG_SUBSCRIPTION, FLAG_CLASS_FILTER, FLAG_LITE_PULL = (
    1,
    2,
    4,
    8,
    16,
)
SUSPEND_MS_MAX = 60_000
MESSAGES_MAX = 32


@dataclass(frozen=True, slots=True)
class PullRequest:
    """What a consumer asks for; offsets count messages of the queue, `suspend_ms` is 0 when it may
    not be held.
    """

    group: str
    topic: str
    queue_id: int
    queue_offset: int
    max_messages: int
    suspend_ms: int
    commit_offset: int | None
    subscription: str | None
    subscription_version: int
    expression_type: str


def parse(ext: Mapping[str, str]) -> PullRequest:
    """The header of 11 and 361; `BadField` when one is missing or no number."""
    flags = number(ext, "sysFlag")
    commit_offset = number(ext, "commitOffset")
    suspend_ms = number(ext, "suspendTimeoutMillis")
    return PullRequest(
        group=text(ext, "consumerGroup"),
        topic=text(ext, "topic"),
        queue_id=number(ext, "queueId"),
        queue_offset=number(ext, "queueOffset"),
        max_messages=max(1, min(number(ext, "maxMsgNums"), MESSAGES_MAX)),
        suspend_ms=max(0, min(suspend_ms, SUSPEND_MS_MAX)) if flags & FLAG_SUSPEND else 0,
        commit_offset=commit_offset if flags & FLAG_COMMIT_OFFSET and commit_offset >= 0 else None,
        subscription=ext.get("subscription", "") if flags & FLAG_SUBSCRIPTION else None,
        subscription_version=number(ext, "subVersion", 0),
        expression_type=ext.get("expressionType") or "TAG",
    )


def code_of(status: str, queue_offset: int) -> ResponseCode:
    """The response code for a store result, by its RocketMQ name."""
    match status:
        case "FOUND":
            return ResponseCode.SUCCESS
        case "NO_MATCHED_MESSAGE" | "MESSAGE_WAS_REMOVING":
            return ResponseCode.PULL_RETRY_IMMEDIATELY
        case "OFFSET_FOUND_NULL" | "OFFSET_OVERFLOW_ONE":
            return ResponseCode.PULL_NOT_FOUND
        case "NO_MESSAGE_IN_QUEUE" | "NO_MATCHED_LOGIC_QUEUE":
            return (
                ResponseCode.PULL_NOT_FOUND if queue_offset == 0 else ResponseCode.PULL_OFFSET_MOVED
            )
        case "OFFSET_TOO_SMALL" | "OFFSET_OVERFLOW_BADLY" | "OFFSET_RESET":
            return ResponseCode.PULL_OFFSET_MOVED
        case "RECORD_REFUSED":
            # clients ask again from the same offset, a little later
            return ResponseCode.SYSTEM_ERROR
        case _:
            raise ValueError(f"{status} is no result of a read")


def answer_ext(
    next_offset: int, min_offset: int, max_offset: int, suggested: int = 0
) -> dict[str, str]:
    """The ext fields every answer to a pull carries. `suggested`: id of the replica that the next
    pull goes to; 0: the master.
    """
    return {
        "suggestWhichBrokerId": str(suggested),
        "nextBeginOffset": str(next_offset),
        "minOffset": str(min_offset),
        "maxOffset": str(max_offset),
        "topicSysFlag": "0",
        "groupSysFlag": "0",
    }
