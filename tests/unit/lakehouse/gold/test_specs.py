import pytest

from lakehouse.gold.specs import GOLD_BY_NAME, GOLD_PROPERTIES, GOLD_TABLES, GoldTableSpec
from lakehouse.tables.specs import BY_NAME


@pytest.mark.parametrize("table", GOLD_TABLES, ids=lambda table: table.name)
def test_a_gold_table_is_whole(table: GoldTableSpec) -> None:
    names = table.schema.names
    assert len(set(names)) == len(names)
    assert {*table.key, *table.cluster_by, table.partition_column, table.offset_column} <= set(
        names
    )
    assert {check.column for check in table.checks} <= set(names)
    assert table.meaning
    assert all(column.meaning for column in table.columns)
    assert table.layer == "gold"


@pytest.mark.parametrize("table", GOLD_TABLES, ids=lambda table: table.name)
def test_the_key_begins_with_the_cluster_and_is_never_null(table: GoldTableSpec) -> None:
    assert table.key[0] == "cluster_id"
    assert not [
        column.name for column in table.columns if column.name in table.key and column.nullable
    ]


@pytest.mark.parametrize("table", GOLD_TABLES, ids=lambda table: table.name)
def test_times_and_bytes_say_their_unit(table: GoldTableSpec) -> None:
    for column in table.columns:
        if column.name.endswith("_bytes"):
            assert "bytes" in column.meaning, column.name
        if column.name in ("at_ms", "from_ms", "to_ms") or "unavailable" in column.name:
            assert "ms" in column.meaning, column.name


def test_gold_rows_may_be_replaced_and_stand_beside_the_landed_tables() -> None:
    assert GOLD_PROPERTIES["delta.appendOnly"] == "false"
    assert len(GOLD_BY_NAME) == len(GOLD_TABLES)
    assert not set(GOLD_BY_NAME) & set(BY_NAME)
