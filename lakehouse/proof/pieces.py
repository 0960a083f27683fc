"""Landed records by pieces of their log, before anything is folded (P apart from its Arrow types).

Responsible for two functions that Spark runs in its workers, or the verb in its own process: one
names blocks, so that what was proven once is known again; one says which commands outcomes are
about. What else an outcome says is read where its command is folded: mostly its bytes tell enough
(`events.outcome_bytes`). Refuses to know what they prove.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from events import codec
from events.outcome_bytes import HEADERS
from events.outcomes import Outcome
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.proof.names import block_names
from lakehouse.tables.high_water import Partition
from processors.fold import canonical

ROWS_PER_ARROW_BATCH = 2_000
OTHER_BYTES = "landed twice, with other bytes"
PEEKED_BYTES = 5
"""Of an offset in Avro; a longer one is read as a whole."""

PUBLISHED_SCHEMA = pa.schema(
    [
        pa.field("log_offset", pa.int64(), nullable=False),
        pa.field("offset", pa.int64()),
        pa.field("value", pa.binary()),
        pa.field("problem", pa.string()),
    ]
)
PUBLISHED_COLUMNS = "log_offset long, offset long, value binary, problem string"
"""Of each outcome: its own offset, that of its command (null when it cannot be read), its bytes,
what is wrong with it.
"""
NAME_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("end", pa.int64(), nullable=False),
        pa.field("log", pa.binary(), nullable=False),
        pa.field("landing", pa.binary(), nullable=False),
        pa.field("lowest", pa.int64(), nullable=False),
        pa.field("highest", pa.int64(), nullable=False),
    ]
)
NAME_COLUMNS = (
    "topic string, partition int, end long, log binary, landing binary, lowest long, highest long"
)
"""Of each block; with it, what the outcomes of its whole piece are about (`reach_of`)."""
PIECE_COLUMNS = ("topic", "partition", "number")
COMMANDS, OUTCOMES = (COMMANDS_TOPIC, 0), (OUTCOMES_TOPIC, 0)
Reach = tuple[int, int]
"""The lowest and the highest command offset that the outcomes of a piece are about."""
NO_REACH: Reach = (-1, -1)


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
        reach = reach_of(rows["value"]) if place == OUTCOMES else NO_REACH
        named = [
            [*place, end, name.log, name.landing, *reach] for end, name in sorted(found.items())
        ]
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


class Unread(NamedTuple):
    """Bytes that are no outcome to this release."""

    why: str


def outcome_in(value: bytes | None) -> Outcome | Unread:
    """What a record of the outcomes says."""
    try:
        outcome = codec.decode(value or b"")
    except codec.CodecError as error:
        return Unread(f"unreadable: {type(error).__name__}: {error}")
    if not isinstance(outcome, Outcome):
        return Unread(f"unreadable: a {type(outcome).__name__}, no outcome")
    return outcome


def says_the_same(published: Outcome, folded: Outcome) -> bool:
    """Whether two outcomes agree in what the fold gives; a state of which nothing was published, as
    by earlier releases, is not compared.
    """
    return (
        published.digest == folded.digest
        and published.state_digest in (b"", folded.state_digest)
        and canonical.outcome_text(published) == canonical.outcome_text(folded)
    )


def publish_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Outcomes for `mapInArrow`: offset and value in, ascending, `PUBLISHED_SCHEMA` out."""
    last: tuple[int, bytes | None] | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        offsets, values = np.asarray(batch.column(0)), batch.column(1)
        about, known, problems = _about(values)
        columns = [
            pa.array(offsets, pa.int64()),
            pa.array(about, pa.int64(), mask=~known),
            pc.cast(values, pa.binary()),
            pa.array(problems, pa.string()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=PUBLISHED_SCHEMA)
        twice = _with_other_bytes(offsets, values, last)
        if twice:
            rows: list[list[object]] = [[one, None, None, OTHER_BYTES] for one in twice]
            yield _batch(rows, PUBLISHED_SCHEMA)
        last = (int(offsets[-1]), values[-1].as_py())


def reach_of(values: pa.ChunkedArray) -> Reach:
    """The lowest and the highest command that outcomes are about; `NO_REACH` when that is none."""
    about, known, _ = _about(values.combine_chunks())
    return (int(about[known].min()), int(about[known].max())) if known.any() else NO_REACH


def _about(values: pa.Array) -> tuple[np.ndarray, np.ndarray, list[str | None]]:
    """The command offsets of outcomes, of which that can be said, and what is wrong with the
    others.
    """
    about, known = _peeked(values)
    problems: list[str | None] = [None] * len(values)
    for at in np.flatnonzero(~known).tolist():
        found = outcome_in(values[at].as_py())
        if isinstance(found, Unread):
            problems[at] = found.why
        else:
            about[at], known[at] = found.command_offset, True
    return about, known, problems


def _with_other_bytes(
    offsets: np.ndarray, values: pa.Array, last: tuple[int, bytes | None] | None
) -> list[int]:
    """Offsets that stand there again, with another value than before; `last` is what came before
    these.
    """
    again = (np.flatnonzero(np.diff(offsets) == 0) + 1).tolist()
    found = [int(offsets[at]) for at in again if values[at].as_py() != values[at - 1].as_py()]
    if last is not None and last[0] == offsets[0] and last[1] != values[0].as_py():
        found.append(last[0])
    return sorted(found)


def _peeked(values: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """The command offsets of outcomes, and of which that can be said from their first bytes."""
    header, width = len(HEADERS[0]), len(HEADERS[0]) + PEEKED_BYTES
    lengths = np.asarray(pc.fill_null(pc.binary_length(values), 0))
    about, known = np.zeros(len(values), np.int64), lengths >= width
    first = np.frombuffer(
        b"".join(pc.binary_slice(values.filter(pa.array(known)), 0, width).to_pylist()), np.uint8
    ).reshape(-1, width)
    ours = np.zeros(len(first), bool)
    for one in HEADERS:
        ours |= (first[:, :header] == np.frombuffer(one, np.uint8)).all(axis=1)
    number = first[:, header:].astype(np.int64)
    ends = number < 0x80
    ours &= ends.any(axis=1)
    last = ends.argmax(axis=1)
    within = np.arange(PEEKED_BYTES) <= last[:, None]
    raw = (((number & 0x7F) * within) << (7 * np.arange(PEEKED_BYTES))).sum(axis=1)
    about[known] = (raw >> 1) ^ -(raw & 1)
    known[known] = ours
    return about, known


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
