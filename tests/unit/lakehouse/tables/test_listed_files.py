"""A table that cannot be read is told by its file, what that held and what to do, whoever asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC
from lakehouse.answers.decisions import history
from lakehouse.errors import LakehouseError
from lakehouse.gold.now import gold_now
from lakehouse.gold.specs import FAILOVERS
from lakehouse.sql import query
from lakehouse.sql.query import ask
from lakehouse.tables import delta
from lakehouse.tables.bronze_log import BronzeLog, all_logs
from lakehouse.tables.lake import Lake, open_lake
from lakehouse.tables.listed_files import (
    cannot_be_read,
    false_statistics,
    file_troubles,
    listed_files,
    reason,
)
from lakehouse.tables.specs import BRONZE, DECISIONS, TableSpec
from tests.support.control_history import with_master
from tests.support.landed_log import append_to_bronze, command_records, land, outcome_records
from tests.support.tampered_lake import with_statistics

RECORDS = command_records(with_master(1, 2, 3).records)
OF_BRONZE: dict[str, Callable[[Lake], Any]] = {
    "read": lambda lake: delta.read(lake, BRONZE),
    "count": lambda lake: delta.count_rows(lake, BRONZE),
    "high water": lambda lake: delta.high_water(lake, BRONZE),
    "log": lambda lake: BronzeLog(lake, COMMANDS_TOPIC).require_whole(),
    "logs": all_logs,
    "sql": lambda lake: ask(lake, "SELECT * FROM bronze.records"),
    "gold": lambda lake: gold_now(lake, [FAILOVERS]),
}
OF_DECISIONS: dict[str, Callable[[Lake], Any]] = {
    "history": lambda lake: history(lake, None),
    "sql": lambda lake: ask(lake, "SELECT * FROM silver.decisions"),
}


@pytest.fixture
def landed(lake: Lake) -> Lake:
    """Commands 0 to 4, 5 to 6, and the rest, a file each."""
    land(lake, [*RECORDS[:5], *outcome_records([value or b"" for *_, value in RECORDS])])
    append_to_bronze(lake, RECORDS[5:7])
    append_to_bronze(lake, RECORDS[7:])
    return lake


def file_with(lake: Lake, table: TableSpec, offset: int, topic: str | None = None) -> Path:
    for file in listed_files(lake, table, delta.open_table(lake, table)):
        rows = pq.ParquetFile(file.path).read(columns=[table.offset_column])
        if file.partition.get("topic") == topic and offset in rows[0].to_pylist():
            return file.path
    raise AssertionError(f"no file holds {offset}")


def told_by(asks: Callable[[Lake], Any], lake: Lake) -> str:
    with pytest.raises(LakehouseError) as caught:
        asks(lake)
    text = str(caught.value)
    assert "magic" not in text and "\n" not in text
    return text


@pytest.mark.parametrize("asks", OF_BRONZE.values(), ids=OF_BRONZE)
def test_a_file_that_is_gone_is_named_with_what_the_others_lack(
    landed: Lake, asks: Callable[[Lake], Any]
) -> None:
    path = file_with(landed, BRONZE, 5, COMMANDS_TOPIC)
    path.unlink()
    told = told_by(asks, landed)
    assert "table bronze/records cannot be read" in told and path.name in told
    assert "regent.commands-0 offsets 5 to 6 or" in told
    assert "is gone: put it back from a copy" in told


@pytest.mark.parametrize("asks", OF_BRONZE.values(), ids=OF_BRONZE)
def test_a_file_of_another_size_is_named_with_what_it_holds(
    landed: Lake, asks: Callable[[Lake], Any]
) -> None:
    path = file_with(landed, BRONZE, 5, COMMANDS_TOPIC)
    rows = pq.ParquetFile(path).read()
    pq.write_table(rows, path, compression="none", write_statistics=False)
    told = told_by(asks, landed)
    assert "(regent.commands-0 offsets 5 to 6) has" in told and "Delta's log says" in told


@pytest.mark.parametrize("asks", OF_DECISIONS.values(), ids=OF_DECISIONS)
def test_a_file_of_silver_that_is_cut_is_named_with_the_way_to_fill_the_table(
    landed: Lake, asks: Callable[[Lake], Any]
) -> None:
    path = file_with(landed, DECISIONS, 3)
    path.write_bytes(path.read_bytes()[:100])
    told = told_by(asks, landed)
    assert "table silver/decisions cannot be read" in told and "has 100 bytes" in told
    assert "remove the table's folder" in told


def test_bytes_within_a_file_that_make_it_unreadable_are_told(landed: Lake) -> None:
    path = file_with(landed, DECISIONS, 3)
    whole = path.read_bytes()
    path.write_bytes(whole[:4] + bytes(200) + whole[204:])
    assert "is damaged" in told_by(OF_DECISIONS["history"], landed)
    path.write_bytes(b"no table" * 10 + whole[80:])
    assert "is no Parquet file" in told_by(OF_DECISIONS["history"], landed)


def commits(lake: Lake, table: TableSpec) -> list[Path]:
    return sorted((Path(lake.uri(table)) / "_delta_log").glob("*.json"))


@pytest.mark.parametrize("asks", OF_BRONZE.values(), ids=OF_BRONZE)
def test_a_last_commit_that_was_cut_is_named_and_may_be_moved_away(
    landed: Lake, asks: Callable[[Lake], Any]
) -> None:
    cut = commits(landed, BRONZE)[-1]
    cut.write_bytes(cut.read_bytes()[:-30])
    told = told_by(asks, landed)
    assert f"commit {cut.name} of bronze/records (its last one) is cut or damaged" in told
    with pytest.raises(LakehouseError, match="its last one"):
        open_lake(landed.root)
    cut.rename(cut.with_suffix(".moved"))
    assert BronzeLog(landed, COMMANDS_TOPIC).end == 7


def test_a_commit_before_others_that_was_cut_must_come_back(landed: Lake) -> None:
    cut, last = commits(landed, BRONZE)[-2:]
    cut.write_bytes(cut.read_bytes()[:-30])
    told = told_by(OF_BRONZE["read"], landed)
    assert f"commit {cut.name}" in told and f"its last one is {last.name}" in told
    assert "nothing behind it can be read" in told


def test_a_commit_that_is_gone_from_between_others_must_come_back(landed: Lake) -> None:
    gone, last = commits(landed, BRONZE)[-2:]
    gone.unlink()
    told = str(cannot_be_read(landed, BRONZE, ValueError("found gap")))
    assert f"commit {gone.name} of bronze/records is gone: put it back" in told
    assert last.name not in told


def test_nothing_is_wrong_with_files_as_they_were_written(landed: Lake) -> None:
    for table in (BRONZE, DECISIONS):
        assert list(file_troubles(landed, table, delta.open_table(landed, table))) == []


def test_a_file_that_grew_can_be_read_and_is_told_all_the_same(landed: Lake) -> None:
    path = file_with(landed, BRONZE, 5, COMMANDS_TOPIC)
    path.write_bytes(path.read_bytes() + b"more")
    assert delta.read(landed, BRONZE).num_rows
    [told] = file_troubles(landed, BRONZE, delta.open_table(landed, BRONZE))
    assert "regent.commands-0 offsets 5 to 6" in told


def test_where_nothing_is_found_the_library_has_its_say_without_its_stack(lake: Lake) -> None:
    said = Exception("Kernel error: odd\n   0: <unknown>\n   1: <unknown>")
    assert reason(said) == "Kernel error: odd"
    told = cannot_be_read(Lake("s3://nowhere/at-all"), BRONZE, said)
    assert str(told) == "table bronze/records cannot be read: Kernel error: odd"


def test_a_stream_that_breaks_without_a_name_is_laid_to_the_table_that_was_asked(
    landed: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which of its threads meets the file first decides what the database says."""

    def broken(*_: object) -> None:
        raise OSError("Parquet magic bytes not found in footer")

    monkeypatch.setattr(query, "_taken", broken)
    asks = OF_BRONZE["sql"]
    with pytest.raises(LakehouseError, match="the tables cannot be read: Parquet magic"):
        asks(landed)
    path = file_with(landed, BRONZE, 5, COMMANDS_TOPIC)
    path.write_bytes(b"no table")
    told = told_by(asks, landed)
    assert "table bronze/records cannot be read" in told and path.name in told


