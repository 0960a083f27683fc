"""Gold rows as of now, without Spark: from the gold tables as far as they speak, and folded on
from there.

Responsible for one answer whether gold tables are there, behind or missing: rows are functions of
history, so what the gold job has not merged yet is folded here, from the very state that it keeps
for its own next run. Refuses to know what rows say, and to write anything.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse import wording
from lakehouse.errors import NotLanded
from lakehouse.gold import progress, source
from lakehouse.gold.acting_periods import told_until_ms
from lakehouse.gold.fold import GoldFold
from lakehouse.gold.majority_terms import groups_told_until_ms
from lakehouse.gold.progress import Progress
from lakehouse.gold.rows import OUTAGE_TABLES, Carry, decided_rows, outage_rows
from lakehouse.gold.source import Decisions
from lakehouse.gold.spans import Row
from lakehouse.gold.specs import GOLD_BY_NAME, GoldTableSpec
from lakehouse.tables.delta import read
from lakehouse.tables.lake import Lake

PIECE_COMMANDS_MAX = 100_000
ATTEMPTS = 5
"""Readings in all, when the gold job ends a run during each."""

_Newer = dict[str, dict[tuple[Any, ...], Row]]


@dataclass(frozen=True, slots=True)
class GoldNow:
    """The rows of some gold tables of one cluster, and up to where they speak."""

    tables: Mapping[str, pa.Table]
    offset: int
    """The last command whose effect is in them; -1 where no controller has decided anything."""
    at_ms: int
    """When the log took it, ms since 1970-01-01 UTC; without one, when the newest event of a set
    without controllers happened.
    """
    folded: int
    """Commands that were folded for this answer, because the gold tables do not hold them."""
    waiting: int
    """Commands that have landed behind `offset`: no outcome of theirs has, so they are not in the
    rows.
    """

    def rows(self, table: GoldTableSpec) -> list[Row]:
        """The rows of one of the tables."""
        return list(self.tables[table.name].to_pylist())

    def as_dict(self) -> dict[str, Any]:
        """For `--json`: up to where the answer speaks."""
        return {
            "offset": self.offset,
            "at_ms": self.at_ms,
            "folded": self.folded,
            "waiting": self.waiting,
        }

    def text(self) -> str:
        """One line for people."""
        waits = (
            (f"; {self.waiting} commands behind it wait for their outcomes to land")
            if self.waiting
            else ""
        )
        if self.offset < 0:
            return f"up to the newest broker event, of {wording.moment(self.at_ms)} UTC{waits}"
        return f"up to command {self.offset} of {wording.moment(self.at_ms)} UTC{waits}"


def gold_now(
    lake: Lake, tables: Sequence[GoldTableSpec], broker_name: str | None = None
) -> GoldNow:
    """These tables, all rows or those of one set; a table without `broker_name` is given whole.

    Raises `NotLanded` when no decision has landed, `LakehouseError` when history cannot be folded
    or read.
    """
    for _ in range(ATTEMPTS):
        kept, decisions = _kept(lake, tables)
        found = _now(lake, decisions, kept, tables, broker_name)
        if kept is None or progress.read_mark(lake) == kept.mark():
            break
    return found


def gold_settled(lake: Lake, tables: Sequence[GoldTableSpec]) -> GoldNow | None:
    """Up to where these tables speak, without their rows, when they hold all that is known; None
    when `gold.now` would fold.
    """
    kept, decisions = _kept(lake, tables)
    if (
        kept is None
        or kept.offset < 0  # How far broker events reach is not kept.
        or source.next_piece(lake, decisions, kept.offset, 1).records
        or source.BrokerEvents(lake).count() != kept.event_rows
    ):
        return None
    return GoldNow({}, kept.offset, kept.at_ms, 0, _waiting(lake, kept.offset))


def _kept(lake: Lake, tables: Sequence[GoldTableSpec]) -> tuple[Progress | None, Decisions]:
    """What the gold job keeps, and what is published now, which all of an answer rests on.

    Nothing is kept without a job, when the tables are not those that it speaks of, and when other
    outcomes of the commands in them count now: one came late. Decisions are opened last, so that
    they hold all that the job had read.
    """
    kept = progress.read_progress(lake)
    if kept is not None and not _speaks_of(lake, kept, tables):
        kept = None
    decisions = Decisions(lake)
    if kept is not None and not decisions.agrees(kept.offset, kept.taken)[0]:
        kept = None
    return kept, decisions


def _speaks_of(lake: Lake, kept: Progress, tables: Sequence[GoldTableSpec]) -> bool:
    """Whether the tables are those that the gold job merged into, by builders of today."""
    if kept.builders != progress.BUILDERS_VERSION:
        return False
    try:
        ids = progress.table_ids(lake, tables)
    except NotLanded:
        return False
    return ids.items() <= kept.tables.items()


def _now(
    lake: Lake,
    decisions: Decisions,
    kept: Progress | None,
    tables: Sequence[GoldTableSpec],
    broker_name: str | None,
) -> GoldNow:
    start = -1 if kept is None else kept.offset
    fold, carry = _begun(kept)
    wanted = {table.name for table in tables}
    newer, carry = _folded_on(lake, decisions, fold, carry, wanted)
    events, at_ms = source.BrokerEvents(lake), fold.at_ms
    if fold.folder.offset < 0:
        at_ms = max(told_until_ms(events.rows), groups_told_until_ms(events.rows))
        if not at_ms:
            raise NotLanded("no decision has landed yet")
    behind = fold.folder.offset > start or kept is None or events.count() != kept.event_rows
    if behind and not wanted.isdisjoint(OUTAGE_TABLES):
        _note(newer, outage_rows(carry.masterships, events.rows, fold.at_ms))
    found = {
        table.name: _table(lake, table, kept, newer.get(table.name, {}), broker_name)
        for table in tables
    }
    return GoldNow(
        found,
        fold.folder.offset,
        at_ms,
        fold.folder.offset - start,
        _waiting(lake, fold.folder.offset),
    )


def _waiting(lake: Lake, offset: int) -> int:
    landed = source.last_landed(lake, offset)
    return 0 if landed is None else landed - offset


def _begun(kept: Progress | None) -> tuple[GoldFold, Carry]:
    fold = progress.fold_of(kept)
    return fold, Carry() if kept is None or kept.offset < 0 else progress.load(kept.carry)


def _folded_on(
    lake: Lake, decisions: Decisions, fold: GoldFold, carry: Carry, wanted: Container[str]
) -> tuple[_Newer, Carry]:
    """The rows of what the wanted tables lack, but for those that rest on broker events: these are
    made last, of all.
    """
    newer: _Newer = {}
    while True:
        piece = source.next_piece(lake, decisions, fold.folder.offset, PIECE_COMMANDS_MAX)
        if not piece.records:
            return newer, carry
        rows, carry = decided_rows(
            list(fold.changes(piece.records, piece.published)), carry, wanted
        )
        _note(newer, rows)


def _note(newer: _Newer, rows: Mapping[str, Sequence[Row]]) -> None:
    for name, found in rows.items():
        key = GOLD_BY_NAME[name].key
        newer.setdefault(name, {}).update(
            (tuple(row[column] for column in key), row) for row in found
        )


def _table(
    lake: Lake,
    table: GoldTableSpec,
    kept: Progress | None,
    newer: Mapping[tuple[Any, ...], Row],
    broker_name: str | None,
) -> pa.Table:
    """What stands in the table, each row that was folded anew in place of the old one; in the order
    of offsets.
    """
    named = broker_name is not None and "broker_name" in table.schema.names
    rows = [row for row in newer.values() if not named or row["broker_name"] == broker_name]
    found = pa.Table.from_pylist(rows, schema=table.schema)
    if kept is not None:
        old = read(lake, table, filters=[("broker_name", "=", broker_name)] if named else ())
        if newer:
            keys = zip(*(old[column].to_pylist() for column in table.key), strict=True)
            old = old.filter(pa.array([key not in newer for key in keys], pa.bool_()))
        found = pa.concat_tables([old.cast(table.schema), found])
    order = [(name, "ascending") for name in dict.fromkeys((table.offset_column, *table.key))]
    return found.take(pc.sort_indices(found, sort_keys=order))
