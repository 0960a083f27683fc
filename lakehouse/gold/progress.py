"""How far gold has come with each cluster, kept in the lake beside what was merged.

Responsible for one row per cluster: the fold as a snapshot, the carry, and up to where both speak.
It is written after all tables of a run: a run that dies in between merges the same rows again.
Refuses to know how rows are made and merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from deltalake.exceptions import DeltaError

from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.gold.fold import GoldFold
from lakehouse.gold.rows import Carry
from lakehouse.gold.specs import CLUSTER, GoldTableSpec
from lakehouse.tables.columns import Column
from lakehouse.tables.delta import arrow_schema, open_table, own_predicate, read, replace_rows
from lakehouse.tables.lake import Lake
from lakehouse.tables.row_checks import AtLeast
from processors.fold import snapshot_codec
from processors.fold.snapshot_codec import SnapshotError

_LONG = pa.int64()

GOLD_PROGRESS = GoldTableSpec(
    name="gold/progress",
    meaning="Up to where the gold tables of a cluster speak, and what the next run goes on from.",
    columns=(
        CLUSTER,
        Column("offset", _LONG, "Last command whose effect is in the tables; -1 for none."),
        Column(
            "at_ms",
            _LONG,
            "When the log took it, ms since 1970-01-01 UTC; how far availability is counted.",
        ),
        Column(
            "event_rows",
            _LONG,
            "Broker events that failovers and acting periods rest on, as many as were taken in.",
        ),
        Column("builders", _LONG, "Version of what makes the rows; another one builds gold anew."),
        Column(
            "tables",
            pa.map_(pa.string(), pa.string()),
            "Name of table -> its Delta id: one made anew has another.",
        ),
        Column("snapshot", pa.binary(), "The fold after that command."),
        Column("carry", pa.binary(), "Rows that still hold, and all masterships."),
        Column(
            "taken",
            pa.struct([("rows", _LONG), ("commands", _LONG), ("places", _LONG)]),
            "Outcomes of these commands that were taken in: rows, commands that had one, sum of "
            "the first ones' offsets.",
            nullable=True,
        ),
    ),
    key=("cluster_id",),
    checks=(AtLeast("offset", -1), AtLeast("event_rows", 0)),
    cluster_by=("cluster_id",),
    offset_column="offset",
)


class Taken(NamedTuple):
    """Which outcomes were taken in, in three numbers.

    Outcomes are only ever added, and of one command the first in the log counts. So another one
    counts if and only if more commands have one, or as many have one and the sum of the places is
    less.
    """

    rows: int
    """All of them, repeats too."""
    commands: int
    """Commands that had one."""
    places: int
    """Sum of the log offsets of the outcomes that count."""

    def plus(self, more: Taken) -> Taken:
        """With those of commands that follow."""
        return Taken(
            self.rows + more.rows, self.commands + more.commands, self.places + more.places
        )


NOTHING_TAKEN = Taken(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Mark:
    """Up to where the gold tables of a cluster speak."""

    offset: int
    """Offset of the last command, -1 for none."""
    at_ms: int
    """When the log took it, ms since 1970-01-01 UTC."""
    event_rows: int
    """How many broker events that failovers and acting periods rest on were taken in."""
    taken: Taken | None
    """The outcomes of these commands that were taken in; None by an older release, which did not
    count them.
    """


@dataclass(frozen=True, slots=True)
class Progress(Mark):
    """The same with all that the next run goes on from."""

    builders: int
    tables: dict[str, str]
    """Name of table -> id of the Delta table that the rows were merged into."""
    snapshot: bytes
    carry: bytes

    def mark(self) -> Mark:
        """Up to where it speaks."""
        return Mark(self.offset, self.at_ms, self.event_rows, self.taken)


def read_mark(lake: Lake) -> Mark | None:
    """Where the cluster's gold stands; None when there is none."""
    names = [field.name for field in fields(Mark)]
    rows = _rows(lake, names)
    return Mark(**rows[0]) if rows else None


def read_progress(lake: Lake) -> Progress | None:
    """What the next run goes on from; None when it has to begin at the beginning."""
    rows = _rows(lake, [field.name for field in fields(Progress)])
    return Progress(**{**rows[0], "tables": dict(rows[0]["tables"] or ())}) if rows else None


def fold_of(kept: Progress | None) -> GoldFold:
    """The fold that a run left, or one at the beginning. Raises `SnapshotError` when the lake keeps
    something else.
    """
    if kept is None or kept.offset < 0:
        return GoldFold()
    return GoldFold(snapshot_codec.load(kept.snapshot), kept.at_ms)


def newest_state(lake: Lake, last: int) -> GoldFold | None:
    """The fold that the gold job left, if it does not go beyond `last` and can be read; else
    None.
    """
    kept = read_progress(lake)
    try:
        return fold_of(kept) if kept is not None and 0 <= kept.offset <= last else None
    except SnapshotError:
        return None


def write_progress(lake: Lake, progress: Progress) -> None:
    """Replace the cluster's row in one commit. Raises `LakehouseError` when another writer was
    faster.
    """
    taken = None if progress.taken is None else progress.taken._asdict()
    row = {
        "cluster_id": lake.cluster_id,
        **asdict(progress),
        "tables": sorted(progress.tables.items()),
        "taken": taken,
    }
    replace_rows(lake, GOLD_PROGRESS, [row])


def take_out(lake: Lake, table: GoldTableSpec) -> None:
    """Take the cluster's rows out of a table. Raises `NotLanded`, `LakehouseError` when another
    writer was faster.
    """
    try:
        open_table(lake, table).delete(own_predicate(lake))
    except DeltaError as error:
        raise LakehouseError(f"rows of {table.name} could not be taken out: {error}") from error


def table_ids(lake: Lake, tables: Sequence[GoldTableSpec]) -> dict[str, str]:
    """The Delta id of each table. Raises `NotLanded` when one is not there."""
    return {table.name: str(open_table(lake, table).metadata().id) for table in tables}


def _rows(lake: Lake, columns: list[str]) -> list[dict[str, Any]]:
    """The cluster's row as far as the table has these columns: one that an older release made lacks
    some.
    """
    try:
        opened = open_table(lake, GOLD_PROGRESS)
    except NotLanded:
        return []
    present = set(arrow_schema(opened).names)
    rows = read(
        lake, GOLD_PROGRESS, columns=[name for name in columns if name in present], opened=opened
    ).to_pylist()
    for row in rows:
        taken = row.get("taken")
        row["taken"] = None if taken is None or None in taken.values() else Taken(**taken)
    return rows


BUILDERS_VERSION = 5
"""Raised when a builder gives other rows for the same history: then gold is built anew."""

_DECODER = msgspec.json.Decoder(Carry)


class CarryError(Exception):
    """Bytes that hold no carry of this release."""


def dump(carry: Carry) -> bytes:
    """The carry as JSON. Equal carries give the same bytes."""
    return msgspec.json.encode(carry)


def load(data: bytes) -> Carry:
    """The carry in `data`. Raises `CarryError`."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CarryError(f"no carry of a gold run: {error}") from error
