"""
Outcomes into `regent.outcomes`, and where that topic ends (design D7).

Responsible for: encoding and appending what the core gives, in order, and reading back the newest
published command offset. Refuses to know: when to publish and from where on (`outcome_backlog`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from events.codec import decode, encode
from events.outcomes import Outcome
from events.producer import LogProducer
from events.topics import OUTCOMES_TOPIC
from processors.log_reader import LogReader, newest_published

NEVER_GIVE_UP: Mapping[str, object] = {"delivery.timeout.ms": 0}
"""
An outcome that expired while a later one got through would be a gap for ever: publishing goes on behind the newest
one in the topic. In-flight records are bounded by the backlog, so waiting costs no memory.
"""
_EXPIRY = ("delivery.timeout.ms", "message.timeout.ms")
LOOK_BACK_RECORDS = 100
"""How many unreadable records at the end of the topic are passed over."""


def last_published(reader: LogReader) -> int:
    """
    The command offset of the newest outcome in the topic, -1 when there is none. Blocking.

    A lower offset than the true one would only cause repeats, which readers drop. Raises LogUnreachable.
    """
    first, end = reader.bounds(OUTCOMES_TOPIC)

    def newest_first() -> Iterator[bytes]:
        for offset in range(end - 1, max(first, end - LOOK_BACK_RECORDS) - 1, -1):
            yield reader.record(OUTCOMES_TOPIC, offset)

    return newest_published(newest_first())


def published_digest(reader: LogReader, command_offset: int) -> bytes | None:
    """
    The digest that was published for the command at that offset; None when none is found. Blocking.

    The topic has no holes, so that outcome stands at its own offset or, behind repeats, later. Raises LogUnreachable.
    """
    first, end = reader.bounds(OUTCOMES_TOPIC)
    position = max(command_offset, first)
    while position < end:
        at = newest_published([reader.record(OUTCOMES_TOPIC, position)])
        if at == command_offset:
            outcome = decode(reader.record(OUTCOMES_TOPIC, position))
            return outcome.digest if isinstance(outcome, Outcome) else None
        if at > command_offset:
            return None
        position += 1 if at < 0 else command_offset - at
    return None


class OutcomePublisher:
    """One producer for one topic; `on_result(command_offset, ok)` is called in the loop."""

    def __init__(
        self,
        kafka: Mapping[str, str],
        loop: asyncio.AbstractEventLoop,
        on_result: Callable[[int, bool], None],
        on_fatal: Callable[[str], None],
    ) -> None:
        settings = {name: value for name, value in kafka.items() if name not in _EXPIRY} | dict(NEVER_GIVE_UP)
        self._producer = LogProducer(settings, OUTCOMES_TOPIC, loop, on_fatal=on_fatal)
        self._on_result = on_result

    async def warm_up(self) -> None:
        await self._producer.warm_up()

    def publish(self, outcome: Outcome) -> None:
        """Append one outcome. Raises MalformedRecord, which would be an error of ours."""
        offset = outcome.command_offset
        self._producer.append(
            encode(outcome), lambda position: self._on_result(offset, position is not None)
        )

    async def close(self) -> None:
        await self._producer.close()
