"""States of the fold that whoever folds anyway leaves behind every 100,000th command, so that a
proof can fold the ranges between them beside one another, also for the first time.

Nothing is proven by a state that lies here, and nobody believes one: a proof begins with it only
while it folds the range before it too, and takes what follows for proven only where that range ends
in the very same state.
Responsible for the table. Refuses to know who folds and who proves.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from datetime import datetime

import pyarrow as pa

from lakehouse.errors import LakehouseError
from lakehouse.tables.columns import Column
from lakehouse.tables.delta import append_rows, read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import CLUSTER, CLUSTER_ID, TIMESTAMP, TableSpec

EVERY_COMMANDS = 100_000
"""Some seconds of folding: so many are a range of a proof."""
_FAST = 1
"""Of zlib: more takes longer than it saves."""

LEFT_STATES = TableSpec(
    name="proof/states",
    meaning=(
        "States of the fold behind every so many commands, left by the gold job for proofs to "
        "begin with. Of several rows of one number the newest counts. May be thrown away."
    ),
    columns=(
        CLUSTER,
        Column("size", pa.int64(), "So many commands lie between two states."),
        Column("number", pa.int64(), "Which of these ranges it is the state behind, from 0."),
        Column("left_at", TIMESTAMP, "When it was left."),
        Column("snapshot", pa.binary(), "The fold there (zlib)."),
    ),
    key=(CLUSTER_ID, "size", "number", "left_at"),
    partition_column="size",
    offset_column="number",
)


def ranges(lake: Lake, size: int) -> frozenset[int]:
    """Of which ranges there is a state; none when there is no table, or it cannot be read."""
    try:
        rows = read(lake, LEFT_STATES, columns=["number"], filters=[("size", "=", size)])
    except LakehouseError:
        return frozenset()
    return frozenset(rows["number"].drop_null().to_pylist())


def states(lake: Lake, size: int, numbers: Collection[int]) -> dict[int, bytes]:
    """The snapshots behind these ranges, compressed, as far as they can be read."""
    if not numbers:
        return {}
    filters = [("size", "=", size), ("number", "in", sorted(numbers))]
    try:
        rows = read(lake, LEFT_STATES, columns=["number", "left_at", "snapshot"], filters=filters)
    except LakehouseError:
        return {}
    found = sorted(rows.drop_null().to_pylist(), key=lambda row: row["left_at"])
    return {row["number"]: row["snapshot"] for row in found}


def leave(lake: Lake, size: int, snapshots: Mapping[int, bytes], now: datetime) -> None:
    """Add these, by range, plain, but for what is there already; the table must be there. Raises
    `LakehouseError`.
    """
    packed = {number: zlib.compress(one, _FAST) for number, one in snapshots.items()}
    there = states(lake, size, packed)
    rows = [
        {
            CLUSTER_ID: lake.cluster_id,
            "size": size,
            "number": number,
            "left_at": now,
            "snapshot": snapshot,
        }
        for number, snapshot in sorted(packed.items())
        if there.get(number) != snapshot
    ]
    if rows:
        append_rows(lake, LEFT_STATES, rows)
