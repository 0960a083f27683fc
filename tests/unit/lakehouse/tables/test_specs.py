import pytest

from events.broker_events import BROKER_EVENTS
from events.commands import COMMANDS
from lakehouse.tables.specs import (
    BRONZE,
    BY_NAME,
    COMMAND_TABLES,
    DECISIONS,
    EVENT_TABLES,
    TABLES,
    TableSpec,
    snake_case,
)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_is_whole(table: TableSpec) -> None:
    names = table.schema.names
    assert len(set(names)) == len(names)
    assert set(table.key) | set(table.partition_by) <= set(names)
    assert table.key[0] == table.partition_by[0] == names[0] == "cluster_id"
    assert len(set(table.key)) == len(table.key)
    assert {table.partition_column, table.offset_column} <= set(names)
    assert {check.column for check in table.checks} <= set(names)
    assert table.meaning
    assert all(column.meaning for column in table.columns)
    assert table.layer in ("bronze", "silver")


def test_every_kind_of_record_has_its_table() -> None:
    assert [t.kind for t in COMMAND_TABLES] == sorted(cls.__name__ for cls in COMMANDS)
    assert [t.kind for t in EVENT_TABLES] == sorted(cls.__name__ for cls in BROKER_EVENTS)
    assert len(BY_NAME) == len(TABLES)


def test_decisions_hold_every_field_of_an_outcome() -> None:
    assert {"accepted", "refusal", "code", "labels", "changes", "digest", "phases"} <= set(
        DECISIONS.schema.names
    )


def test_bronze_is_partitioned_by_cluster_and_topic() -> None:
    assert BRONZE.partition_by == ("cluster_id", "topic")


def test_what_a_command_says_of_its_cluster_stands_beside_whose_log_it_is() -> None:
    """A command of another cluster lies in this log all the same, and is refused."""
    table = BY_NAME["silver/elect_master"]
    assert {"cluster_id", "stated_cluster_id"} <= set(table.schema.names)


def test_names_of_kinds_become_names_of_tables() -> None:
    assert snake_case("AlterSyncStateSet") == "alter_sync_state_set"
