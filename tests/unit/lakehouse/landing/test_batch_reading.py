from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC
from lakehouse.landing import batch_reading
from lakehouse.landing.batch_reading import SMALL_BYTES, cut, cuts, pieces, stretches
from lakehouse.landing.batches import in_log_order
from tests.support.landed_log import Record, batch_of


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], [(0, 0)]),
        ([0, 0, 0], [(0, 3)]),
        ([3, 3, 4], [(0, 3)]),
        ([3, 3, 5], [(0, 2), (2, 3)]),
        ([11, 1, 20, 30, 9, 1, 1], [(0, 1), (1, 2), (2, 3), (3, 4), (4, 6), (6, 7)]),
    ],
)
def test_a_piece_has_at_most_ten_bytes_and_at_least_a_record(
    sizes: list[int], expected: list[tuple[int, int]]
) -> None:
    assert cuts(np.array(sizes, np.int64), 10) == expected


def test_records_that_are_here_are_cut_by_their_keys_and_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_reading, "PIECE_BYTES", 8)
    rows = batch_of([("t", 0, 0, b"12345"), ("t", 0, 1, None), ("t", 0, 2, b"12345")])
    assert [piece["offset"].to_pylist() for piece in cut(rows)] == [[0, 1], [2]]


def test_the_stretch_of_each_partition() -> None:
    rows = batch_of([("b", 1, 7, b""), ("a", 0, 3, b""), ("b", 1, 9, b"")])
    assert stretches(rows) == [("a", 0, 3, 3), ("b", 1, 7, 9)]


@pytest.mark.spark
def test_large_records_come_piece_by_piece_and_all_of_them_in_log_order(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small and large ones, empty ones, a large key; the second reading is of the large ones of one
    piece alone.
    """
    monkeypatch.setattr(batch_reading, "PIECE_BYTES", 3 * SMALL_BYTES)
    large = [bytes([number]) * (SMALL_BYTES + 1 + number) for number in range(6)]
    log: list[Record] = [
        *((COMMANDS_TOPIC, 0, number, value) for number, value in enumerate(large)),
        (BROKER_EVENTS_TOPIC, 3, 5, None),
        (BROKER_EVENTS_TOPIC, 3, 6, large[3]),
        (BROKER_EVENTS_TOPIC, 3, 7, b""),
        (BROKER_EVENTS_TOPIC, 1, 0, b"x" * SMALL_BYTES),
    ]
    records = batch_of(log)
    keys = pa.array(
        [b"k" * SMALL_BYTES if at == 9 else None for at in range(len(log))], pa.binary()
    )
    records = records.set_column(records.schema.get_field_index("key"), "key", keys)
    found = list(pieces(spark.createDataFrame(records)))
    assert [piece.num_rows for piece in found] == [2, 3, 2, 2, 1]
    assert max(piece.nbytes for piece in found) < 4 * SMALL_BYTES
    whole = pa.concat_tables(found)
    assert whole.to_pylist() == in_log_order(records).to_pylist()


@pytest.mark.spark
def test_an_empty_batch_is_one_empty_piece(spark: Any) -> None:
    [piece] = pieces(spark.createDataFrame(batch_of([])))
    assert piece.num_rows == 0
    assert piece.schema.names == batch_of([]).schema.names
