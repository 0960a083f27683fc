"""
A controller's two topics: catching up, following, appending, publishing, watching.

Responsible for: the threads and clients behind that, the hand-over from bulk reading to Faust, snapshots,
and the watchdog that stops a controller which no longer follows (design D4, S11).
Refuses to know: what is decided. Records go to `on_record`, doubts to `on_halt`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from events.outcomes import Outcome
from events.producer import LogProducer
from events.topics import COMMANDS_TOPIC
from processors.config import ControllerConfig
from processors.faust_worker import FaustWorker
from processors.fold import Folder, ReleaseTooOld
from processors.log_reader import (
    LogBroken,
    LogReader,
    LogUnreachable,
    check_bounds,
    check_first_record,
)
from processors.outcome_publisher import OutcomePublisher, last_published
from processors.snapshots import SnapshotFolder
from processors.start_notes import StartNotes

_log = logging.getLogger(__name__)

STALL_MS = 2_000
"""Commands not sent after this time are dropped: whoever waited has been told that it is unknown."""
WATCH_S = 1.0
REGRESSIONS_MAX = 5
"""After a change of Kafka's leader its end offset may stand behind for a moment; a log made anew stays behind."""
ASK_AGAIN_S = 0.5
PROGRESS_EVERY_S = 2.0