def test_deletion_vectors_which_no_release_writes_are_told(landed: Lake) -> None:
    opened = delta.open_table(landed, BRONZE)
    table = Path(landed.uri(BRONZE).removeprefix("file://"))
    commit = sorted((table / "_delta_log").glob("*.json"))[-1]
    text = commit.read_text("utf-8")
    commit.write_text(text.replace('"add":{', '"add":{"deletionVector":{"cardinality":1},'))
    [told] = file_troubles(landed, BRONZE, opened)
    assert f"commit {commit.name} of bronze/records has deletion vectors" in told


def test_deletion_vectors_that_only_a_checkpoint_holds_are_told(landed: Lake) -> None:
    opened = delta.open_table(landed, BRONZE)
    opened.create_checkpoint()
    [path] = (Path(landed.uri(BRONZE)) / "_delta_log").glob("*.checkpoint.parquet")
    assert list(file_troubles(landed, BRONZE, opened)) == []
    rows = pq.read_table(path)
    vector = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    added = [
        None if one is None else one | {"deletionVector": vector} for one in rows["add"].to_pylist()
    ]
    pq.write_table(rows.set_column(rows.schema.get_field_index("add"), "add", [added]), path)
    [told] = file_troubles(landed, BRONZE, opened)
    assert f"commit {path.name} of bronze/records has deletion vectors" in told


