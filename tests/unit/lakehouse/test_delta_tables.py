from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from events.topics import COMMANDS_TOPIC
from lakehouse import delta_tables
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.tables import BRONZE, BY_NAME, DECISIONS, TABLES, UNREADABLE
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, land, outcome_records

REGISTER = BY_NAME["silver/register_broker"]


def test_tables_are_made_once_append_only_and_plain(tmp_path: Path) -> None:
    assert delta_tables.ensure_tables(tmp_path) == len(TABLES)
    assert delta_tables.ensure_tables(tmp_path) == 0
    for table in TABLES:
        found = delta_tables.open_table(tmp_path, table)
        assert found.metadata().configuration["delta.appendOnly"] == "true"
        assert found.metadata().description == table.meaning
        # Any reader can read them: no table features.
        assert found.protocol().min_reader_version == 1


def test_each_table_says_how_far_it_is(tmp_path: Path) -> None:
    history = with_master(1, 2)
    history.append(b"garbage")
    land(tmp_path, command_records(history.records) + outcome_records(history.records)[:5])
    marks = delta_tables.high_waters(tmp_path, TABLES)
    last = len(history.records) - 1
    assert marks[BRONZE.name].marks == {(COMMANDS_TOPIC, 0): last, ("regent.outcomes", 0): 4}
    assert marks[DECISIONS.name].marks == {("regent.outcomes", 0): 4}
    assert marks[UNREADABLE.name].marks == {(COMMANDS_TOPIC, 0): last}
    assert marks["silver/ha_link_up"].marks == {}


def test_an_older_table_gets_the_columns_it_lacks(tmp_path: Path) -> None:
    path = delta_tables.table_path(tmp_path, REGISTER)
    older = pa.schema(list(REGISTER.schema)[:-1])
    deltalake.DeltaTable.create(str(path), older)
    delta_tables.ensure_tables(tmp_path)
    assert delta_tables.read(tmp_path, REGISTER).schema.names == REGISTER.schema.names


def test_a_table_with_another_type_is_refused(tmp_path: Path) -> None:
    fields = [f if f.name != "broker_id" else pa.field("broker_id", pa.string())
              for f in REGISTER.schema]  # fmt: skip
    deltalake.DeltaTable.create(
        str(delta_tables.table_path(tmp_path, REGISTER)), pa.schema(fields)
    )
    with pytest.raises(LakehouseError, match="column broker_id"):
        delta_tables.ensure_tables(tmp_path)


def test_a_table_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotLanded, match="silver/decisions"):
        delta_tables.read(tmp_path, DECISIONS)


def test_one_landed_record_can_be_looked_up(tmp_path: Path) -> None:
    history = with_master(1)
    land(tmp_path, command_records(history.records))
    value = delta_tables.bronze_value(tmp_path, BRONZE, COMMANDS_TOPIC, 2)
    assert value == history.records[2]
    assert delta_tables.bronze_value(tmp_path, BRONZE, COMMANDS_TOPIC, 99) is None
    assert delta_tables.count_rows(tmp_path, BRONZE) == len(history.records)


def test_files_are_listed_by_topic(tmp_path: Path) -> None:
    history = with_master(1)
    land(tmp_path, command_records(history.records))
    files = delta_tables.active_files(tmp_path, BRONZE, "topic", (COMMANDS_TOPIC, "regent.outcomes"))
    assert (len(files[COMMANDS_TOPIC]), files["regent.outcomes"]) == (1, [])
