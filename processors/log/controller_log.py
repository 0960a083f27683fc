"""A controller's two topics: catching up, following, appending, publishing, watching.

Responsible for: the threads and clients behind that, the hand-over from bulk reading (`log.start`)
to Faust, and snapshots (design D4); `log.watch` stops a controller which no longer follows (S11).
Refuses to know: what is decided. Records go to `on_record`, doubts to `on_halt`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from events.outcomes import Outcome
from events.producer import LogProducer
from events.topics import COMMANDS_TOPIC
from processors.fold.folder import Folder
from processors.fold.state_digest import has_state_digest
from processors.log.faust_worker import FaustWorker
from processors.log.outcomes import OutcomePublisher, OutcomeRefold
from processors.log.reader import (
    GroupInUse,
    LogBroken,
    LogReader,
    LogUnreachable,
    check_first_record,
)
from processors.log.snapshots import SnapshotFolder
from processors.log.start import StartFold, patiently
from processors.log.start_notes import StartNotes
from processors.log.topics import TopicIdentity
from processors.log.watch import LogWatch
from processors.settings.config import ControllerConfig

_log = logging.getLogger("regent.controller.log")
Answer = TypeVar("Answer")

STALL_MS = 2_000
"""Commands not sent after this time are dropped: their waiters have got "unknown".
"""
IN_COMPANY: Mapping[str, Any] = {"max.in.flight.requests.per.connection": 1}
"""What comes while the log is writing goes together in the next request: alone a command does not
wait, many cost little.
"""
SNAPSHOT_REST = 20.0
"""Pause between two snapshots, as a multiple of how long the last one took."""
ADDRESS_CHARS_MAX = 255
PEERS_HTTP_EVERY_S = 10.0
"""An address that keeps changing is somebody's bad joke; each change is a file written and synced
in the loop.
"""


async def all_ready(*starting: Awaitable[None]) -> None:
    """Kafka may go away in the middle of a start. Raises LogUnreachable."""
    try:
        await asyncio.gather(*starting)
    except KafkaException as error:
        raise LogUnreachable(
            f"Kafka went away while this controller started: {error.args[0].str()}"
        ) from None


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
        self.snapshots = SnapshotFolder(config.data_dir / "snapshots", config.snapshots_kept)
        self._notes = StartNotes(config.data_dir)
        # One thread: a LogReader serves one question at a time.
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="log questions")
        self._refolding = ThreadPoolExecutor(1, thread_name_prefix="outcomes again")
        self._refold = OutcomeRefold(lambda: LogReader(config.kafka), self.snapshots)
        self._last_asked: concurrent.futures.Future[int] | None = None
        self._reader: LogReader | None = None
        self._folder: Folder | None = None
        self._producer: LogProducer | None = None
        self._publisher: OutcomePublisher | None = None
        self._worker: FaustWorker | None = None
        self._watch: LogWatch | None = None
        self._peers_http = self._notes.peers_http()
        self._peers_http_due: dict[str, float] = {}
        self._topic_id: str | None = None
        self._newest: tuple[int, bytes] | None = None
        self._snapshot_offset = -1
        self._snapshot_not_before = 0.0
        self._snapshotting: set[asyncio.Task[None]] = set()
        self._closing = False
        self.caught_up_offset = -1

    @property
    def has_history(self) -> bool:
        """Whether a log was followed here before: then a missing topic is a loss, not a first
        start.
        """
        return self._notes.log_id() is not None or self.snapshots.newest_offset() >= 0

    def heard_peer(self, told: Mapping[str, str]) -> None:
        """Keep where another controller gives out snapshots: at the next start it is asked before
        it is heard.
        """
        peer, address = told.get("controllerId", ""), told.get("httpAddress", "")
        if not address or peer not in self._config.peers or self._peers_http.get(peer) == address:
            return
        if len(address) > ADDRESS_CHARS_MAX or time.monotonic() < self._peers_http_due.get(
            peer, 0.0
        ):
            return
        self._peers_http_due[peer] = time.monotonic() + PEERS_HTTP_EVERY_S
        self._peers_http[peer] = address
        self._notes.keep_peers_http(self._peers_http)

    # -- start -------------------------------------------------------------------------------------

    async def catch_up(self) -> tuple[Folder, list[Outcome]]:
        """The folder at the end of the log, and the outcomes it applied beyond the newest
        published one.

        Raises LogBroken, LogUnreachable.
        """
        return await self._in_thread(self._catch_up)

    def _catch_up(self) -> tuple[Folder, list[Outcome]]:
        self._reader = LogReader(self._config.kafka)
        start = StartFold(
            self._config,
            self._reader,
            self.snapshots,
            self._notes,
            on_progress=self._caught_up,
            cancelled=lambda: self._closing,
        )
        self._topic_id = TopicIdentity(self._config.kafka).ask(COMMANDS_TOPIC) or None
        folder, unpublished = start.run()
        self._snapshot_offset = self.snapshots.newest_offset()
        return folder, unpublished

    def _caught_up(self, offset: int) -> None:
        self.caught_up_offset = offset

    async def follow(self, folder: Folder, on_published: Callable[[int, bool], None]) -> None:
        """Hand over to Faust at the folder's next offset, and make the producers ready."""
        self._folder = folder
        loop = asyncio.get_running_loop()
        kafka = self._config.kafka
        group = self._notes.next_group(
            f"regent-{self._config.cluster_id}-{self._config.controller_id}"
        )
        reader = self._reader
        assert reader is not None
        try:
            await self._in_thread(
                lambda: patiently(
                    lambda: reader.commit_start(group, COMMANDS_TOPIC, folder.next_offset),
                    self._config.kafka_wait_ms / 1000,
                    lambda: self._closing,
                )
            )
        except GroupInUse as error:
            raise LogBroken(
                f"{error}: another process runs as controller {self._config.controller_id}; every "
                "controller needs a controller_id of its own"
            ) from None
        self._producer = LogProducer(
            {**IN_COMPANY, **kafka}, COMMANDS_TOPIC, loop, stall_ms=STALL_MS, on_fatal=self._on_halt
        )
        self._publisher = OutcomePublisher(kafka, loop, on_published)
        self._worker = FaustWorker(
            group,
            kafka,
            self._config.data_dir / "faust",
            next_offset=lambda: folder.next_offset,
            on_record=self._take,
            on_failure=self._on_halt,
        )
        await all_ready(self._producer.warm_up(), self._publisher.warm_up(), self._worker.start())
        self._watch = LogWatch(
            kafka,
            self._worker,
            topic_id=self._topic_id,
            watchdog_s=self._config.watchdog_ms / 1000,
            next_offset=lambda: folder.next_offset,
            newest=lambda: self._newest,
            on_halt=self._on_halt,
        )
        self._watch.start()

    def _take(self, offset: int, data: bytes) -> None:
        if offset == 0:
            self._notes.keep_log_id(check_first_record(data, self._config.cluster_id, None))
        self._on_record(offset, data)
        self._newest = (offset, data)
        if (
            has_state_digest(offset)
            and offset - self._snapshot_offset >= self._config.snapshot_every_offsets
        ):
            self._snapshot_soon(offset)

    def _snapshot_soon(self, offset: int) -> None:
        """A snapshot now, unless one is being written or the last one cost more than a small part
        of the time since.
        """
        if self._snapshotting or time.monotonic() < self._snapshot_not_before:
            return
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
        begun = time.monotonic()
        try:
            await asyncio.to_thread(self.snapshots.write, still)
        except OSError as error:
            _log.warning("no snapshot at offset %d: %s", still.offset, error)
        self._snapshot_not_before = time.monotonic() + SNAPSHOT_REST * (time.monotonic() - begun)

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
        if self._publisher is not None:
            self._publisher.begin_again()
        if self._last_asked is not None and not self._last_asked.done():
            asyncio.get_running_loop().call_soon(answer, None)
            return
        # Beside the questions of `_asking`: outcomes that cannot be read keep no decision waiting.
        self._last_asked = self._refolding.submit(self._refold.last_published)
        self._then(self._last_asked, answer)

    def fold_again(
        self, first: int, end: int, answer: Callable[[list[Outcome] | None], None]
    ) -> None:
        """The outcomes of the commands from `first` up to `end` (excluded); None when they could
        not be read.
        """
        self._then(self._refolding.submit(self._refold.outcomes, first, end), answer)

    def _ask(
        self, question: Callable[[LogReader], int], answer: Callable[[int | None], None]
    ) -> None:
        reader = self._reader
        assert reader is not None
        self._then(self._asking.submit(question, reader), answer)

    def _then(
        self, asked: concurrent.futures.Future[Answer], answer: Callable[[Answer | None], None]
    ) -> None:
        def done(future: asyncio.Future[Answer]) -> None:
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

        asyncio.wrap_future(asked).add_done_callback(done)

    def _in_thread(self, work: Callable):  # type: ignore[no-untyped-def, type-arg]
        return asyncio.get_running_loop().run_in_executor(self._asking, work)

    async def close(self, *, snapshot: bool) -> None:
        """Stop all clients; `snapshot` writes a last one, where it can be proven, and how far this
        controller was.
        """
        self._closing = True
        if self._watch is not None:
            await self._watch.close()
        if self._worker is not None:
            await self._worker.stop()
        for client in (self._producer, self._publisher):
            if client is not None:
                await client.close()
        await asyncio.gather(*self._snapshotting, return_exceptions=True)
        if snapshot and self._folder is not None:
            self._notes.keep_applied_offset(self._folder.offset)
            if has_state_digest(self._folder.offset):
                await self._snapshot()
        if self._reader is not None:
            await self._in_thread(self._reader.close)
        self._refolding.submit(self._refold.close)
        for executor in (self._asking, self._refolding):
            executor.shutdown(wait=False)
