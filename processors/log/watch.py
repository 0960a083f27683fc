"""Watching the log while Faust follows it: is it still the same log, and does it arrive?

Responsible for: a look every half second with a reader of its own (the barriers of requests never
wait for it), and reading directly what Faust is late with; both hand records to the same guard,
which drops repeats.
Refuses to know: what a look means (`log.health`) and what a record means.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from events.topics import COMMANDS_TOPIC
from processors.log.health import LogHealth, Look
from processors.log.reader import LogBroken, LogReader, LogUnreachable
from processors.log.topics import TopicIdentity

_log = logging.getLogger("regent.controller.watch")

LOOK_EVERY_S = 0.5
HELP_AGAIN_S = 0.05
"""While Faust is late, decisions wait for the next look."""
IDENTITY_EVERY_LOOKS = 2
HELP_RECORDS_MAX = 5_000
HELP_CHUNK = 200
"""Records applied before the loop may do something else."""
SILENCE_MAX_S = 2.0

Newest = tuple[int, bytes] | None
"""Offset and bytes of the record that was applied last."""


class Follower(Protocol):
    """The stream processor, as the watch sees it."""

    position: int
    delivered: int

    @property
    def crash(self) -> str | None: ...

    def take(self, offset: int, data: bytes | None) -> None: ...


class LogWatch:
    """One task in the loop. `next_offset` and `newest` tell how far the fold is."""

    def __init__(
        self,
        kafka: Mapping[str, str],
        follower: Follower,
        *,
        topic_id: str | None,
        watchdog_s: float,
        next_offset: Callable[[], int],
        newest: Callable[[], Newest],
        on_halt: Callable[[str], None],
    ) -> None:
        self._follower = follower
        self._next_offset = next_offset
        self._newest = newest
        self._on_halt = on_halt
        self._health = LogHealth(topic_id, watchdog_s, time.monotonic())
        # A look may wait for Kafka; a thread of its own, so that nobody waits for the look.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="log watch")
        self._reader = LogReader(kafka)
        self._identity = TopicIdentity(kafka)
        self._task: asyncio.Task[None] | None = None
        self._looks = 0
        self.helped = 0
        """Records that were read directly because Faust was late."""

    def start(self) -> None:
        self._task = asyncio.ensure_future(self._run())
        self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._in_thread(self._reader.close)
        self._thread.shutdown(wait=False)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_halt(f"nobody watches the log any more: {error!r}")

    def _in_thread(self, work: Callable):  # type: ignore[no-untyped-def, type-arg]
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def _run(self) -> None:
        remembered, seen = self._newest(), self._next_offset()
        away = in_a_hurry = False
        while True:
            await asyncio.sleep(HELP_AGAIN_S if in_a_hurry else LOOK_EVERY_S)
            if self._follower.crash is not None:
                self._on_halt(f"the Faust app has crashed: {self._follower.crash}")
                return
            try:
                look = await self._look(remembered, in_a_hurry=in_a_hurry)
                reason = self._health.judge(look, time.monotonic())
                if reason is not None:
                    self._on_halt(reason)
                    return
                in_a_hurry = look.end > self._next_offset() == seen
                if in_a_hurry and (reason := await self._help(look.end)) is not None:
                    self._on_halt(reason)
                    return
                away = False
            except LogUnreachable as error:
                if not away:
                    _log.info("the log does not answer: %s", error)
                away = True
            except LogBroken as error:
                # Faust, or the looks that follow, stop this controller if it stays so.
                _log.warning("%s", error)
            remembered, seen = self._newest(), self._next_offset()

    async def _look(self, remembered: Newest, *, in_a_hurry: bool) -> Look:
        self._looks += 1
        ask_identity = not in_a_hurry and self._looks % IDENTITY_EVERY_LOOKS == 0
        follower = self._follower
        applied, position, delivered = self._next_offset(), follower.position, follower.delivered

        def ask() -> Look:
            topic_id = self._identity.ask(COMMANDS_TOPIC) if ask_identity else None
            if topic_id == "":
                return Look(0, applied, applied, applied, delivered, topic_id)
            first, end = self._reader.bounds(COMMANDS_TOPIC)
            same = self._still_there(remembered, first, end)
            return Look(first, end, applied, position, delivered, topic_id, same)

        look: Look = await self._in_thread(ask)
        return look

    def _still_there(self, remembered: Newest, first: int, end: int) -> bool | None:
        if remembered is None or not first <= remembered[0] < end:
            return None
        try:
            return (
                self._reader.record(COMMANDS_TOPIC, remembered[0], SILENCE_MAX_S) == remembered[1]
            )
        except LogBroken:
            # Out of range although it lay within the bounds: the next look shows whether it stays
            # so.
            return False

    async def _help(self, end: int) -> str | None:
        """Read what Faust has not handed over since the look before; why this controller must stop
        when it cannot be read.
        """
        start = self._next_offset()
        found: list[tuple[int, bytes]] = []
        stop = min(end, start + HELP_RECORDS_MAX)
        broken = None
        try:
            await self._in_thread(
                lambda: self._reader.read(
                    COMMANDS_TOPIC,
                    start,
                    stop,
                    lambda offset, data: found.append((offset, data)),
                    SILENCE_MAX_S,
                )
            )
        except LogBroken as error:
            broken = str(error)
        await self._hand_over(found)
        # Records in front of the hole are progress: only a read that gives none of them is odd.
        return self._health.judge_read(None if found else broken, time.monotonic())

    async def _hand_over(self, found: list[tuple[int, bytes]]) -> None:
        helped: list[int] = []
        for number, (offset, data) in enumerate(found, 1):
            if offset >= self._next_offset():
                self._follower.take(offset, data)
                helped.append(offset)
            if number % HELP_CHUNK == 0:
                await asyncio.sleep(0)
        if helped:
            self.helped += len(helped)
            # It may still be starting.
            level = logging.WARNING if self._follower.delivered else logging.INFO
            _log.log(
                level, "Faust is late: offsets %d to %d were read directly", helped[0], helped[-1]
            )
