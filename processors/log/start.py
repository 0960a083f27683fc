"""The fold at the start of a controller: newest snapshot, then the rest of the log in bulk (design
D4, S11).

Responsible for: whether this is the log it was, which snapshot to begin with (own, or a peer's),
proving it by the published digest, and telling how far it is. Blocking; belongs into a thread.
Refuses to know: how a snapshot looks and how the log is followed afterwards.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from events.outcomes import BACKLOG_MAX, Outcome
from events.topics import COMMANDS_TOPIC
from processors.fold import snapshot_codec
from processors.fold.folder import Folder, ReleaseTooOld
from processors.fold.state_digest import has_state_digest, newest_state_digest
from processors.log import snapshots as snapshot_fetch
from processors.log.landed_tables import LandedTables, shorter_than_tables
from processors.log.outcomes import last_published, published_outcome
from processors.log.reader import (
    LogBroken,
    LogReader,
    LogUnreachable,
    check_bounds,
    check_first_record,
)
from processors.log.snapshot_proof import doubt
from processors.log.snapshots import SnapshotFolder
from processors.log.start_notes import StartNotes
from processors.settings.config import ControllerConfig

RECORDS_TOGETHER = 512


class BulkFold:
    """Takes records in order, up to `end` (excluded); of those beyond `published` it keeps the
    first outcomes.

    `on_difference` gets each offset whose issuer had named another digest. Raises as `Folder.apply`
    does.
    """

    def __init__(
        self,
        folder: Folder,
        end: int,
        published: int,
        outcomes_max: int,
        on_difference: Callable[[int], None],
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._folder = folder
        self._end = end
        self._published = published
        self._outcomes_max = outcomes_max
        self._on_difference = on_difference
        self._waiting: list[bytes] = []

    def take(self, offset: int, data: bytes) -> bool:
        """Take the next record; True when it, and all before it, have been applied."""
        if offset > self._published and len(self.outcomes) < self._outcomes_max:
            self.flush()
            applied = self._folder.apply(offset, data)
            self.outcomes.append(applied.outcome)
            if applied.digest_agrees is False:
                self._on_difference(offset)
            return True
        self._waiting.append(data)
        # What comes next may want a snapshot of this very state, which can be proven here.
        is_full = len(self._waiting) >= RECORDS_TOGETHER or has_state_digest(offset)
        if not is_full and offset + 1 < self._end:
            return False
        self.flush()
        return True

    def flush(self) -> None:
        """Apply what was taken and waits."""
        waiting, self._waiting = self._waiting, []
        for offset in self._folder.apply_many(self._folder.next_offset, waiting):
            self._on_difference(offset)


_log = logging.getLogger("regent.controller.start")
Answer = TypeVar("Answer")

ASK_AGAIN_S = 0.5
BEHIND_WAIT_S = 5.0
"""A new leader of the topic may not know the end yet; a log that was cut stays short."""
PROGRESS_EVERY_S = 2.0
SNAPSHOT_WHILE_FOLDING_S = 30.0


class StartFold:
    """One start. `on_progress` gets the last offset that was applied, now and then."""

    def __init__(
        self,
        config: ControllerConfig,
        reader: LogReader,
        snapshots: SnapshotFolder,
        notes: StartNotes,
        *,
        on_progress: Callable[[int], None],
        cancelled: Callable[[], bool],
    ) -> None:
        self._config = config
        self._reader = reader
        self._snapshots = snapshots
        self._notes = notes
        self._on_progress = on_progress
        self._cancelled = cancelled

    def run(self) -> tuple[Folder, list[Outcome]]:
        """The folder at the end of the log, and the first outcomes it applied beyond the newest
        published one.

        Raises LogBroken, LogUnreachable.
        """
        landed = LandedTables(self._config.tables, self._config.cluster_id)
        try:
            published = self._patiently(lambda: last_published(self._reader))
            end = self._end_of_whole_log(published)
            folder = self._begin(published)
            unpublished = self._fold(folder, end, published)
            self._require_landed(landed.offset(), end)
            return folder, unpublished
        finally:
            landed.close()

    def _require_landed(self, landed: int, end: int) -> None:
        """Asked last, so that nobody waits for it longer than needed. Raises LogBroken when more
        has landed than the log holds.
        """
        deadline = time.monotonic() + BEHIND_WAIT_S
        while landed >= end and time.monotonic() < deadline and not self._cancelled():
            time.sleep(ASK_AGAIN_S)
            end = self._patiently(lambda: self._reader.bounds(COMMANDS_TOPIC))[1]
        if landed >= end:
            raise LogBroken(shorter_than_tables(end, landed, self._config.tables))

    def _end_of_whole_log(self, published: int) -> int:
        known_id = self._notes.log_id()
        needed = (
            max(
                published,
                self._snapshots.newest_offset(),
                self._notes.applied_offset(),
                0 if known_id else -1,
            )
            + 1
        )
        deadline = time.monotonic() + BEHIND_WAIT_S
        while True:
            first, end = self._patiently(lambda: self._reader.bounds(COMMANDS_TOPIC))
            if end >= needed or time.monotonic() > deadline or self._cancelled():
                break
            time.sleep(ASK_AGAIN_S)
        check_bounds(first, end, needed)
        if end > 0:
            record = self._patiently(lambda: self._reader.record(COMMANDS_TOPIC, 0))
            self._notes.keep_log_id(check_first_record(record, self._config.cluster_id, known_id))
        return end

    # -- where to begin ----------------------------------------------------------------------------

    def _begin(self, published: int) -> Folder:
        """The newest snapshot that is proven, of this controller or, if that saves much, of another
        one.
        """
        own = next(
            (one for one in self._snapshots.newest_first(published) if self._proven(one, "own")),
            None,
        )
        begin = own or Folder()
        if published - begin.offset > self._config.snapshot_fetch_gap:
            begin = self._fetched(published, begin)
        if begin.offset < 0 <= published:
            _log.info("no snapshot can be used: the whole log is folded, %d records", published + 1)
        return begin

    def _fetched(self, published: int, own: Folder) -> Folder:
        for peer, address in {**self._notes.peers_http(), **self._config.peers_http}.items():
            begun = time.monotonic()
            try:
                data = snapshot_fetch.fetch(address, published, cancelled=self._cancelled)
                folder = snapshot_codec.load(data)
            except (snapshot_fetch.FetchFailed, snapshot_codec.SnapshotError, ValueError) as error:
                _log.info("no snapshot from %s: %s", peer, error)
                continue
            if own.offset < folder.offset <= published and self._proven(folder, f"{peer}'s"):
                _log.info(
                    "snapshot at offset %d fetched from %s: %d bytes in %.1f s",
                    folder.offset,
                    peer,
                    len(data),
                    time.monotonic() - begun,
                )
                self._snapshots.write(folder)
                return folder
        return own

    def _proven(self, folder: Folder, whose: str) -> bool:
        """Compare with what was published for that offset, history and state: an own file is
        believed as little as a peer's.
        """
        name = f"{whose} snapshot at offset {folder.offset}"
        if folder.state.is_formed and folder.state.cluster_id != self._config.cluster_id:
            _log.warning("%s is not used: it is of the cluster %r", name, folder.state.cluster_id)
            return False
        why = doubt(folder, self._patiently(lambda: published_outcome(self._reader, folder.offset)))
        if why is not None:
            _log.warning("%s is not used: %s", name, why)
        return why is None

    # -- the rest ----------------------------------------------------------------------------------

    def _fold(self, folder: Folder, end: int, published: int) -> list[Outcome]:
        start, begun = folder.next_offset, time.monotonic()
        long = end - start >= self._config.snapshot_every_offsets
        last_provable = newest_state_digest(min(end, published + 1))
        shown = kept = begun
        bulk = BulkFold(
            folder,
            end,
            published,
            BACKLOG_MAX,
            lambda at: self._disagreed(at, from_snapshot=start > 0),
        )

        def take(offset: int, data: bytes) -> None:
            nonlocal shown, kept
            if self._cancelled():
                # A long history must not hold up a stop.
                raise LogUnreachable("this start is given up")
            if not bulk.take(offset, data):
                return
            self._on_progress(offset)
            now = time.monotonic()
            if now - shown > PROGRESS_EVERY_S:
                shown = now
                _log.info(
                    "folding: %s", progress_text(offset + 1 - start, end - start, now - begun)
                )
            due = now - kept > SNAPSHOT_WHILE_FOLDING_S or (long and offset == last_provable)
            if due and offset <= published and has_state_digest(offset):
                kept = now
                self._snapshots.write(folder)

        try:
            while folder.next_offset < end:
                at = folder.next_offset
                try:
                    self._reader.read(COMMANDS_TOPIC, at, end, take)
                except LogUnreachable:
                    if self._cancelled():
                        raise
                    bulk.flush()
                    if folder.next_offset == at:
                        raise
        except ReleaseTooOld as error:
            raise LogBroken(
                f"offset {folder.next_offset}: {error}; start a newer release"
            ) from None
        if end > start:
            _log.info(
                "folded %s", progress_text(end - start, end - start, time.monotonic() - begun)
            )
        return bulk.outcomes

    def _disagreed(self, offset: int, *, from_snapshot: bool) -> None:
        """The issuer of this command had folded another history (D7). Folded from record 0 on, ours
        is what the log says: a controller that was wrong once must not keep all others from
        starting for ever.
        """
        what = f"the command at offset {offset} names another digest than the one folded here"
        if from_snapshot:
            folder = self._config.data_dir / "snapshots"
            raise LogBroken(f"{what}: move {folder} away, so that the whole log is folded again")
        _log.error("%s from the whole log: its issuer was wrong; run `regent verify`", what)

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        return patiently(ask, self._config.kafka_wait_ms / 1000, self._cancelled)


def patiently(ask: Callable[[], Answer], wait_s: float, cancelled: Callable[[], bool]) -> Answer:
    """Ask until there is an answer. Raises LogUnreachable after `wait_s`, or when it is
    `cancelled`.
    """
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return ask()
        except LogUnreachable:
            if time.monotonic() > deadline or cancelled():
                raise
        time.sleep(ASK_AGAIN_S)


def progress_text(done: int, total: int, seconds: float) -> str:
    """`1200 of 5000 records, 38000/s, 3 s left`."""
    rate = done / seconds if seconds > 0 else 0.0
    left = (
        (f", {(total - done) / rate:.0f} s left")
        if done < total and rate > 0
        else f" in {seconds:.1f} s"
    )
    return f"{done} of {total} records, {rate:.0f}/s{left}"
