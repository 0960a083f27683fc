"""Names of bytes, and outcomes read with what is wrong with them."""

import pyarrow as pa

from events.codec import decode
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
OUTCOMES = [(offset, value) for *_, offset, value in outcome_records(PAST.records)]


def named(
    rows: list[tuple[int, bytes | None]], cut: int | None = None, topic: str = "t", number: int = 0
) -> str:
    pieces = [rows[:cut], rows[cut:]] if cut else [rows]
    batches = []
    for piece in pieces:
        offsets, values = zip(*piece, strict=True)
        count = len(piece)
        columns = [
            pa.array([topic] * count),
            pa.array([number] * count),
            pa.array(offsets),
            pa.array(values, pa.binary()),
        ]
        batches.append(
            pa.RecordBatch.from_arrays(columns, names=["topic", "number", "offset", "value"])
        )
    [row] = [row for batch in name_batches(batches) for row in batch.to_pylist()]
    assert (row["topic"], row["number"], row["records"]) == (topic, number, len(rows))
    return str(row["bytes_name"])


def test_a_name_is_of_the_bytes_and_not_of_how_they_are_stored() -> None:
    rows: list[tuple[int, bytes | None]] = [(0, b"ab"), (1, b"c"), (2, None)]
    assert named(rows) == named(rows, cut=1) == named(rows, cut=2)


def test_whatever_is_changed_has_another_name() -> None:
    one: list[list[tuple[int, bytes | None]]] = [
        [(0, b"ab"), (1, b"c")],
        [(0, b"a"), (1, b"bc")],
        [(0, b"ab"), (2, b"c")],
        [(0, b"abc"), (1, b"")],
        [(0, b"abc"), (1, None)],
        [(0, b"ab"), (1, b"d")],
        [(0, b"ab"), (1, b"c"), (1, b"c")],
        [(0, b"ab")],
    ]
    assert len({named(rows) for rows in one}) == len(one)


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
