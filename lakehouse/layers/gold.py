"""Gold beside history: every row is made again, from the first command up to where gold says that
it speaks, and compared.

In pieces of some thousand commands: a row that is closed is compared with those of the table that
closed in the same piece, open ones at the end, so that it needs no more memory than the gold job.
Responsible for what belongs to which piece. Refuses to know how rows are made (`gold.rows`). What
is no function of history is not compared: alarms, and the windows of `regent lake aggregates`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from events.topics import COMMANDS_TOPIC
from lakehouse.errors import LocksDoNotHold, NotLanded, TablesInUse
from lakehouse.gold import progress as gold_progress
from lakehouse.gold import source
from lakehouse.gold.fold import GoldFold
from lakehouse.gold.progress import GOLD_PROGRESS, Progress
from lakehouse.gold.rows import (
    CHANGE_BUILDERS,
    OUTAGE_TABLES,
    SPAN_BUILDERS,
    Carry,
    decided_rows,
    outage_rows,
)
from lakehouse.gold.specs import BROKER_SETS, GOLD_TABLES, GoldTableSpec
from lakehouse.layers.difference import Compared, differing, same
from lakehouse.proof.finding import Finding
from lakehouse.tables.commit_lock import CommitLocks
from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import cannot_be_read
from lakehouse.tables.table_files import UNREADABLE, TableFiles
from processors.fold import snapshot_codec

PIECE_COMMANDS = 10_000
LOCK_WAIT_S = 60.0
WHAT_TO_DO = "run 'regent lake gold --from-start': it is made of what landed"
RUN_TO_DO = "run 'regent lake gold' and verify again"

Row = Mapping[str, Any]
Key = tuple[Any, ...]


def compare_gold(lake: Lake) -> Compared:
    """All gold tables of a cluster beside what landed. Raises `LakehouseError` when history cannot
    be folded.
    """
    found = Compared()
    with _no_run(lake):
        kept = gold_progress.read_progress(lake)
        if kept is None:
            found.notices.append("no gold was made of this cluster: answers are folded from silver")
            return found
        tables, gone = _opened(lake, kept)
    if gone:
        found.found(gone)
        return found
    stale = _stale(lake, kept)
    if stale is not None:
        found.found([stale])
        return found
    _Beside(lake, kept, tables, found).run()
    for table in tables.values():
        found.problems += table.problems()
    if not found.findings and not found.problems:
        found.notices.append(
            f"gold: {found.rows} rows are what history gives, up to command {kept.offset}"
        )
    return found


def _opened(lake: Lake, kept: Progress) -> tuple[dict[str, _Table], list[Finding]]:
    """The tables as the last run left them, and those that are gone."""
    tables: dict[str, _Table] = {}
    gone = []
    for spec in GOLD_TABLES:
        try:
            tables[spec.name] = _Table(lake, spec)
        except NotLanded:
            gone.append(
                Finding(
                    spec.name, COMMANDS_TOPIC, 0, 0, kept.offset, "the table is gone", RUN_TO_DO
                )
            )
    return tables, gone


def _no_run(lake: Lake) -> AbstractContextManager[None]:
    """Who may only read, an object store and a share of several hosts have no locks: then a run
    between two openings is told as a difference, and gone when asked again.
    """
    run = f"gold/run {lake.cluster_id}"
    try:
        return _Held(CommitLocks(lake.folder, (run,)), run) if lake.folder else nullcontext()
    except (OSError, LocksDoNotHold):
        return nullcontext()


class _Held(AbstractContextManager[None]):
    """The lock of gold's runs, for as long as it takes to open tables."""

    def __init__(self, locks: CommitLocks, name: str) -> None:
        self._locks, self._name = locks, name
        self._held = locks.held(name, LOCK_WAIT_S)

    def __enter__(self) -> None:
        try:
            self._held.__enter__()
        except TablesInUse:
            self._locks.close()
            raise

    def __exit__(self, *error: Any) -> None:
        self._held.__exit__(*error)
        self._locks.close()


def _stale(lake: Lake, kept: Progress) -> Finding | None:
    """Why the tables cannot be held against history as it is now."""
    decisions = source.Decisions(lake)
    if kept.builders != gold_progress.BUILDERS_VERSION:
        why = f"made by another release (builders {kept.builders})"
    elif kept.tables != gold_progress.table_ids(lake, GOLD_TABLES):
        why = "a table was made anew since the last run"
    elif not decisions.agrees(kept.offset, kept.taken)[0]:
        why = "other outcomes count now than the last run took in"
    elif source.BrokerEvents(lake).count() != kept.event_rows:
        why = "other broker events are there than the last run took in"
    else:
        return None
    said = f"not compared: {why}"
    return Finding(GOLD_PROGRESS.name, COMMANDS_TOPIC, 0, 0, kept.offset, said, RUN_TO_DO)


class _Table:
    """One gold table as it lies there."""

    def __init__(self, lake: Lake, spec: GoldTableSpec) -> None:
        self.spec, self._lake = spec, lake
        self._files = TableFiles(lake, spec)
        self._rows = self._files.dataset()
        self._told: list[str] = []

    def rows(self, wanted: ds.Expression | None) -> pa.Table:
        if not self._files.files:
            return self._files.schema.empty_table()
        try:
            return self._rows.to_table(filter=wanted)
        except UNREADABLE as error:
            damaged = self._files.leave_out_damaged()
            if not damaged:
                raise cannot_be_read(self._lake, self.spec, error) from error
            self._told += damaged
            self._rows = self._files.dataset()
            return self.rows(wanted)

    def problems(self) -> list[str]:
        """What is wrong with its files."""
        return [*self._told, *self._files.unlike_the_log(), *self._files.hiding()]