class ControllerLog:
    """All Kafka clients of one controller. Methods belong to the loop's thread."""

    def __init__(
        self,
        config: ControllerConfig,
        *,
        on_record: Callable[[int, bytes], None],
        on_halt: Callable[[str], None],
    ) -> None:
        self._config = config
        self._on_record = on_record
        self._on_halt = on_halt
        self._snapshots = SnapshotFolder(config.data_dir / "snapshots", config.snapshots_kept)
        self._notes = StartNotes(config.data_dir)
        # One thread: a LogReader serves one question at a time.
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="log questions")
        self._reader: LogReader | None = None
        self._folder: Folder | None = None
        self._producer: LogProducer | None = None
        self._publisher: OutcomePublisher | None = None
        self._worker: FaustWorker | None = None
        self._watch: asyncio.Task[None] | None = None
        self._snapshot_offset = -1
        self._snapshotting: set[asyncio.Task[None]] = set()
        self._closing = False
        self.caught_up_offset = -1

    # -- start -------------------------------------------------------------------------------------

    async def catch_up(self) -> tuple[Folder, list[Outcome]]:
        """
        The folder at the end of the log, and the outcomes it applied beyond the newest published one.

        Raises LogBroken, LogUnreachable.
        """
        return await self._in_thread(self._catch_up)

    def _catch_up(self) -> tuple[Folder, list[Outcome]]:
        reader = self._reader = LogReader(self._config.kafka)
        published = self._patiently(lambda: last_published(reader))
        first, end = self._patiently(lambda: reader.bounds(COMMANDS_TOPIC))
        known_id = self._notes.log_id()
        folder = self._snapshots.newest(not_above=published)
        check_bounds(first, end, max(folder.next_offset, published + 1, 1 if known_id else 0))
        if end > 0:
            found = check_first_record(
                reader.record(COMMANDS_TOPIC, 0), self._config.cluster_id, known_id
            )
            self._notes.keep_log_id(found)
        unpublished: list[Outcome] = []
        begun = shown = time.monotonic()
        start = folder.next_offset

        def take(offset: int, data: bytes) -> None:
            nonlocal shown
            try:
                applied = folder.apply(offset, data)
            except ReleaseTooOld as error:
                raise LogBroken(f"offset {offset}: {error}; start a newer release") from None
            if applied.digest_agrees is False:
                self._disagreed(offset, from_snapshot=start > 0)
            self.caught_up_offset = offset
            if offset > published:
                unpublished.append(applied.outcome)
            if time.monotonic() - shown > PROGRESS_EVERY_S:
                shown = time.monotonic()
                _log.info("folding: %d of %d records", offset + 1, end)

        reader.read(COMMANDS_TOPIC, start, end, take)
        if end > start:
            _log.info(
                "folded offsets %d to %d in %.1f s", start, end - 1, time.monotonic() - begun
            )
        self._snapshot_offset = folder.offset
        return folder, unpublished

    def _disagreed(self, offset: int, *, from_snapshot: bool) -> None:
        """The issuer of this command had folded another history (D7). Folded from record 0 on, ours is what the log
        says: a controller that was wrong once must not keep all others from starting for ever."""
        what = f"the command at offset {offset} names another digest than the one folded here"
        if from_snapshot:
            raise LogBroken(f"{what}: move {self._config.data_dir / 'snapshots'} away, so that the whole log is folded again")
        _log.error("%s from the whole log: its issuer was wrong; run `regent verify`", what)

    def _patiently(self, ask: Callable):  # type: ignore[no-untyped-def, type-arg]
        deadline = time.monotonic() + self._config.kafka_wait_ms / 1000
        while True:
            try:
                return ask()
            except LogUnreachable:
                if time.monotonic() > deadline or self._closing:
                    raise
            time.sleep(ASK_AGAIN_S)

    async def follow(self, folder: Folder, on_published: Callable[[int, bool], None]) -> None:
        """Hand over to Faust at the folder's next offset, and make the producers ready."""
        self._folder = folder
        loop = asyncio.get_running_loop()
        kafka = self._config.kafka
        group = self._notes.next_group(f"regent-{self._config.cluster_id}-{self._config.controller_id}")
        reader = self._reader
        assert reader is not None
        await self._in_thread(
            lambda: self._patiently(
                lambda: reader.commit_start(group, COMMANDS_TOPIC, folder.next_offset)
            )
        )
        self._producer = LogProducer(
            kafka, COMMANDS_TOPIC, loop, stall_ms=STALL_MS, on_fatal=self._on_halt
        )
        self._publisher = OutcomePublisher(kafka, loop, on_published, self._on_halt)
        self._worker = FaustWorker(
            group,
            kafka,
            self._config.data_dir / "faust",
            next_offset=lambda: folder.next_offset,
            on_record=self._take,
            on_failure=self._on_halt,
        )
        await asyncio.gather(
            self._producer.warm_up(), self._publisher.warm_up(), self._worker.start()
        )
        self._watch = asyncio.ensure_future(self._watchdog())
        self._watch.add_done_callback(self._watch_ended)

    def _take(self, offset: int, data: bytes) -> None:
        self._on_record(offset, data)
        if offset == 0:
            self._notes.keep_log_id(check_first_record(data, self._config.cluster_id, None))
        if offset - self._snapshot_offset >= self._config.snapshot_every_offsets:
            self._snapshot_offset = offset
            task = asyncio.ensure_future(self._snapshot())
            self._snapshotting.add(task)
            task.add_done_callback(self._snapshotting.discard)

    async def _snapshot(self) -> None:
        """Write the state of this moment, without holding up the loop."""
        folder = self._folder
        if folder is None or folder.offset < 0:
            return
        # State is immutable; only the window of recent ids has to be copied, with where it begins.
        still = Folder(folder.state, folder.offset, folder.digest, folder.recent.copy())
        try:
            await asyncio.to_thread(self._snapshots.write, still)
        except OSError as error:
            _log.warning("no snapshot at offset %d: %s", still.offset, error)

    # -- appending and asking ----------------------------------------------------------------------

    def append(self, data: bytes, report: Callable[[int | None], None]) -> None:
        """Append a command; `report` gets its offset, or None for unknown."""
        assert self._producer is not None
        self._producer.append(data, report)

    def publish(self, outcome: Outcome) -> None:
        assert self._publisher is not None
        self._publisher.publish(outcome)

    def ask_end(self, answer: Callable[[int | None], None]) -> None:
        """The offset the next command will get; None when it could not be learnt."""
        self._ask(lambda reader: reader.bounds(COMMANDS_TOPIC)[1], answer)

    def ask_last_published(self, answer: Callable[[int | None], None]) -> None:
        """The command offset of the newest published outcome, -1 for none; None when not learnt."""
        self._ask(last_published, answer)

    def _ask(
        self, question: Callable[[LogReader], int], answer: Callable[[int | None], None]
    ) -> None:
        reader = self._reader
        assert reader is not None

        def done(future: asyncio.Future[int]) -> None:
            if future.cancelled():
                return
            error = future.exception()
            if error is None:
                answer(future.result())
            elif isinstance(error, LogUnreachable):
                _log.info("the log did not answer: %s", error)
                answer(None)
            else:
                self._on_halt(str(error))

        self._in_thread(lambda: question(reader)).add_done_callback(done)

    def _in_thread(self, work: Callable):  # type: ignore[no-untyped-def, type-arg]
        return asyncio.get_running_loop().run_in_executor(self._asking, work)

    # -- watching ----------------------------------------------------------------------------------

    async def _watchdog(self) -> None:
        """Stop when the log moves on and the fold does not, or when the log is shorter than the fold."""
        assert self._folder is not None and self._reader is not None
        folder, reader = self._folder, self._reader
        moved = time.monotonic()
        seen, behind = folder.next_offset, 0
        while True:
            await asyncio.sleep(WATCH_S)
            if self._worker is not None and self._worker.crash is not None:
                self._on_halt(f"the Faust app has crashed: {self._worker.crash}")
                return
            try:
                first, end = await self._in_thread(lambda: reader.bounds(COMMANDS_TOPIC))
                behind = behind + 1 if end < seen or first > 0 else 0
                if behind > REGRESSIONS_MAX:
                    check_bounds(first, end, seen)
            except LogUnreachable:
                continue
            except LogBroken as error:
                self._on_halt(str(error))
                return
            now = time.monotonic()
            if folder.next_offset != seen or end <= folder.next_offset:
                seen, moved = folder.next_offset, now
            elif (now - moved) * 1000 > self._config.watchdog_ms:
                self._on_halt(
                    f"the log ends at {end}, but nothing was applied behind offset {folder.offset} for "
                    f"{now - moved:.0f} s: the reader is stuck; starting again helps"
                )
                return

    def _watch_ended(self, watch: asyncio.Task[None]) -> None:
        if not watch.cancelled() and (error := watch.exception()) is not None:
            self._on_halt(f"nobody watches the log any more: {error!r}")

    async def close(self, *, snapshot: bool) -> None:
        """Stop all clients; `snapshot` writes a last one."""
        self._closing = True
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        if self._worker is not None:
            await self._worker.stop()
        for client in (self._producer, self._publisher):
            if client is not None:
                await client.close()
        await asyncio.gather(*self._snapshotting, return_exceptions=True)
        if snapshot:
            await self._snapshot()
        if self._reader is not None:
            await self._in_thread(self._reader.close)
        self._asking.shutdown(wait=False)
