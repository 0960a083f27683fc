"""Landed records by pieces of their log, before anything is folded (P apart from its Arrow types).

Responsible for two functions that Spark runs in its workers, or the verb in its own process: one
names blocks, so that what was proven once is known again; one reads outcomes. Refuses to know what
they prove.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import groupby
from typing import Any

import pyarrow as pa

from events import codec
from events.outcomes import Outcome
from lakehouse.proof.names import block_names
from lakehouse.tables.high_water import Partition
from processors.fold import canonical

ROWS_PER_ARROW_BATCH = 2_000

PUBLISHED_SCHEMA = pa.schema(
    [
        pa.field("log_offset", pa.int64(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("digest", pa.string()),
        pa.field("outcome_hash", pa.string()),
        pa.field("publisher", pa.string()),
        pa.field("problem", pa.string()),
    ]
)
PUBLISHED_COLUMNS = (
    "log_offset long, offset long, digest string, outcome_hash string, publisher string, "
    "problem string"
)
NAME_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("log", pa.binary(), nullable=False),
        pa.field("landing", pa.binary(), nullable=False),
    ]
)
NAME_COLUMNS = "topic string, partition int, end long, log binary, landing binary"
PIECE_COLUMNS = ("topic", "partition", "number")


def name_batches(
    batches: Iterable[pa.RecordBatch],
    ends: Mapping[Partition, int],
    cuts: Mapping[Partition, Collection[int]],
    block: int,
) -> Iterator[pa.RecordBatch]:
    """Names of blocks, for `mapInArrow`: `PIECE_COLUMNS` and `names.NAMED_COLUMNS` in,
    `NAME_SCHEMA` out.

    Records of a piece, which is whole blocks, come together.
    """
    for topic, partition, rows in _by_piece(batches):
        place = (topic, partition)
        found = block_names(rows, ends[place], cuts.get(place, ()), block)
        named = [[*place, end, name.log, name.landing] for end, name in sorted(found.items())]
        yield from _in_batches(named, NAME_SCHEMA)


def _by_piece(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, int, pa.Table]]:
    """The rows of each piece, that come one behind the other."""
    gathered: list[pa.RecordBatch] = []
    own: tuple[str, int, int] | None = None
    for batch in batches:
        keys = zip(*(batch.column(at).to_pylist() for at in range(3)), strict=True)
        start = 0
        for key, same in groupby(keys):
            count = sum(1 for _ in same)
            if own is not None and key != own:
                yield own[0], own[1], pa.Table.from_batches(gathered)
                gathered = []
            own = key
            gathered.append(batch.slice(start, count))
            start += count
    if own is not None:
        yield own[0], own[1], pa.Table.from_batches(gathered)


def publish_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Outcomes for `mapInArrow`: offset and value in, ascending, `PUBLISHED_SCHEMA` out."""
    return _in_batches(_all_published(_rows(batches)), PUBLISHED_SCHEMA)


def _all_published(records: Iterable[tuple[Any, ...]]) -> Iterator[list[object]]:
    last, taken = None, None
    for offset, value in records:
        if offset == last and value != taken:
            yield [offset, None, None, None, None, "landed twice, with other bytes"]
        last, taken = offset, value
        yield _published(offset, value)


def _published(log_offset: int, value: bytes | None) -> list[object]:
    try:
        outcome = codec.decode(value or b"")
    except codec.CodecError as error:
        return [log_offset, None, None, None, None, f"unreadable: {type(error).__name__}: {error}"]
    if not isinstance(outcome, Outcome):
        return [
            log_offset,
            None,
            None,
            None,
            None,
            f"unreadable: a {type(outcome).__name__}, no outcome",
        ]
    return [
        log_offset,
        outcome.command_offset,
        outcome.digest.hex(),
        outcome_hash(outcome),
        outcome.publisher,
        None,
    ]


def outcome_hash(outcome: Outcome) -> str:
    """Names the content of an outcome, published or folded: what it says before its digest.

    Behind a `+` stands the digest of the state, where the outcome carries one: earlier releases
    published none.
    """
    content = sha256(canonical.outcome_text(outcome).encode("ascii")).hexdigest()[:32]
    return f"{content}+{outcome.state_digest.hex()}" if outcome.state_digest else content


def says_the_same(published: str, folded: str) -> bool:
    """Whether two names of outcomes agree; a state of which nothing was published is not
    compared.
    """
    return published in (folded, folded.partition("+")[0])


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    for batch in batches:
        yield from zip(
            *(batch.column(place).to_pylist() for place in range(batch.num_columns)), strict=True
        )


def _in_batches(rows: Iterable[list[object]], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    gathered: list[list[object]] = []
    for row in rows:
        gathered.append(row)
        if len(gathered) == ROWS_PER_ARROW_BATCH:
            yield _batch(gathered, schema)
            gathered = []
    if gathered:
        yield _batch(gathered, schema)


def _batch(rows: list[list[object]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
