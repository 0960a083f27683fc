"""Names of bytes, and outcomes read with what is wrong with them."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from events.codec import decode
from lakehouse.proof.names import BlockName, block_names
from lakehouse.proof.pieces import (
    PUBLISHED_SCHEMA,
    ROWS_PER_ARROW_BATCH,
    name_batches,
    outcome_hash,
    publish_batches,
)
from tests.support.control_history import with_master
from tests.support.landed_log import outcome_records
from tests.support.proof_rig import arrow

PAST = with_master(1, 2, 3)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ENDS = {("t", 0): 24, ("t", 1): 8}
OUTCOMES = [(offset, value) for *_, offset, value in outcome_records(PAST.records)]


def batches(rows: list[tuple[int, int]], at_once: int) -> Iterator[pa.RecordBatch]:
    """Partition and offset of records, as Spark hands them over, pieces of ten offsets."""
    table = pa.Table.from_pylist(
        [
            {
                "topic": "t",
                "partition": partition,
                "number": offset // 10,
                "offset": offset,
                "timestamp": BEGAN,
                "timestamp_type": 1,
                "key": None,
                "value": b"%d" % offset,
                "landed_at": BEGAN,
                "batch": 1,
            }
            for partition, offset in rows
        ]
    )
    return iter(table.to_batches(max_chunksize=at_once))


@pytest.mark.parametrize("at_once", [1, 3, 7, 100])
def test_names_are_those_of_blocks_however_the_rows_come(at_once: int) -> None:
    rows = [*((0, offset) for offset in range(24)), *((1, offset) for offset in range(5, 8))]
    found = [
        (row["partition"], row["end"], BlockName(row["log"], row["landing"]))
        for batch in name_batches(batches(rows, at_once), ENDS, {("t", 1): {6}}, 5)
        for row in batch.to_pylist()
    ]
    [whole] = batches(rows[:24], 100)
    expected = block_names(pa.table(whole), 24, (), 5)
    assert [(end, name) for partition, end, name in found if partition == 0] == sorted(
        expected.items()
    )
    assert [end for partition, end, _ in found if partition == 1] == [6, 8]


def test_digest_and_content_of_published_outcomes() -> None:
    [batch] = publish_batches([arrow(OUTCOMES)])
    told = [decode(value or b"") for _, value in OUTCOMES]
    assert batch.schema == PUBLISHED_SCHEMA
    assert batch.column("digest").to_pylist() == [outcome.digest.hex() for outcome in told]
    assert batch.column("outcome_hash").to_pylist() == [outcome_hash(outcome) for outcome in told]
    assert batch.column("offset").to_pylist() == list(range(len(OUTCOMES)))


def test_an_outcome_that_cannot_be_read_is_told_with_its_offset() -> None:
    [batch] = publish_batches([arrow([(4, b"x"), (5, PAST.records[0]), (6, None)])])
    assert batch.column("offset").to_pylist() == [None] * 3
    assert batch.column("log_offset").to_pylist() == [4, 5, 6]
    assert batch.column("problem").to_pylist()[1] == "unreadable: a ClusterFormed, no outcome"


def test_an_outcome_beside_another_of_the_same_offset_is_told() -> None:
    [batch] = publish_batches([arrow([*OUTCOMES[:3], (2, OUTCOMES[1][1]), *OUTCOMES[2:]])])
    assert {
        row
        for row in zip(
            batch.column("log_offset").to_pylist(), batch.column("problem").to_pylist(), strict=True
        )
        if row[1]
    } == {(2, "landed twice, with other bytes")}


def test_long_histories_leave_in_many_batches() -> None:
    values: list[tuple[int, bytes | None]] = [(i, b"x") for i in range(ROWS_PER_ARROW_BATCH + 1)]
    assert [b.num_rows for b in publish_batches([arrow(values)])] == [ROWS_PER_ARROW_BATCH, 1]