class _Beside:
    """Folds history once more and compares as it goes."""

    def __init__(
        self, lake: Lake, kept: Progress, tables: Mapping[str, _Table], found: Compared
    ) -> None:
        self._lake, self._kept = lake, kept
        self._tables, self._found = tables, found

    def run(self) -> None:
        fold, carry = GoldFold(), Carry()
        sets: dict[Key, Row] = {}
        decisions = source.Decisions(self._lake)
        while fold.folder.offset < self._kept.offset:
            after = fold.folder.offset
            count = min(PIECE_COMMANDS, self._kept.offset - after)
            piece = source.next_piece(self._lake, decisions, after, count)
            if not piece.records:
                self._short(after)
                return
            rows, carry = decided_rows(list(fold.changes(piece.records, piece.published)), carry)
            for row in rows.pop(BROKER_SETS.name):
                sets[tuple(row[name] for name in BROKER_SETS.key)] = row
            self._piece(rows, after, fold.folder.offset)
        self._end(fold, carry, list(sets.values()))

    def _piece(self, rows: Mapping[str, Sequence[Row]], after: int, last: int) -> None:
        for name, made in rows.items():
            column = "to_offset" if name in SPAN_BUILDERS else "offset"
            inside = (pc.field(column) > after) & (pc.field(column) <= last)
            self._compare(name, [row for row in made if row[column] is not None], inside)

    def _end(self, fold: GoldFold, carry: Carry, sets: Sequence[Row]) -> None:
        """What has no end, and rows of commands that history has not reached."""
        for name in SPAN_BUILDERS:
            is_open = pc.field("to_offset").is_null()
            self._compare(name, carry.open_rows.get(name, ()), is_open)
        self._compare(BROKER_SETS.name, sets, None)
        events = source.BrokerEvents(self._lake).rows
        outages = outage_rows(carry.masterships, events, fold.at_ms)
        for name in OUTAGE_TABLES:
            self._compare(name, outages[name], None)
        for name in (*SPAN_BUILDERS, *CHANGE_BUILDERS):
            if name != BROKER_SETS.name:
                column = "to_offset" if name in SPAN_BUILDERS else "offset"
                beside = (pc.field(column) > self._kept.offset) | (pc.field(column) < 0)
                if name not in SPAN_BUILDERS:  # Where an open one has no end.
                    beside = beside | pc.field(column).is_null()
                self._compare(name, (), beside)
        if (
            snapshot_codec.dump(fold.folder) != self._kept.snapshot
            or gold_progress.dump(carry) != self._kept.carry
            or fold.at_ms != self._kept.at_ms
        ):
            said = "what the next run goes on from is not what history gives"
            self._found.found([self._of_progress(said)])

    def _short(self, after: int) -> None:
        said = f"history ends at command {after}: commands or their outcomes were taken away"
        self._found.found(
            [
                Finding(
                    GOLD_PROGRESS.name,
                    COMMANDS_TOPIC,
                    0,
                    after + 1,
                    self._kept.offset,
                    said,
                    "'regent lake check' says who remembers them",
                )
            ]
        )

    def _of_progress(self, said: str) -> Finding:
        offset = self._kept.offset
        return Finding(GOLD_PROGRESS.name, COMMANDS_TOPIC, 0, offset, offset, said, WHAT_TO_DO)

    def _compare(self, name: str, made: Iterable[Row], inside: ds.Expression | None) -> None:
        table = self._tables[name]
        there = table.rows(inside)
        self._found.rows += there.num_rows
        spec = table.spec
        columns = pa.schema([one for one in spec.schema if one.name not in spec.partition_by])
        key = [one for one in spec.key if one in columns.names]
        rows = pa.Table.from_pylist(list(made), schema=columns)
        if not same(there, rows, key):
            self._found.found(self._told(spec, key, there.to_pylist(), rows.to_pylist()))

    def _told(
        self, spec: GoldTableSpec, key: Sequence[str], there: Sequence[Row], made: Sequence[Row]
    ) -> Iterator[Finding]:
        wanted = {tuple(row[name] for name in key): row for row in made}
        seen: set[Key] = set()
        for row in there:
            own = tuple(row[name] for name in key)
            if own in seen:
                yield self._of_row(spec, key, row, "stands twice")
            elif own not in wanted:
                yield self._of_row(spec, key, row, "history gives no such row")
            else:
                said = differing(row, wanted[own])
                if said:
                    yield self._of_row(spec, key, row, said)
            seen.add(own)
        for own, row in wanted.items():
            if own not in seen:
                yield self._of_row(spec, key, row, "the row that history gives is gone")

    def _of_row(self, spec: GoldTableSpec, key: Sequence[str], row: Row, said: str) -> Finding:
        named = ", ".join(f"{name} {row[name]}" for name in key if name != spec.offset_column)
        first = row.get("from_offset", row.get("offset"))
        last = row.get("to_offset") or first
        if first is None:  # A row of a day: of all commands.
            first, last = 0, self._kept.offset
        text = f"{named}: {said}" if named else said
        return Finding(spec.name, COMMANDS_TOPIC, 0, first, last, text, WHAT_TO_DO)
