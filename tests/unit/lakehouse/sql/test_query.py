from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.sql.query import Answer, WrongQuery, ask
from lakehouse.tables.lake import Lake
from tests.support.control_history import NAME
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.unit.lakehouse.gold.gold_cases import failed_over

PAST, OFFSET = failed_over()
COUNT = len(PAST.records)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A history with one failover; nothing writes to it."""
    found = lake_in(tmp_path_factory.mktemp("lake"))
    land(found, [*command_records(PAST.records), *outcome_records(PAST.records)])
    return found


def rows(answer: Answer) -> list[tuple[object, ...]]:
    return list(zip(*(column.to_pylist() for column in answer.rows.columns), strict=True))


def test_tables_of_every_layer_can_be_joined(lake: Lake) -> None:
    answer = ask(
        lake,
        """
        SELECT f.broker_name, f.new_master, d.kind, b.topic
        FROM gold.failovers f
        JOIN silver.decisions d ON d.command_offset = f."offset"
        JOIN bronze.records b ON b."offset" = f."offset" AND b.topic = 'regent.commands'
    """,
    )
    assert rows(answer) == [(NAME, 3, "ElectMaster", "regent.commands")]
    assert answer.gold is not None and answer.gold.offset == COUNT - 1


def test_structs_maps_and_lists_are_reached_into(lake: Lake) -> None:
    answer = ask(
        lake,
        "SELECT e.broker_id, e.alive FROM (SELECT unnest(evidence) e FROM gold.elections WHERE "
        "winner = 3) ORDER BY 1",
    )
    assert rows(answer) == [(1, False), (2, True), (3, True)]
    assert rows(
        ask(
            lake,
            "SELECT phases['applied'] IS NOT NULL, len(labels) FROM gold.elections WHERE "
            f'"offset" = {OFFSET}',
        )
    ) == [(True, 0)]


def test_rows_stop_where_asked_and_say_whether_there_are_more(lake: Lake) -> None:
    every = ask(
        lake,
        "SELECT \"offset\" FROM bronze.records WHERE topic = 'regent.commands' ORDER BY 1 DESC",
    )
    assert (rows(every)[0], every.more, every.rows.num_rows) == ((COUNT - 1,), False, COUNT)
    some = ask(
        lake,
        "SELECT \"offset\" FROM bronze.records WHERE topic = 'regent.commands' ORDER BY 1 DESC",
        2,
    )
    assert (rows(some), some.more) == ([(COUNT - 1,), (COUNT - 2,)], True)
    assert not ask(lake, "SELECT 1", 1).more
    endless = ask(lake, "SELECT * FROM range(1000000000000)", 5)
    assert (endless.rows.num_rows, endless.more) == (5, True)


@pytest.mark.parametrize(
    "query",
    [
        "DESCRIBE gold.failovers",
        "SUMMARIZE gold.failovers",
        "EXPLAIN SELECT * FROM gold.failovers",
        "FROM gold.failovers",
        "WITH a AS (SELECT 1) FROM a",
    ],
)
def test_questions_about_tables_are_answered_too(lake: Lake, query: str) -> None:
    assert ask(lake, query).rows.num_rows


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM gold.failovers",
        "INSERT INTO gold.failovers SELECT * FROM gold.failovers",
        "DROP VIEW gold.failovers",
        "CREATE TABLE x AS SELECT 1",
        "COPY (SELECT 1) TO 'out.csv'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "SET threads = 1",
        "PRAGMA database_size",
        "SELECT 1; SELECT 2",
        "",
        "-- nothing",
        "SELEC 1",
        "SELECT * FROM (",
        "SELECT nope FROM gold.failovers",
        "SELECT * FROM failovers",
        "SELECT 'a'::INT",
    ],
)
def test_what_is_no_question_is_refused_in_one_line(
    lake: Lake, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WrongQuery) as caught:
        ask(lake, query)
    assert "\n" not in str(caught.value) and str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_query_reads_the_tables_and_nothing_else_of_the_machine(
    lake: Lake, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n", encoding="utf-8")
    here = pa.table({"a": [1]})
    for source in (
        f"read_csv('{secret}')",
        f"'{secret}'",
        f"read_text('{secret}')",
        f"glob('{tmp_path}/*')",
        "here",
    ):
        with pytest.raises(LakehouseError):
            ask(lake, f"SELECT * FROM {source}")
    assert here.num_rows == 1


def test_a_table_that_is_none_is_told(lake: Lake) -> None:
    with pytest.raises(NotLanded, match="did you mean gold.failovers"):
        ask(lake, "SELECT * FROM gold.failover")


def test_a_damaged_table_is_told(tmp_path: Path) -> None:
    lake = lake_in(tmp_path)
    land(lake, [*command_records(PAST.records), *outcome_records(PAST.records)])
    for path in tmp_path.glob("silver/decisions/**/*.parquet"):
        path.write_bytes(b"no table" * 10)
    with pytest.raises(LakehouseError, match="table silver/decisions cannot be read") as caught:
        ask(lake, "SELECT * FROM silver.decisions")
    assert not isinstance(caught.value, WrongQuery)
