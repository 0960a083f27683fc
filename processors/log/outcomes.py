"""Outcomes into `regent.outcomes`, and where that topic ends (design D7).

Responsible for: encoding and appending what the core gives, in order, and reading back the newest
published command offset. Refuses to know: when to publish and from where on (`outcome_backlog`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from events.codec import decode, encode
from events.outcomes import Outcome
from events.producer import LogProducer
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from processors.fold.folder import Folder
from processors.log.reader import LogReader, newest_published
from processors.log.snapshot_proof import doubt
from processors.log.snapshots import SnapshotFolder

IN_ORDER_OR_NOT_AT_ALL: Mapping[str, object] = {
    ("delivery.timeout.ms"): 0,
    "enable.gapless.guarantee": True,
}
""" A hole would stay for ever: a later controller goes on behind the newest outcome in the topic.
So none expires, and none follows one that failed, whichever process dies next: librdkafka ends a
producer of which a batch failed. In-flight records are bounded by the backlog, so waiting costs no
memory.
"""
_EXPIRY = ("delivery.timeout.ms", "message.timeout.ms")
IN_COMPANY: Mapping[str, Any] = {"linger.ms": 20, "max.in.flight.requests.per.connection": 1}
"""Nobody waits for an outcome, and each that travels alone costs the log's nodes, and this one, as
much as a hundred.
"""
LOOK_BACK_RECORDS = 100
"""How many unreadable records at the end of the topic are passed over."""


def last_published(reader: LogReader) -> int:
    """The command offset of the newest outcome in the topic, -1 when there is none. Blocking.

    A lower offset than the true one would only cause repeats, which readers drop. Raises
    LogUnreachable.
    """
    first, end = reader.bounds(OUTCOMES_TOPIC)

    def newest_first() -> Iterator[bytes]:
        for offset in range(end - 1, max(first, end - LOOK_BACK_RECORDS) - 1, -1):
            yield reader.record(OUTCOMES_TOPIC, offset)

    return newest_published(newest_first())


def published_outcome(reader: LogReader, command_offset: int) -> Outcome | None:
    """What was published for the command at that offset; None when none is found. Blocking.

    The topic has no holes, so that outcome stands at its own offset or, behind repeats, later.
    Raises LogUnreachable.
    """
    first, end = reader.bounds(OUTCOMES_TOPIC)
    position = max(command_offset, first)
    while position < end:
        at = newest_published([reader.record(OUTCOMES_TOPIC, position)])
        if at == command_offset:
            outcome = decode(reader.record(OUTCOMES_TOPIC, position))
            return outcome if isinstance(outcome, Outcome) else None
        if at > command_offset:
            return None
        position += 1 if at < 0 else command_offset - at
    return None


class OutcomePublisher:
    """One topic; `on_result(command_offset, ok)` is called in the loop.

    Invariant: after one that failed nothing is appended until `begin_again`, which comes with a new
    producer: so the topic never holds an outcome behind one that is missing.
    """

    def __init__(
        self,
        kafka: Mapping[str, str],
        loop: asyncio.AbstractEventLoop,
        on_result: Callable[[int, bool], None],
    ) -> None:
        kept = {name: value for name, value in kafka.items() if name not in _EXPIRY}
        self._settings = {**IN_COMPANY, **kept, **IN_ORDER_OR_NOT_AT_ALL}
        self._loop = loop
        self._on_result = on_result
        self._failed = False
        self._closing: set[asyncio.Task[None]] = set()
        self._producer = self._made()

    def _made(self) -> LogProducer:
        return LogProducer(self._settings, OUTCOMES_TOPIC, self._loop)

    async def warm_up(self) -> None:
        await self._producer.warm_up()

    def publish(self, outcome: Outcome) -> None:
        """Append one outcome. Raises MalformedRecord, which would be an error of ours."""
        offset, producer = outcome.command_offset, self._producer
        if self._failed:
            self._loop.call_soon(self._on_result, offset, False)
            return
        queued = producer.append(
            encode(outcome), lambda position: self._reported(producer, offset, position is not None)
        )
        self._failed = not queued

    def _reported(self, producer: LogProducer, offset: int, ok: bool) -> None:
        if producer is self._producer:
            self._failed = self._failed or not ok
            self._on_result(offset, ok)

    def begin_again(self) -> None:
        """Publishing starts anew, behind the last outcome in the topic; what is still under way is
        dropped.
        """
        if self._failed:
            self._failed = False
            task = asyncio.ensure_future(self._producer.close(0))
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)
            self._producer = self._made()

    async def close(self) -> None:
        await self._producer.close()
        await asyncio.gather(*self._closing, return_exceptions=True)


class OutcomeRefold:
    """Pieces are asked for one behind the other, so the folder of the last one is kept."""

    def __init__(self, reader: Callable[[], LogReader], snapshots: SnapshotFolder) -> None:
        self._open = reader
        self._snapshots = snapshots
        self._reader: LogReader | None = None
        self._folder: Folder | None = None

    def outcomes(self, first: int, end: int) -> list[Outcome]:
        """The outcomes of the commands from `first` up to `end` (excluded). Raises LogUnreachable,
        LogBroken.
        """
        reader = self._opened()
        if self._folder is None or self._folder.next_offset > first:
            self._folder = next(
                (one for one in self._snapshots.newest_first(first - 1) if self._proven(one)),
                Folder(),
            )
        folder, found = self._folder, []

        def take(offset: int, data: bytes) -> None:
            outcome = folder.apply(offset, data).outcome
            if offset >= first:
                found.append(outcome)

        reader.read(COMMANDS_TOPIC, folder.next_offset, end, take)
        return found

    def _proven(self, folder: Folder) -> bool:
        return doubt(folder, published_outcome(self._opened(), folder.offset)) is None

    def last_published(self) -> int:
        """The command offset of the newest outcome in the topic, -1 when there is none. Raises
        LogUnreachable.
        """
        return last_published(self._opened())

    def _opened(self) -> LogReader:
        if self._reader is None:
            self._reader = self._open()
        return self._reader

    def close(self) -> None:
        """Leave the log."""
        if self._reader is not None:
            self._reader.close()
