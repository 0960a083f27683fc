"""Landed tables without Kafka and Spark: a log in memory, and its rows written by `deltalake`.

Responsible for the shape of batches and for appending what `lakehouse.landing.batches` says.
Knows no rule and no column.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from events.codec import decode, encode
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.landing import batches
from lakehouse.tables import delta
from lakehouse.tables.high_water import HighWater
from lakehouse.tables.lake import Lake, lake_at
from lakehouse.tables.specs import BRONZE, BY_NAME, LANDING_TABLES, TABLES, TIMESTAMP, TableSpec
from processors.fold.folder import Folder
from tests.support.control_history import CLUSTER_ID

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
BEGAN_MS = int(BEGAN.timestamp() * 1000)

FIRST_COMMIT = f"_delta_log/{0:020}.json"

Record = tuple[str, int, int, bytes | None]
"""Topic, partition, offset, value."""


def batch_of(records: Sequence[Record]) -> pa.Table:
    """Records as Spark's Kafka source gives them; each was taken a second after the one before."""
    count = len(records)
    times = [BEGAN + timedelta(seconds=offset) for _, _, offset, _ in records]
    return pa.table(
        {
            "topic": pa.array([record[0] for record in records], pa.string()),
            "partition": pa.array([record[1] for record in records], pa.int32()),
            "offset": pa.array([record[2] for record in records], pa.int64()),
            "timestamp": pa.array(times, TIMESTAMP),
            "timestampType": pa.array([0] * count, pa.int32()),
            "key": pa.array([None] * count, pa.binary()),
            "value": pa.array([record[3] for record in records], pa.binary()),
        }
    )


def command_records(values: Iterable[bytes]) -> list[Record]:
    """Values as the command log from offset 0."""
    return [(COMMANDS_TOPIC, 0, offset, value) for offset, value in enumerate(values)]


def outcome_records(
    values: Iterable[bytes],
    publisher: str = "n0",
    phases: Mapping[int, Mapping[str, int]] | None = None,
) -> list[Record]:
    """The outcomes that a controller would publish for these commands."""
    folder, found = Folder(), []
    for offset, value in enumerate(values):
        outcome = replace(
            folder.apply(offset, value).outcome,
            publisher=publisher,
            published_at_ms=BEGAN_MS + 1000 * offset + 5,
            phases=dict((phases or {}).get(offset, {"applied": BEGAN_MS + 1000 * offset + 2})),
        )
        found.append((OUTCOMES_TOPIC, 0, offset, encode(outcome)))
    return found


def event_records(values: Iterable[bytes], partition: int = 0) -> list[Record]:
    """Values as one partition of the broker events."""
    return [(BROKER_EVENTS_TOPIC, partition, offset, value) for offset, value in enumerate(values)]


def lake_in(root: Path, cluster_id: str = CLUSTER_ID) -> Lake:
    """The lake in a folder, of the cluster that test histories are of."""
    return lake_at(root, cluster_id)


def new_rows(lake: Lake, records: Sequence[Record], batch_id: int = 0) -> dict[str, pa.Table]:
    """What each table would append for a batch of the lake's cluster, by its own high water."""
    assert lake.cluster_id is not None
    marks = {
        table.name: HighWater() if _is_new(lake, table) else delta.high_water(lake, table)
        for table in TABLES
    }
    rows = batches.in_log_order(batch_of(records))
    new = batches.silver_tables(lake.cluster_id, rows, batches.EVERYTHING, marks)
    bronze = batches.bronze_rows(
        lake.cluster_id, rows, marks.get(BRONZE.name, HighWater()), batch_id, BEGAN
    )
    return {BRONZE.name: bronze, **new} if bronze.num_rows else new


def land(lake: Lake, records: Sequence[Record], batch_id: int = 0) -> dict[str, pa.Table]:
    """Append a batch to all tables, which are made if missing; gives what was appended.

    What a first batch makes of an empty place is kept: many tests begin with the same one.
    """
    is_first = not any(Path(lake.root, folder).exists() for folder in _FOLDERS)
    known = (lake.cluster_id, batch_id, tuple(records))
    if is_first and known in _landed:
        files, new = _landed[known]
        files.put(lake)
        return new
    empty_tables(lake) if is_first else _bring_up(lake)
    new = new_rows(lake, records, batch_id)
    for name, rows in new.items():
        deltalake.write_deltalake(lake.uri(BY_NAME[name]), rows, mode="append")
    if is_first:
        _landed[known] = (Files.of(lake), new)
        if len(_landed) > KEPT:
            del _landed[next(iter(_landed))]
    return new


