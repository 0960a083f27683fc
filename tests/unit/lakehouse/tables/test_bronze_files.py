"""Bronze by its files: what lies there counts, whatever Delta's log says of it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.errors import NotLanded
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.lake import Lake
from lakehouse.tables.table_files import UNREADABLE
from tests.support.landed_log import append_to_bronze, event_records, land
from tests.support.tampered_lake import tamper

RECORDS = [(COMMANDS_TOPIC, 0, offset, b"v%d" % offset) for offset in range(7)]
COLUMNS = ("offset", "value")


@pytest.fixture
def landed(lake: Lake) -> Lake:
    """Commands in two files, broker events of two partitions in one."""
    land(lake, [*RECORDS[:4], *event_records([b"a", b"b"], 0), *event_records([b"c"], 1)])
    append_to_bronze(lake, RECORDS[4:])
    return lake


def paths(files: BronzeFiles) -> list[Path]:
    return [Path(uri) for uri in files.uris(COMMANDS_TOPIC)]


def test_offsets_and_rows_of_each_partition(landed: Lake) -> None:
    files = BronzeFiles(landed)
    assert files.topics == [BROKER_EVENTS_TOPIC, COMMANDS_TOPIC]
    assert {place: there.tolist() for place, there in files.offsets.items()} == {
        (COMMANDS_TOPIC, 0): [0, 1, 2, 3, 4, 5, 6],
        (BROKER_EVENTS_TOPIC, 0): [0, 1],
        (BROKER_EVENTS_TOPIC, 1): [0],
    }
    rows = files.rows((COMMANDS_TOPIC, 0), 2, 6, COLUMNS)
    assert rows.to_pydict() == {"offset": [2, 3, 4, 5], "value": [b"v2", b"v3", b"v4", b"v5"]}
    assert files.rows((BROKER_EVENTS_TOPIC, 1), 0, 9, COLUMNS)["value"].to_pylist() == [b"c"]
    assert files.rows((OUTCOMES_TOPIC, 0), 0, 9, COLUMNS).num_rows == 0
    pieces = list(files.pieces((COMMANDS_TOPIC, 0), 1, 7, 3, COLUMNS))
    assert [(first, piece["offset"].to_pylist()) for first, piece in pieces] == [
        (0, [0, 1, 2]),
        (3, [3, 4, 5]),
        (6, [6]),
    ]


def test_bytes_of_each_offset_without_the_bytes(landed: Lake) -> None:
    """One that landed twice counts twice: its rows come together."""
    append_to_bronze(landed, [(COMMANDS_TOPIC, 0, 5, b"larger")])
    files = BronzeFiles(landed)
    offsets, sizes = files.sizes((COMMANDS_TOPIC, 0), 4, 9, ["key", "value"])
    keys = files.rows((COMMANDS_TOPIC, 0), 4, 9, ["offset", "key"])["key"].to_pylist()
    assert offsets.tolist() == [4, 5, 6]
    assert sum(sizes) == sum(len(key or b"") for key in keys) + 2 + 2 + 6 + 2
    assert sizes[1] > sizes[0] == sizes[2]
    assert [len(found) for found in files.sizes((OUTCOMES_TOPIC, 0), 0, 9, ["value"])] == [0, 0]


def test_rows_of_other_clusters_are_not_among_them(landed: Lake) -> None:
    assert BronzeFiles(landed.of("another")).topics == []
    with pytest.raises(NotLanded):
        BronzeFiles(Lake(f"{landed.root}/nothing", "c"))


def test_a_file_of_another_size_is_read_for_what_it_holds(landed: Lake) -> None:
    path = next(p for p in paths(BronzeFiles(landed)) if pq.ParquetFile(p).metadata.num_rows == 3)
    rows = pq.ParquetFile(path).read()
    pq.write_table(pa.concat_tables([rows, rows]), path)
    there = BronzeFiles(landed).offsets[COMMANDS_TOPIC, 0]
    assert there.tolist() == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6]


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_damaged_file_is_left_out_and_named(landed: Lake, damage: str) -> None:
    files = BronzeFiles(landed)
    path = next(p for p in paths(files) if pq.ParquetFile(p).metadata.num_rows == 3)
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(UNREADABLE):
        _ = files.offsets
    [told] = files.leave_out_damaged()
    assert path.name in told and "bronze/records" in told
    assert ("is gone" in told) == (damage == "gone")
    assert files.offsets[COMMANDS_TOPIC, 0].tolist() == [0, 1, 2, 3]
    assert files.leave_out_damaged() == []


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"offset": -7}, "1 rows at offset -7"),
        ({"offset": 2**61}, f"1 rows at offset {2**61}"),
        ({"partition": 1}, "1 rows at partition 1"),
        ({"partition": -1}, "1 rows at partition -1"),
        ({"offset": None}, "1 rows at no offset or partition"),
        ({"partition": None}, "1 rows at no offset or partition"),
    ],
)
def test_a_row_at_a_place_that_no_log_has_is_told_and_left_out(
    landed: Lake, place: dict[str, Any], said: str
) -> None:
    def with_stray(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [*rows, rows[0] | place]

    tamper(landed, COMMANDS_TOPIC, 0, with_stray, is_loose=True)
    files = BronzeFiles(landed)
    assert files.offsets[COMMANDS_TOPIC, 0].tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert (COMMANDS_TOPIC, 1) not in files.offsets
    [told] = files.strays
    assert f"bronze/records, {COMMANDS_TOPIC}: {said}, which no record" in told
    assert "put it back from a copy" in told
