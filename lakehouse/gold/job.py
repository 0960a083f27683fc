"""The gold job: what has landed, folded on from where the last run stopped, and merged by key.

Responsible for the order of things in a run: read, fold, merge every table, and only then say how
far gold is. Whatever ends a run, the next one begins at the last progress and merges the same rows
again, because rows are functions of history. Refuses to know how rows are made (`gold.rows`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.gold import progress as gold_progress
from lakehouse.gold import source
from lakehouse.gold.failovers import Events
from lakehouse.gold.fold import GoldFold, SetChange
from lakehouse.gold.merge import Merge, merge_rows
from lakehouse.gold.progress import GOLD_PROGRESS, NOTHING_TAKEN, Mark, Progress
from lakehouse.gold.rows import OUTAGE_TABLES, Carry, gold_rows
from lakehouse.gold.spans import Row
from lakehouse.gold.specs import GOLD_BY_NAME, GOLD_TABLES
from lakehouse.tables import left_states
from lakehouse.tables.commit_lock import CommitLocks
from lakehouse.tables.delta import ensure_tables
from lakehouse.tables.lake import Lake
from lakehouse.tables.left_states import LEFT_STATES
from processors.fold import snapshot_codec

log = logging.getLogger("regent.lake.gold")

PIECE_COMMANDS_MAX = 20_000
BEGINNING = Mark(-1, 0, 0, NOTHING_TAKEN)
"""Where a cluster stands of which nothing has landed; no progress is kept of that."""
WRITTEN = (*GOLD_TABLES, GOLD_PROGRESS, LEFT_STATES)
"""What a gold job commits to; if Spark merges, its Java process must inherit the open files of
these tables' locks.
"""


@dataclass(frozen=True, slots=True)
class Step:
    """What one run did."""

    commands: int
    """Commands folded."""
    rows: int
    """Rows merged."""
    mark: Mark
    """Up to where the tables speak now."""


@dataclass(slots=True)
class _Standing:
    """What is known between two runs: what the progress in the lake says, and what saves work."""

    mark: Mark
    fold: GoldFold
    carry: Carry
    tables: dict[str, str]
    events: Mapping[str, Events] | None = None
    nothing_new_in: tuple[int, ...] | None = None
    """Versions of the tables below when they were found to hold nothing more."""
    merged: dict[str, dict[tuple[Any, ...], Row]] = field(default_factory=dict)


class GoldJob:
    """Gold of one cluster.

    Several may run, in one process or many: each run holds the cluster's lock and goes on from what
    the lake says; `locks` are those of the tables. On an object store there is no such lock: let
    only one run there.
    """

    def __init__(
        self,
        lake: Lake,
        locks: CommitLocks,
        merge: Merge = merge_rows,
        states_every: int = left_states.EVERY_COMMANDS,
    ) -> None:
        """Behind every `states_every` commands a state is left for proofs. Raises `LakehouseError`
        when it is not known whose gold it is.
        """
        if lake.cluster_id is None:
            raise LakehouseError(
                f"no cluster has landed in {lake.root} yet: gold is made of what has landed"
            )
        self._lake = lake
        self._locks = locks
        self._merge = merge
        self._states_every = states_every
        self._run = f"gold/run {lake.cluster_id}"
        self._runs = CommitLocks(lake.folder, (self._run,))
        self._at: _Standing | None = None

    def close(self) -> None:
        """Give its lock back; no run may be at work."""
        self._runs.close()

    def forget(self) -> None:
        """Throw away all that was made of the cluster: the next run begins at the beginning."""
        with self._runs.held(self._run):
            ensure_tables(self._lake, WRITTEN)
            self._at = self._begun(gold_progress.table_ids(self._lake, GOLD_TABLES))

    def step(self) -> Step:
        """Take in the next piece; when there is none, that costs a look at what has landed.

        Raises `LakehouseError` when history cannot be folded on, when tables are missing or held by
        others.
        """
        with self._runs.held(self._run):
            at, self._at = self._standing(), None  # An error on the way leaves nothing to believe.
            at, step = self._stepped(at)
            self._at = at
            return step

    def _stepped(self, at: _Standing) -> tuple[_Standing, Step]:
        events = source.BrokerEvents(self._lake)
        versions = source.versions(self._lake, events)
        if at.nothing_new_in == versions:
            return at, Step(0, 0, at.mark)
        decisions = source.Decisions(self._lake)
        agrees, taken = decisions.agrees(at.mark.offset, at.mark.taken)
        if not agrees:
            at, taken = _anew(at), NOTHING_TAKEN
        piece = source.next_piece(self._lake, decisions, at.mark.offset, PIECE_COMMANDS_MAX)
        taken = (taken or NOTHING_TAKEN).plus(piece.taken)
        event_rows = events.count()
        if not piece.records and (event_rows, taken) == (at.mark.event_rows, at.mark.taken):
            at.nothing_new_in = versions
            return at, Step(0, 0, at.mark)
        if at.events is None or event_rows != at.mark.event_rows:
            at.events = events.rows
        fold = at.fold.ahead()
        changes, passed = self._folded(fold, piece)
        self._require_own(changes)
        rows, carry = gold_rows(changes, at.events, fold.at_ms, at.carry)
        merged = sum(self._put(at, name, found) for name, found in rows.items())
        progress = Progress(
            offset=fold.folder.offset,
            at_ms=fold.at_ms,
            event_rows=event_rows,
            taken=taken,
            builders=gold_progress.BUILDERS_VERSION,
            tables=at.tables,
            snapshot=snapshot_codec.dump(fold.folder),
            carry=gold_progress.dump(carry),
        )
        self._leave(passed)
        with self._locks.held(GOLD_PROGRESS.name):
            gold_progress.write_progress(self._lake, progress)
        after = replace(at, mark=progress.mark(), fold=fold, carry=carry)
        return after, Step(len(piece.records), merged, after.mark)

    def _folded(
        self, fold: GoldFold, piece: source.Piece
    ) -> tuple[list[SetChange], dict[int, bytes]]:
        """What the records did, and the states on the way that are left for proofs, by range."""
        changes: list[SetChange] = []
        passed: dict[int, bytes] = {}
        every, done = self._states_every, 0
        while done < len(piece.records):
            to_boundary = every - fold.folder.next_offset % every
            part = piece.records[done : done + to_boundary]
            changes += fold.changes(part, piece.published)
            done += len(part)
            number, beyond = divmod(fold.folder.next_offset, every)
            if not beyond:
                passed[number - 1] = snapshot_codec.dump(fold.folder)
        return changes, passed

    def _leave(self, passed: Mapping[int, bytes]) -> None:
        """A proof may begin with them, and needs none: gold goes on if they cannot be written."""
        if not passed:
            return
        try:
            with self._locks.held(LEFT_STATES.name):
                left_states.leave(self._lake, self._states_every, passed, datetime.now(UTC))
        except LakehouseError as error:
            log.warning("states for proofs are not left: %s", error)

    def _require_own(self, changes: Sequence[SetChange]) -> None:
        """Rows of another cluster would be found by nobody, and added again by every run."""
        for change in changes:
            if change.cluster_id != self._lake.cluster_id:
                raise LakehouseError(
                    f"command {change.offset} landed as one of cluster {self._lake.cluster_id}, "
                    f"its history is of cluster {change.cluster_id or '(none)'}: gold ends before "
                    "it"
                )

    def _put(self, at: _Standing, name: str, rows: list[Row]) -> int:
        """Merge what differs from what was merged before, as far as that is known; how many rows
        that were.
        """
        table = GOLD_BY_NAME[name]
        if name in OUTAGE_TABLES:
            known = at.merged.setdefault(name, {})
            by_key = {tuple(row[column] for column in table.key): row for row in rows}
            rows = [row for key, row in by_key.items() if known.get(key) != row]
            known.update(by_key)
        if rows:
            with self._locks.held(name):
                self._merge(self._lake, table, rows)
        return len(rows)

    def _standing(self) -> _Standing:
        """Where gold stands by the lake's word; the tables are made if they are missing."""
        known = self._at
        kept = gold_progress.read_mark(self._lake) if known is not None else None
        if known is not None and known.mark == (kept or BEGINNING) and self._ids() == known.tables:
            return known
        ensure_tables(self._lake, WRITTEN)
        tables = gold_progress.table_ids(self._lake, GOLD_TABLES)
        return self._taken_up(tables) or self._begun(tables)

    def _ids(self) -> dict[str, str] | None:
        try:
            return gold_progress.table_ids(self._lake, GOLD_TABLES)
        except NotLanded:
            return None

    def _taken_up(self, tables: dict[str, str]) -> _Standing | None:
        """Where the last run stopped; None when its tables or its words are not ours."""
        kept = gold_progress.read_progress(self._lake)
        if kept is None or kept.tables != tables or kept.builders != gold_progress.BUILDERS_VERSION:
            return None
        try:
            fold = gold_progress.fold_of(kept)
            carry = gold_progress.load(kept.carry)
        except (snapshot_codec.SnapshotError, gold_progress.CarryError) as error:
            log.warning("what the last gold run kept is not used: %s", error)
            return None
        return _Standing(kept.mark(), fold, carry, tables)

    def _begun(self, tables: dict[str, str]) -> _Standing:
        """The beginning: whatever stands there of this cluster goes, what is known of the progress
        first.
        """
        log.info("gold of cluster %s is built from the beginning", self._lake.cluster_id)
        for table in (GOLD_PROGRESS, *GOLD_TABLES):
            with self._locks.held(table.name):
                gold_progress.take_out(self._lake, table)
        return _Standing(BEGINNING, GoldFold(), Carry(), tables)


def _anew(at: _Standing) -> _Standing:
    """From the first command again, over the rows that stand: none has another key, whatever was
    published.

    It is needed when an outcome came after commands behind it had been taken in, and when an older
    release took them in, which did not count the outcomes that it had.
    """
    log.info(
        "gold is folded anew up to command %d: other outcomes of these commands count now",
        at.mark.offset,
    )
    return replace(at, mark=BEGINNING, fold=GoldFold(), carry=Carry(), nothing_new_in=None)
