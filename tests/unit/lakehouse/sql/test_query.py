from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse.errors import LakehouseError, NotLanded
from lakehouse.sql.named_tables import KNOWN
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


def test_a_table_needs_no_layer_and_gold_is_meant_first(lake: Lake) -> None:
    for query in (
        "SELECT count(*) FROM {}",
        "SELECT count(*) FROM (SELECT * FROM {} AS f WHERE f.cluster_id <> '')",
        'SELECT count(*) FROM "{}"',
    ):
        assert rows(ask(lake, query.format("elections"))) == rows(
            ask(
                lake,
                query.format("elections").replace('"', "").replace("elections", "gold.elections"),
            )
        )
    assert rows(ask(lake, "SELECT count(*) FROM decisions")) == [(COUNT,)]
    assert rows(ask(lake, "WITH elections AS (SELECT 7 AS a) SELECT a FROM elections")) == [(7,)]


def test_moments_are_timestamps_too_and_no_name_needs_quotes(lake: Lake) -> None:
    found = ask(lake, "SELECT command_offset, at_time, at_ms FROM elections ORDER BY 1").rows
    assert found["at_time"].to_pylist() == [
        datetime.fromtimestamp(one / 1000, UTC) for one in found["at_ms"].to_pylist()
    ]
    assert rows(ask(lake, 'SELECT bool_and(command_offset = "offset") FROM elections')) == [(True,)]
    assert rows(
        ask(lake, "SELECT max(log_offset) FROM records WHERE topic = 'regent.commands'")
    ) == [(COUNT - 1,)]


def test_a_table_is_described_by_what_its_columns_mean(lake: Lake) -> None:
    told = ask(lake, "describe failovers;").rows.to_pylist()
    assert told == ask(lake, 'DESCRIBE TABLE "gold"."failovers"').rows.to_pylist()
    by_name = {one["column_name"]: one for one in told}
    spec = KNOWN["gold.failovers"]
    assert {name for name, one in by_name.items() if one["key"]} == set(spec.key)
    assert all(by_name[one.name]["meaning"] == one.meaning for one in spec.columns)
    assert by_name["at_time"]["null"] == "YES" and by_name["new_epoch"]["null"] == "NO"
    assert rows(ask(lake, "DESCRIBE SELECT 1 AS a"))[0][0] == "a"


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
        "SELECT * FROM failures",
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
