"""What was proven, kept in the lake for the next proof.

Responsible for the table and for reading and appending its rows. Refuses to know what they prove
(`proof.plan`). Nothing else rests on it: the table may be thrown away, then the next proof folds
all of history again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import pyarrow as pa

from events.topics import COMMANDS_TOPIC
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.proof.kept_state import kept_name, unpacked
from lakehouse.proof.plan import Piece
from lakehouse.tables.columns import Column
from lakehouse.tables.delta import append_rows, arrow_schema, ensure_tables, open_table, read
from lakehouse.tables.lake import Lake
from lakehouse.tables.left_states import EVERY_COMMANDS
from lakehouse.tables.specs import CLUSTER, CLUSTER_ID, TIMESTAMP, TableSpec
from processors.fold.folder import Folder

PROVEN = TableSpec(
    name="proof/pieces",
    meaning=(
        "Ranges of commands and pieces of outcomes that were proven, by the name of their bytes, "
        "with the state of the fold behind each range. Of several rows of one piece the newest "
        "counts. May be thrown away."
    ),
    columns=(
        CLUSTER,
        Column("topic", pa.string(), "Topic of the records."),
        Column("number", pa.int64(), "Which piece: its first offset divided by its size."),
        Column("size", pa.int64(), "Records in it."),
        Column("proven_at", TIMESTAMP, "When it was proven."),
        Column(
            "bytes_name",
            pa.string(),
            "SHA-256 over the names of its blocks (`proof/names`), in hex.",
        ),
        Column("before", pa.string(), "Of commands: names the state of the fold before them."),
        Column("after", pa.string(), "Of commands: names `state`, as it is kept."),
        Column(
            "digest",
            pa.string(),
            "Of commands: the chained digest after the last one, 64 hex digits.",
        ),
        Column(
            "lowest", pa.int64(), "Of outcomes: lowest command offset that one is about; else -1."
        ),
        Column(
            "highest", pa.int64(), "Of outcomes: highest command offset that one is about; else -1."
        ),
        Column(
            "state",
            pa.binary(),
            "Of commands: the state behind them (`proof/kept_state`).",
            nullable=True,
        ),
        Column(
            "naming",
            pa.int64(),
            "How bytes_name is made; null by releases that named offset and value alone.",
            nullable=True,
        ),
    ),
    key=(CLUSTER_ID, "topic", "number", "size", "proven_at"),
    partition_column="size",
    offset_column="number",
)
RANGE_RECORDS = EVERY_COMMANDS
"""A state is kept behind each range of this many commands."""
_PIECE = (
    "topic",
    "number",
    "bytes_name",
    "before",
    "after",
    "digest",
    "lowest",
    "highest",
    "naming",
)
FIRST_NAMING = 1


def kept(lake: Lake, size: int) -> dict[tuple[str, int], Piece]:
    """The proven pieces of that size, by topic and number; none when nothing was kept or it cannot
    be read.
    """
    try:
        opened = open_table(lake, PROVEN)
        present = set(arrow_schema(opened).names)  # The first releases wrote no naming.
        names = [name for name in (*_PIECE, "proven_at") if name in present]
        rows = read(lake, PROVEN, columns=names, filters=[("size", "=", size)], opened=opened)
    except (NotLanded, LakehouseError):
        return {}
    every = [name for name in names if name != "naming"]
    whole = [row for row in rows.to_pylist() if None not in [row[name] for name in every]]
    found = sorted(whole, key=lambda row: row["proven_at"])
    return {
        (row["topic"], row["number"]): Piece(
            **{name: row[name] for name in _PIECE[:-1]}, naming=row.get("naming") or FIRST_NAMING
        )
        for row in found
    }


def states(lake: Lake, size: int, topic: str, numbers: Iterable[int]) -> Mapping[int, bytes]:
    """The states behind these ranges, packed."""
    wanted = sorted(numbers)
    if not wanted:
        return {}
    filters = [("size", "=", size), ("topic", "=", topic), ("number", "in", wanted)]
    rows = read(lake, PROVEN, columns=["number", "proven_at", "state"], filters=filters)
    found = sorted(rows.drop_null().to_pylist(), key=lambda row: row["proven_at"])
    return {row["number"]: row["state"] for row in found}


def newest_state(lake: Lake, below: int, size: int = RANGE_RECORDS) -> Folder | None:
    """The folder behind the newest proven range whose last command lies below that offset; None
    when there is none.

    A state that is not the one whose name was kept, or whose digest is not the proven one, is
    passed over.
    """
    ranges = sorted(
        (
            piece
            for piece in kept(lake, size).values()
            if piece.after and (piece.number + 1) * size <= below
        ),
        key=lambda piece: -piece.number,
    )
    for piece in ranges:
        packed = states(lake, size, COMMANDS_TOPIC, (piece.number,)).get(piece.number, b"")
        found = unpacked(packed)
        if found is not None and (kept_name(packed), found.folder.digest.hex()) == (
            piece.after,
            piece.digest,
        ):
            return found.folder
    return None


def keep(
    lake: Lake, size: int, pieces: Iterable[Piece], packed: Mapping[int, bytes], now: datetime
) -> None:
    """Append what was proven; `packed` is by number of the range of commands. Raises
    `LakehouseError`.
    """
    rows = [
        {
            "cluster_id": lake.cluster_id,
            "size": size,
            "proven_at": now,
            "state": packed.get(piece.number) if piece.after else None,
        }
        | {name: getattr(piece, name) for name in _PIECE}
        for piece in pieces
    ]
    if not rows:
        return
    ensure_tables(lake, (PROVEN,))
    append_rows(lake, PROVEN, rows)
