"""Names of bytes, and outcomes read with what is wrong with them."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from msgspec.structs import replace

from events.codec import decode, encode
from lakehouse.proof.names import BlockName, block_names
from lakehouse.proof.pieces import PUBLISHED_SCHEMA, name_batches, publish_batches, reach_of
from tests.support.control_history import with_master
from tests.support.landed_log import outcome_records
from tests.support.proof_rig import arrow

PAST = with_master(1, 2, 3)
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
ENDS = {("t", 0): 24, ("t", 1): 8}
LATER = 1_000
OUTCOMES = [(offset, value) for *_, offset, value in outcome_records(PAST.records)]
WIDE = [(at, OUTCOMES[0][1]) for at in (-1, 63, 64, 8191, 8192, 2**20, 2**31, 2**33, 2**34, 2**50)]
"""Command offsets of any length, in order."""


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


def test_which_commands_published_outcomes_are_about() -> None:
    wide = [(LATER + at, encode(replace(decode(value), command_offset=at))) for at, value in WIDE]
    [batch] = publish_batches([arrow([*OUTCOMES, *wide])])
    assert batch.schema == PUBLISHED_SCHEMA
    assert batch.column("offset").to_pylist() == [*range(len(OUTCOMES)), *(at for at, _ in WIDE)]
    assert batch.column("value").to_pylist() == [value for _, value in [*OUTCOMES, *wide]]
    assert batch.column("problem").null_count == len(batch)


def test_what_begins_with_nothing_that_is_known_is_read_as_a_whole() -> None:
    rows: list[tuple[int, bytes | None]] = [
        (0, None),
        (1, b""),
        (2, OUTCOMES[2][1]),
        (3, b"y" * 99),
    ]
    [batch] = publish_batches([arrow(rows)])
    assert batch.column("offset").to_pylist() == [None, None, 2, None]
    assert [one is None for one in batch.column("problem").to_pylist()] == [
        False,
        False,
        True,
        False,
    ]
    [part] = publish_batches([arrow([*OUTCOMES, *rows[3:]]).slice(1)])
    assert part.column("offset").to_pylist() == [*range(1, len(OUTCOMES)), None]


def test_an_outcome_that_cannot_be_read_is_told_with_its_offset() -> None:
    [batch] = publish_batches([arrow([(4, b"x"), (5, PAST.records[0]), (6, None)])])
    assert batch.column("offset").to_pylist() == [None] * 3
    assert batch.column("log_offset").to_pylist() == [4, 5, 6]
    assert batch.column("problem").to_pylist()[1] == "unreadable: a ClusterFormed, no outcome"


def test_an_outcome_beside_another_of_the_same_offset_is_told() -> None:
    rows = [*OUTCOMES[:3], (2, OUTCOMES[1][1]), *OUTCOMES[2:]]
    for parts in ([rows], [rows[:3], rows[3:]], [rows[:4], rows[4:]], [[one] for one in rows]):
        told = [
            (row["log_offset"], row["problem"])
            for batch in publish_batches(map(arrow, parts))
            for row in batch.to_pylist()
            if row["problem"]
        ]
        assert set(told) == {(2, "landed twice, with other bytes")}


def test_which_commands_the_outcomes_of_a_piece_reach() -> None:
    values = [value for _, value in OUTCOMES]
    assert reach_of(pa.chunked_array([values[2:5], values[1:3]])) == (1, 4)
    assert reach_of(pa.chunked_array([[b"x", None]], pa.binary())) == (-1, -1)
    assert reach_of(pa.chunked_array([[b"x", values[3]]])) == (3, 3)
