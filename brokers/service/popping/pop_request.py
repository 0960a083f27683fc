"""A pop (200050), a notification (200054) and their kin as typed values (PROTOCOL 4.9).

Responsible for: the headers, until when one may wait. Refuses to know: sockets, clocks, the store,
what is answered.

As Java's decoder does, a number that is absent counts as 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokers.remoting.fields import BadField, flag, number
from brokers.service.popping.records import MESSAGES_MAX

POLL_MS_MAX = 60_000
# A request that is so much older than its own patience has nobody waiting for its answer.
TOO_LATE_MS = 500
# So much earlier than its client gives up a waiting request is answered.
ANSWER_EARLIER_MS = 50
INVISIBLE_MS_MAX = 259_200_000 - 1_000
NAME_CHARACTERS_MAX = 255
EVERY_QUEUE = -1


@dataclass(frozen=True, slots=True)
class PopRequest:
    """What a client asks for; `queue_id` −1: of all queues. `born_ms`: when, in ms since 1970 by
    its clock, 0 where it does not say. `from_end`: a group that is new begins at the newest
    message.
    """

    group: str
    topic: str
    queue_id: int
    messages: int
    invisible_ms: int
    poll_ms: int
    born_ms: int
    from_end: bool
    expression_type: str
    expression: str
    ordered: bool
    attempt: str | None

    @property
    def key(self) -> tuple[str, str, int]:
        """Under which it waits."""
        return self.topic, self.group, self.queue_id

    def too_late(self, wall_ms: int) -> bool:
        born_ms = self.born_ms or wall_ms
        return wall_ms - born_ms - self.poll_ms > TOO_LATE_MS

    def wait_ms(self, wall_ms: int) -> int:
        """For how long it may wait from now on; 0: it is answered at once."""
        if self.poll_ms <= 0:
            return 0
        poll_ms = min(self.poll_ms, POLL_MS_MAX)
        end_ms = (self.born_ms or wall_ms) + poll_ms - ANSWER_EARLIER_MS
        return max(0, min(end_ms - wall_ms, poll_ms))


def parse(ext: Mapping[str, str]) -> PopRequest:
    """The header of 200050, and as far as they have them of 200052, 200054 and 200055.
    `BadField`.
    """
    attempt = ext.get("attemptId") or None
    if attempt is not None and len(attempt) > NAME_CHARACTERS_MAX:
        raise BadField(f"attemptId has more than {NAME_CHARACTERS_MAX} characters")
    return PopRequest(
        group=_name(ext, "consumerGroup"),
        topic=_name(ext, "topic"),
        queue_id=number(ext, "queueId", 0),
        messages=number(ext, "maxMsgNums", 0),
        invisible_ms=number(ext, "invisibleTime", 0),
        poll_ms=number(ext, "pollTime", 0),
        born_ms=max(0, number(ext, "bornTime", 0)),
        from_end=number(ext, "initMode", 0) == 1,
        expression_type=ext.get("expType") or "TAG",
        expression=ext.get("exp") or "*",
        ordered=flag(ext, "order"),
        attempt=attempt,
    )


def refusal_of_numbers(pop: PopRequest) -> str | None:
    """Why these numbers cannot be served (code 29), None when they can."""
    if pop.messages > MESSAGES_MAX:
        return f"pop message's num is greater than {MESSAGES_MAX}"
    if not 0 <= pop.invisible_ms <= INVISIBLE_MS_MAX:
        return f"pop message's invisible time is not between 0 and {INVISIBLE_MS_MAX} ms"
    return None


def _name(ext: Mapping[str, str], key: str) -> str:
    value = ext.get(key) or ""
    if not value or len(value) > NAME_CHARACTERS_MAX:
        raise BadField(f"the custom field <{key}> is null, or too long")
    return value