def far(lake: Lake) -> Lake:
    """The same lake, as one in an object store is reached: by the library's own file system."""
    return replace(lake, root=f"file://{lake.root}")


def test_files_of_an_object_store_are_looked_at_as_those_of_a_folder(landed: Lake) -> None:
    place = far(landed)
    assert place.folder is None
    opened = delta.open_table(place, BRONZE)
    assert list(file_troubles(place, BRONZE, opened)) == []
    assert list(false_statistics(place, BRONZE, opened)) == []
    cut, gone = (
        file_with(landed, BRONZE, 5, COMMANDS_TOPIC),
        file_with(landed, BRONZE, 0, COMMANDS_TOPIC),
    )
    cut.write_bytes(cut.read_bytes()[:100])
    gone.unlink()
    assert list(file_troubles(place, BRONZE, opened)) == list(
        file_troubles(landed, BRONZE, delta.open_table(landed, BRONZE))
    )
    assert len(list(file_troubles(place, BRONZE, opened))) == 2


def test_statistics_that_lie_are_told_in_an_object_store_too(landed: Lake) -> None:
    with_statistics(landed, DECISIONS, {"maxValues": {"log_offset": 2}})
    place = far(landed)
    [told] = false_statistics(place, DECISIONS, delta.open_table(place, DECISIONS))
    assert "silver/decisions" in told and "Delta's log says 2" in told


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_deletion_vectors_are_told_in_an_object_store_too(
    landed: Lake, has_checkpoint: bool
) -> None:
    if has_checkpoint:
        delta.open_table(landed, BRONZE).create_checkpoint()
        append_to_bronze(landed, [(BROKER_EVENTS_TOPIC, 0, 0, b"x")])
    test_deletion_vectors_which_no_release_writes_are_told(far(landed))


def test_a_checkpoint_that_is_damaged_or_gone_is_told_with_the_way_out(landed: Lake) -> None:
    opened = delta.open_table(landed, BRONZE)
    opened.create_checkpoint()
    [checkpoint] = (Path(landed.uri(BRONZE)) / "_delta_log").glob("*.checkpoint.parquet")
    checkpoint.write_bytes(b"PAR1")
    with pytest.raises(LakehouseError, match="checkpoint.parquet of bronze/records is damaged"):
        delta.read(landed, BRONZE)
    checkpoint.unlink()
    with pytest.raises(LakehouseError, match="names the checkpoint of version .* which is gone"):
        delta.read(landed, BRONZE)
    (checkpoint.parent / "_last_checkpoint").unlink()
    assert delta.read(landed, BRONZE).num_rows


def test_a_commit_that_is_gone_from_behind_the_checkpoint_is_told(landed: Lake) -> None:
    delta.open_table(landed, BRONZE).create_checkpoint()
    for at in range(2):
        append_to_bronze(landed, [(BROKER_EVENTS_TOPIC, 0, at, b"x")])
    first, *others, gone, _ = sorted((Path(landed.uri(BRONZE)) / "_delta_log").glob("*.json"))
    for one in (first, *others, gone):
        one.unlink()
    with pytest.raises(LakehouseError, match=f"commit {gone.name} of bronze/records is gone: put"):
        delta.read(landed, BRONZE)


def test_a_partition_without_a_value_is_no_stack_of_the_library(landed: Lake) -> None:
    for commit in (Path(landed.uri(BRONZE)) / "_delta_log").glob("*.json"):
        text = commit.read_text("utf-8")
        commit.write_text(text.replace(f'"topic":"{COMMANDS_TOPIC}"', '"topic":null'), "utf-8")
    with pytest.raises(LakehouseError, match="table bronze/records cannot be read"):
        delta.read(landed, BRONZE)
