import deltalake
import pyarrow as pa
import pytest

from events.topics import COMMANDS_TOPIC
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.tables import delta
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, BY_NAME, DECISIONS, TABLES, UNREADABLE
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, land, outcome_records

REGISTER = BY_NAME["silver/register_broker"]


def test_tables_are_made_once_append_only_and_plain(lake: Lake) -> None:
    assert delta.ensure_tables(lake) == len(TABLES)
    assert delta.ensure_tables(lake) == 0
    for table in TABLES:
        found = delta.open_table(lake, table)
        assert found.metadata().configuration["delta.appendOnly"] == "true"
        assert found.metadata().description == table.meaning
        # Any reader can read them: no table features.
        assert found.protocol().min_reader_version == 1


def test_each_table_says_how_far_it_is(lake: Lake) -> None:
    history = with_master(1, 2)
    history.append(b"garbage")
    land(lake, command_records(history.records) + outcome_records(history.records)[:5])
    marks = delta.high_waters(lake, TABLES)
    last = len(history.records) - 1
    assert marks[BRONZE.name].marks == {(COMMANDS_TOPIC, 0): last, ("regent.outcomes", 0): 4}
    assert marks[DECISIONS.name].marks == {("regent.outcomes", 0): 4}
    assert marks[UNREADABLE.name].marks == {(COMMANDS_TOPIC, 0): last}
    assert marks["silver/ha_link_up"].marks == {}


def test_an_older_table_gets_the_columns_it_lacks(lake: Lake) -> None:
    older = pa.schema(list(REGISTER.schema)[:-1])
    deltalake.DeltaTable.create(lake.uri(REGISTER), older, partition_by=["cluster_id"])
    delta.ensure_tables(lake)
    assert delta.read(lake, REGISTER).schema.names == REGISTER.schema.names


def test_a_table_with_another_type_is_refused(lake: Lake) -> None:
    fields = [
        f if f.name != "broker_id" else pa.field("broker_id", pa.string()) for f in REGISTER.schema
    ]
    deltalake.DeltaTable.create(lake.uri(REGISTER), pa.schema(fields), partition_by=["cluster_id"])
    with pytest.raises(LakehouseError, match="column broker_id"):
        delta.ensure_tables(lake)


def test_a_table_that_does_not_keep_clusters_apart_is_refused(lake: Lake) -> None:
    """Made by an earlier release: nothing says whose its rows are."""
    fields = [field for field in REGISTER.schema if field.name != "cluster_id"]
    deltalake.DeltaTable.create(lake.uri(REGISTER), pa.schema(fields))
    with pytest.raises(LakehouseError, match="silver/register_broker .* land into a new folder"):
        delta.ensure_tables(lake)
    with pytest.raises(LakehouseError, match="did not keep clusters apart"):
        delta.read(lake, REGISTER)


def test_clusters_in_one_lake_do_not_see_each_other(lake: Lake) -> None:
    """Offsets of two logs are the same numbers."""
    first, second = with_master(1), with_master(1, 2)
    other = lake.of("cluster-2")
    land(lake, command_records(first.records))
    land(other, command_records(second.records))
    for own, past in ((lake, first), (other, second)):
        rows = delta.read(own, BRONZE)
        assert rows["value"].to_pylist() == past.records
        assert set(rows["cluster_id"].to_pylist()) == {own.cluster_id}
        assert delta.high_water(own, BRONZE).marks == {(COMMANDS_TOPIC, 0): len(past.records) - 1}
        assert delta.bronze_value(own, BRONZE, COMMANDS_TOPIC, 2) == past.records[2]
    assert delta.count_rows(lake.of(None), BRONZE) == len(first.records) + len(second.records)
    assert not set(_files(lake)) & set(_files(other))


def _files(lake: Lake) -> list[str]:
    return delta.active_files(lake, BRONZE, "topic", (COMMANDS_TOPIC,))[COMMANDS_TOPIC]


def test_a_table_that_is_not_there_is_named(lake: Lake) -> None:
    with pytest.raises(NotLanded, match="silver/decisions"):
        delta.read(lake, DECISIONS)


def test_one_landed_record_can_be_looked_up(lake: Lake) -> None:
    history = with_master(1)
    land(lake, command_records(history.records))
    value = delta.bronze_value(lake, BRONZE, COMMANDS_TOPIC, 2)
    assert value == history.records[2]
    assert delta.bronze_value(lake, BRONZE, COMMANDS_TOPIC, 99) is None
    assert delta.count_rows(lake, BRONZE) == len(history.records)


def test_files_are_listed_by_topic(lake: Lake) -> None:
    history = with_master(1)
    land(lake, command_records(history.records))
    files = delta.active_files(lake, BRONZE, "topic", (COMMANDS_TOPIC, "regent.outcomes"))
    assert (len(files[COMMANDS_TOPIC]), files["regent.outcomes"]) == (1, [])
