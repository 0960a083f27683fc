"""
History folded once more, and compared with what was published (P apart from its Spark types).

Responsible for the two functions that Spark runs in its workers over Arrow batches: one folds
commands in the order of offsets, one reads outcomes. Both report trouble as rows, so that the
report names offsets. Refuses to hold a rule: it uses the fold of the controllers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa

from events import codec
from events.outcomes import Outcome
from lakehouse.invariant_rows import Decided
from lakehouse.invariants import OF_DECISIONS, Watch
from processors import canonical
from processors.fold import Folder, ReleaseTooOld

ROWS_PER_ARROW_BATCH = 2_000

FOLDED_SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("digest", pa.string()),
        pa.field("outcome_hash", pa.string()),
        pa.field("refusal", pa.string()),
        pa.field("problem", pa.string()),
        pa.field("missing_from", pa.int64()),
    ]
)
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
FOLDED_COLUMNS = (
    "offset long, digest string, outcome_hash string, refusal string, problem string, "
    "missing_from long"
)
PUBLISHED_COLUMNS = (
    "log_offset long, offset long, digest string, outcome_hash string, publisher string, "
    "problem string"
)


@dataclass(frozen=True, slots=True)
class Folded:
    """What folding one record gave; without a digest when it could not be folded."""

    offset: int
    digest: str | None = None
    outcome_hash: str | None = None
    refusal: str | None = None
    problem: str | None = None
    missing_from: int | None = None
    """First of the records that are missing right before this one."""


def refold(records: Iterable[tuple[int, bytes | None]]) -> Iterator[Folded]:
    """
    Fold commands that ascend by offset.

    A broken invariant (`invariants.OF_DECISIONS`), a record that landed twice and a digest that its
    issuer saw otherwise are problems at their offset. After a hole, or bytes that this release
    cannot know, nothing is folded any more; further holes are still told.
    """
    folder, watch = Folder(), Watch(OF_DECISIONS)
    folds, last, taken = True, -1, None
    for offset, value in records:
        if offset == last:
            yield Folded(offset, problem="landed twice" if value == taken else "landed twice, with other bytes")
            continue
        if offset > last + 1:
            folds = False
            yield Folded(offset, missing_from=last + 1)
        last, taken = offset, value
        if folds:
            try:
                yield _folded(folder, watch, offset, value or b"")
            except ReleaseTooOld as error:
                folds = False
                yield Folded(offset, problem=str(error))


def _folded(folder: Folder, watch: Watch, offset: int, value: bytes) -> Folded:
    applied = folder.apply(offset, value)
    outcome = applied.outcome
    broken = watch.note(Decided(offset, applied.record, outcome))
    problems = [": ".join(filter(None, (one.broker_name, one.said))) for one in broken]
    if applied.digest_agrees is False:
        assert applied.record is not None
        problems.append(f"its issuer had another digest after offset {applied.record.envelope.applied_offset}")
    return Folded(
        offset,
        outcome.digest.hex(),
        outcome_hash(outcome),
        outcome.refusal,
        "; ".join(problems) or None,
    )


def outcome_hash(outcome: Outcome) -> str:
    """Names the content of an outcome, published or folded: what it says before its digest."""
    return sha256(canonical.outcome_text(outcome).encode("ascii")).hexdigest()[:32]


def fold_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """`refold` for `mapInArrow`: columns offset and value in, `FOLDED_SCHEMA` out."""
    rows = (
        [f.offset, f.digest, f.outcome_hash, f.refusal, f.problem, f.missing_from]
        for f in refold(_pairs(batches))
    )
    return _in_batches(rows, FOLDED_SCHEMA)


def publish_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Outcomes for `mapInArrow`: columns offset and value in, `PUBLISHED_SCHEMA` out."""
    return _in_batches(_all_published(_pairs(batches)), PUBLISHED_SCHEMA)


def _all_published(records: Iterable[tuple[int, bytes | None]]) -> Iterator[list[object]]:
    """Outcomes that ascend by offset, with the holes between them; their log may begin anywhere."""
    last, taken = None, None
    for offset, value in records:
        if last is not None and offset > last + 1:
            hole = f"{last + 1} to {offset - 1}" if offset > last + 2 else str(last + 1)
            yield [offset, None, None, None, None, f"{hole} right before it never landed"]
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
        return [log_offset, None, None, None, None, f"unreadable: a {type(outcome).__name__}, no outcome"]
    return [
        log_offset,
        outcome.command_offset,
        outcome.digest.hex(),
        outcome_hash(outcome),
        outcome.publisher,
        None,
    ]


def _pairs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes | None]]:
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("offset", "value"))
        yield from zip(*columns, strict=True)


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
