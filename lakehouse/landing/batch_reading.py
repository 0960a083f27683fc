"""A micro-batch of Spark as Arrow, in pieces that fit into memory.

A batch is bounded in records, and a record may have a megabyte: Spark has written down where the
batch ends before anybody knows how many bytes it has. So what is small comes at once, and of what
is large its length; large records are fetched in a second reading, piece by piece.
Responsible for the order of the log within and between pieces, and for the bounds. Refuses to know
what becomes of the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.errors import LakehouseError
from lakehouse.landing.batches import BATCH_COLUMNS, in_log_order

SMALL_BYTES = 4_096
"""Records up to so many bytes come with the first reading, all at once: a batch of 60,000 of them
has 240 MiB.
"""
PIECE_BYTES = 64 << 20
"""Bytes of keys and values in one piece, unless a single record has more."""

_BYTES = "record_bytes"
_SIZE = "coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0)"
_PLACE = ("topic", "partition", "offset")
CONTENT = ("key", "value")


def pieces(batch: Any) -> Iterator[pa.Table]:
    """The records of a DataFrame of Spark's Kafka source, in log order; at least one piece. Raises
    what Spark raises, `LakehouseError` when the log gave other records the second time.
    """
    others = [f"`{name}`" for name in BATCH_COLUMNS if name not in CONTENT]
    small = [f"CASE WHEN {_SIZE} <= {SMALL_BYTES} THEN {name} END AS {name}" for name in CONTENT]
    found = in_log_order(batch.selectExpr(*others, *small, f"{_SIZE} AS {_BYTES}").toArrow())
    sizes = found[_BYTES].to_numpy()
    rows = found.select(BATCH_COLUMNS)
    for start, end in cuts(sizes, PIECE_BYTES):
        yield _whole(batch, rows.slice(start, end - start), sizes[start:end] > SMALL_BYTES)


def cut(rows: pa.Table) -> Iterator[pa.Table]:
    """Records that are here in pieces of the same size; one without a key may lack the column."""
    sizes = [
        pc.fill_null(pc.binary_length(rows[name]), 0).to_numpy()
        for name in CONTENT
        if name in rows.schema.names
    ]
    for start, end in cuts(np.sum(sizes, axis=0), PIECE_BYTES):
        yield rows.slice(start, end - start)


def cuts(sizes: np.ndarray, limit: int, most: int | None = None) -> list[tuple[int, int]]:
    """Where records of these sizes are cut into pieces of at most `limit` bytes and `most` records,
    one record at least: first place and the one behind the last of each. One empty piece for no
    records.
    """
    ends = np.cumsum(sizes, dtype=np.int64)
    found, start = [], 0
    while start < len(sizes):
        before = ends[start - 1] if start else 0
        end = max(int(np.searchsorted(ends, before + limit, side="right")), start + 1)
        end = end if most is None else min(end, start + most)
        found.append((start, end))
        start = end
    return found or [(0, 0)]


def stretches(rows: pa.Table) -> list[tuple[str, int, int, int]]:
    """Topic, partition, first and last offset of each partition in these rows."""
    last = rows.group_by(list(_PLACE[:2])).aggregate([("offset", "min"), ("offset", "max")])
    columns = ("topic", "partition", "offset_min", "offset_max")
    return sorted(zip(*(last[name].to_pylist() for name in columns), strict=True))


def _whole(batch: Any, piece: pa.Table, large: np.ndarray) -> pa.Table:
    """The piece with its large records."""
    if not large.any():
        return piece
    mask = pa.array(large)
    lacking = piece.select(_PLACE).filter(mask)
    fetched = in_log_order(
        batch.where(f"{_SIZE} > {SMALL_BYTES}")
        .where(_within(stretches(lacking)))
        .select(*_PLACE, *CONTENT)
        .toArrow()
    )
    if not fetched.select(_PLACE).equals(lacking):
        raise LakehouseError(
            f"the log gave {fetched.num_rows} large records where it had given {lacking.num_rows}"
        )
    for name in CONTENT:
        at = piece.schema.get_field_index(name)
        column = pc.replace_with_mask(
            piece[name].combine_chunks(), mask, fetched[name].combine_chunks()
        )
        piece = piece.set_column(at, piece.schema.field(at), column)
    return piece


def _within(places: Sequence[tuple[str, int, int, int]]) -> str:
    return " OR ".join(
        f"(topic = '{topic}' AND `partition` = {number} AND `offset` BETWEEN {first} AND {last})"
        for topic, number, first, last in places
    )