KEPT = 40
"""First batches, some 200 KB each."""
_FOLDERS = sorted({table.name.split("/")[0] for table in LANDING_TABLES})


@dataclass(frozen=True)
class Files:
    """The tables of a lake, byte for byte: to write them again is quicker than to make them, or to
    copy them one by one.
    """

    folders: Sequence[str]
    """From above down."""
    contents: Mapping[str, bytes]

    @classmethod
    def of(cls, lake: Lake) -> Files:
        folders, contents = [], {}
        for top in _FOLDERS:
            for here, _, names in os.walk(Path(lake.root, top)):
                folders.append(os.path.relpath(here, lake.root))
                for name in names:
                    path = os.path.join(here, name)
                    contents[os.path.relpath(path, lake.root)] = Path(path).read_bytes()
        return cls(folders, contents)

    def put(self, lake: Lake) -> None:
        """Into a place where no table is."""
        os.makedirs(lake.root, exist_ok=True)
        for folder in self.folders:
            os.mkdir(os.path.join(lake.root, folder))
        for name, content in self.contents.items():
            with open(os.path.join(lake.root, name), "xb", buffering=0) as file:
                file.write(content)


_landed: dict[tuple[Any, ...], tuple[Files, dict[str, pa.Table]]] = {}


@functools.cache
def _made_once() -> Files:
    """A lake where nothing has landed, made once: forty first commits for each test cost more than
    what it lands.
    """
    with tempfile.TemporaryDirectory(prefix="regent-tables-") as root:
        delta.ensure_tables(lake_in(Path(root)))
        return Files.of(lake_in(Path(root)))


def empty_tables(lake: Lake) -> None:
    """As `tables.delta.ensure_tables`, in a place where no table is."""
    _made_once().put(lake)


def _bring_up(lake: Lake) -> None:
    """The product's is asked only about tables that are no copies of those made once."""
    made = _made_once().contents if _made_once.cache_info().currsize else {}
    for table in LANDING_TABLES:
        first = made.get(f"{table.name}/{FIRST_COMMIT}")
        if first is None or _first_commit(Path(lake.uri(table))) != first:
            delta.ensure_table(lake, table)


def _first_commit(table: Path) -> bytes | None:
    path = table / FIRST_COMMIT
    return path.read_bytes() if path.exists() else None


def _is_new(lake: Lake, table: TableSpec) -> bool:
    """Whether the table has only the commit that made it, without rows: such a one need not be
    opened to be asked.
    """
    table_folder = Path(lake.uri(table))
    return len(list((table_folder / "_delta_log").iterdir())) == 1 and b'"add"' not in (
        _first_commit(table_folder) or b'"add"'
    )


def kinds(records: Iterable[Record]) -> list[str]:
    """Class names of the records, for readable failures."""
    return [type(decode(value or b"")).__name__ for *_, value in records]


def append_to_bronze(lake: Lake, records: Sequence[Record]) -> None:
    """Append records of one partition to bronze alone, whatever is missing before them."""
    mark = HighWater({records[0][:2]: records[0][2] - 1})
    assert lake.cluster_id is not None
    rows = batches.bronze_rows(lake.cluster_id, batch_of(records), mark, 1, BEGAN)
    deltalake.write_deltalake(lake.uri(BRONZE), rows, mode="append")


def flip_value_byte(lake: Lake, offset: int) -> None:
    """Change one byte of the value of a landed command, as a person with an editor would."""
    for file in delta.active_files(lake, BRONZE, "topic", (COMMANDS_TOPIC,))[COMMANDS_TOPIC]:
        path = file.removeprefix("file://")
        rows = pq.ParquetFile(path).read()
        offsets = rows["offset"].to_pylist()
        if offset not in offsets:
            continue
        values = rows["value"].to_pylist()
        value = bytearray(values[offsets.index(offset)])
        value[-1] ^= 1
        values[offsets.index(offset)] = bytes(value)
        index = rows.schema.get_field_index("value")
        pq.write_table(rows.set_column(index, rows.schema.field(index), [values]), path)
        return
    raise AssertionError(f"offset {offset} is not in bronze")
