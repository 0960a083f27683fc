import deltalake
import pyarrow as pa
import pytest

from events.topics import COMMANDS_TOPIC
from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.tables import delta
from lakehouse.tables.columns import Column
from lakehouse.tables.lake import Lake, lake_at
from lakehouse.tables.specs import (
    BRONZE,
    BY_NAME,
    CLUSTER,
    DECISIONS,
    LANDING_TABLES,
    TABLES,
    UNREADABLE,
    TableSpec,
)
from tests.support.control_history import with_master
from tests.support.landed_log import command_records, land, outcome_records

REGISTER = BY_NAME["silver/register_broker"]


def test_tables_are_made_once_append_only_and_plain(lake: Lake) -> None:
    assert delta.ensure_tables(lake) == len(LANDING_TABLES)
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


def test_a_column_of_another_tool_keeps_no_rows_out(lake: Lake) -> None:
    own = TableSpec(
        name="gold/own",
        meaning="Own.",
        columns=(CLUSTER, Column("number", pa.int64(), "A number.")),
        key=("cluster_id",),
        partition_column="number",
        offset_column="number",
        properties={},
    )
    row = {"cluster_id": lake.cluster_id}
    delta.ensure_table(lake, own)
    delta.append_rows(lake, own, [row | {"number": 1}])
    delta.open_table(lake, own).alter.add_columns([deltalake.Field("note", "string")])
    delta.append_rows(lake, own, [row | {"number": 2}])
    assert delta.read(lake, own)["number"].to_pylist() == [1, 2]
    delta.replace_rows(lake, own, [row | {"number": 3}])
    assert delta.read(lake, own)["number"].to_pylist() == [3]


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
        assert delta.bronze_value(own, BRONZE, (COMMANDS_TOPIC, 0), 2) == past.records[2]
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
    value = delta.bronze_value(lake, BRONZE, (COMMANDS_TOPIC, 0), 2)
    assert value == history.records[2]
    assert delta.bronze_value(lake, BRONZE, (COMMANDS_TOPIC, 0), 99) is None
    assert delta.count_rows(lake, BRONZE) == len(history.records)


def test_files_are_listed_by_topic(lake: Lake) -> None:
    history = with_master(1)
    land(lake, command_records(history.records))
    files = delta.active_files(lake, BRONZE, "topic", (COMMANDS_TOPIC, "regent.outcomes"))
    assert (len(files[COMMANDS_TOPIC]), files["regent.outcomes"]) == (1, [])


def test_a_table_that_stays_open_takes_rows_beside_other_writers(lake: Lake) -> None:
    """Another process appends, adds a column and merges files meanwhile."""
    past = with_master(1, 2)
    land(lake, command_records(past.records))
    rows = delta.read(lake, BRONZE)
    opened, folder = delta.OpenTables(lake), lake.uri(BRONZE)
    opened.append(BRONZE, rows)
    deltalake.write_deltalake(folder, rows, mode="append")
    opened.append(BRONZE, rows)
    deltalake.DeltaTable(folder).alter.add_columns(
        [deltalake.Field("later", "string", nullable=True)]
    )
    opened.append(BRONZE, rows)
    deltalake.DeltaTable(folder).optimize.compact()
    opened.append(BRONZE, rows)
    more = rows.append_column("latest", pa.array(["x"] * rows.num_rows))
    opened.append(BRONZE, more)
    found = deltalake.DeltaTable(folder).to_pyarrow_table()
    assert found.num_rows == 7 * rows.num_rows
    assert found["later"].null_count == found.num_rows
    assert found["latest"].null_count == 6 * rows.num_rows


def test_an_append_that_cannot_be_is_told_and_the_table_opened_anew(lake: Lake) -> None:
    past = with_master(1, 2)
    land(lake, command_records(past.records))
    rows, opened = delta.read(lake, BRONZE), delta.OpenTables(lake)
    opened.append(BRONZE, rows)
    wrong = rows.set_column(
        rows.schema.get_field_index("offset"), "offset", [["no number"] * rows.num_rows]
    )
    with pytest.raises(LakehouseError, match=f"table {BRONZE.name} cannot be written"):
        opened.append(BRONZE, wrong)
    opened.append(BRONZE, rows)
    assert delta.count_rows(lake, BRONZE) == 3 * rows.num_rows
    with pytest.raises(NotLanded):
        delta.OpenTables(lake_at(f"{lake.root}/none")).append(BRONZE, rows)


def test_a_release_that_words_a_column_otherwise_appends_all_the_same(lake: Lake) -> None:
    past = with_master(1, 2)
    land(lake, command_records(past.records))
    rows = delta.read(lake, BRONZE)
    other = pa.schema(
        [one.with_metadata({"comment": f"Other words of {one.name}."}) for one in rows.schema]
    )
    delta.OpenTables(lake).append(BRONZE, rows.cast(other))
    meanings = {
        one.name: one.metadata for one in delta.arrow_schema(delta.open_table(lake, BRONZE))
    }
    assert delta.count_rows(lake, BRONZE) == 2 * rows.num_rows
    assert (
        meanings["offset"][b"comment"].decode()
        == BRONZE.schema.field("offset").metadata[b"comment"].decode()
    )
