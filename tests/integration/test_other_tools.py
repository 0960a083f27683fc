"""The tables in the tools of an analyst, real ones: DuckDB with its extension for Delta, dbt,
SQLAlchemy as Superset uses it, and Iceberg's own REST catalogue, read by PyIceberg and DuckDB.

Given the lake of the guide, with its gold made.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import lakehouse
from infra.cli import main
from lakehouse.sql.frames import LakeTables
from tests.support import tool_examples
from tests.support.analyst_tools import Tools, rest_catalogue, tools
from tests.support.lake_guide import BLOCK, GUIDE, make_lake

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
READ = ("parquet", "json", "avro", "httpfs", "iceberg")
FAILOVERS = "SELECT new_epoch, unavailable_ms, len(phases) FROM {}gold.failovers ORDER BY new_epoch"
LANDED = "SELECT topic, count(*) FROM {}bronze.records GROUP BY topic ORDER BY topic"
ACCEPTED = "SELECT count(*) FROM {}silver.decisions WHERE accepted AND cluster_id = 'generated'"
READ_BY_PYICEBERG = """
import json, sys
from pyiceberg.catalog import load_catalog
table = load_catalog("regent", uri=sys.argv[1]).load_table("gold.controller_terms")
found = table.scan(row_filter="note = 'late'", selected_fields=("term", "tags"))
print(json.dumps(found.to_arrow().to_pylist()))
"""
BOTH_SAY = (FAILOVERS, LANDED, ACCEPTED)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose lake has its gold."""
    home = make_lake(tmp_path_factory.mktemp("guide"))
    assert main.main(["lake", "gold", "--dir", str(home / ".regent")]) == 0
    return home


@pytest.fixture(scope="module")
def lake(home: Path) -> LakeTables:
    return lakehouse.open(home / ".regent")


@pytest.fixture(scope="module")
def analyst() -> Tools:
    return tools()


@pytest.fixture(scope="module")
def database(home: Path, analyst: Tools) -> Path:
    """A file of DuckDB in which the views were made."""
    made = analyst.verb("lake", "views", "--dir", str(home / ".regent"))
    assert made.returncode == 0, made.stderr
    place = home / "lake.duckdb"
    analyst.asked([], place, analyst.extensions(home), [made.stdout], read_only=False)
    return place


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with rest_catalogue(tmp_path_factory.mktemp("catalogue")) as address:
        yield address


def block(kind: str, begins: str = "") -> str:
    """The only block of the guide of that kind that begins so."""
    [found] = [
        body
        for one, body in BLOCK.findall(GUIDE.read_text("utf-8"))
        if one == kind
        if body.startswith(begins)
    ]
    return found


def rows(lake: LakeTables, query: str) -> list[list[Any]]:
    """Regent's own answer, as JSON has it."""
    found = [list(row.values()) for row in lake.sql(query).to_arrow().to_pylist()]
    return json.loads(json.dumps(found, default=str))


@pytest.mark.parametrize("by", ["duckdb", "sqlalchemy"])
def test_a_strangers_duckdb_answers_as_regent_does(
    by: str, lake: LakeTables, database: Path, analyst: Tools
) -> None:
    queries = [query.format("") for query in BOTH_SAY]
    queries += [
        block("sql"),
        "SELECT epoch_ms(at_time), at_ms, command_offset FROM gold.elections ORDER BY 3",
    ]
    told = analyst.asked(queries, database, analyst.extensions(database.parent), by=by)
    assert told == [rows(lake, query) for query in queries]
    assert all(told)


def test_views_tell_what_their_columns_mean(database: Path, analyst: Tools) -> None:
    query = "SELECT comment FROM duckdb_columns() WHERE table_name = 'elections'"
    [told] = analyst.asked([query], database, analyst.extensions(database.parent))
    assert ["What the issuer knew about each replica; -1 for unknown, offsets in bytes."] in told
    assert all(comment for [comment] in told)


def test_every_query_of_grafana_and_superset_is_answered_there(
    lake: LakeTables, database: Path, analyst: Tools
) -> None:
    for by, queries in (
        ("duckdb", tool_examples.grafana_queries()),
        ("sqlalchemy", tool_examples.superset_queries()),
    ):
        told = analyst.asked(
            list(queries.values()), database, analyst.extensions(database.parent), by=by
        )
        assert len(told) == len(queries)
        assert [len(one) for one in told] == [len(rows(lake, q)) for q in queries.values()]


def test_dbt_builds_the_project_over_the_views(
    lake: LakeTables, database: Path, analyst: Tools
) -> None:
    """One model, its tests, and a test that compares it with its source."""
    home = database.parent
    analyst.extensions(home)
    said = analyst.run(
        str(analyst.python.with_name("dbt")),
        *("build", "--project-dir", str(tool_examples.DBT), "--profiles-dir"),
        *(str(tool_examples.DBT), "--target-path", str(home / "target")),
        *("--log-path", str(home / "logs"), "--no-use-colors"),
        HOME=str(home),
        LAKE_DUCKDB=str(database),
        MARTS_DUCKDB=str(home / "marts.duckdb"),
        DO_NOT_TRACK="1",
    )
    assert "PASS=4 WARN=0 ERROR=0" in said
    [[[failovers, unavailable_ms]]] = analyst.asked(
        ["SELECT sum(failovers), sum(unavailable_ms) FROM cost_of_failovers"],
        home / "marts.duckdb",
        home / ".duckdb" / "extensions",
    )
    [expected] = rows(lake, "SELECT count(*), sum(unavailable_ms) FROM gold.failovers")
    assert [int(failovers), int(unavailable_ms)] == [int(one) for one in expected]


@pytest.mark.spark
def test_spark_answers_by_its_path_and_by_its_name(
    home: Path,
    lake: LakeTables,
    spark: Any,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(home)
    # The Java process stands elsewhere.
    code = block("python", "found = spark.read").replace(".regent", str(home / ".regent"))
    exec(compile(code, str(GUIDE), "exec"), {"spark": spark})
    told = capsys.readouterr().out
    expected = rows(lake, block("sql"))
    assert [line.split("|")[1].strip() for line in told.splitlines()[3:-2]] == [
        cause for cause, *_ in expected
    ]
    assert main.main(["lake", "views", "--as", "spark", "--dir", ".regent"]) == 0
    made = [one for one in capsys.readouterr().out.split(";\n") if one.strip()]
    assert len(made) > 50
    try:
        for statement in made:
            if "failovers" in statement or "SCHEMA" in statement:
                spark.sql(statement)
        found = [list(row) for row in spark.sql(block("sql")).collect()]
        assert found == expected
    finally:
        for layer in ("gold", "silver", "bronze"):
            spark.sql(f"DROP SCHEMA IF EXISTS {layer} CASCADE")


def registered(analyst: Tools, home: Path, catalogue: str, *words: str) -> dict[str, Any]:
    done = analyst.verb(
        *("lake", "register", "--iceberg", catalogue, "--json", "--dir", str(home / ".regent")),
        *words,
    )
    assert done.returncode == 0, done.stderr
    return {one["name"]: one for one in json.loads(done.stdout)["tables"]}


def test_iceberg_readers_see_what_delta_holds_and_what_came_later(
    home: Path, lake: LakeTables, catalogue: str, analyst: Tools
) -> None:
    some = [
        word
        for name in ("gold.failovers", "bronze.records", "silver.decisions")
        for word in ("--table", name)
    ]
    first = registered(analyst, home, catalogue, *some)
    assert {one["added"] == one["files"] > 0 for one in first.values()} == {True}
    assert by_iceberg(analyst, home, catalogue) == [rows(lake, one.format("")) for one in BOTH_SAY]

    again = registered(analyst, home, catalogue, *some)
    assert {(one["added"], one["removed"]) for one in again.values()} == {(0, 0)}

    gold = ["lake", "gold", "--from-start", "--dir", str(home / ".regent")]
    assert main.main(gold) == 0
    third = registered(analyst, home, catalogue, *some)
    assert third["gold.failovers"]["added"] == third["gold.failovers"]["removed"] == 1
    assert by_iceberg(analyst, home, catalogue) == [rows(lake, one.format("")) for one in BOTH_SAY]


def test_every_table_can_be_registered(home: Path, catalogue: str, analyst: Tools) -> None:
    found = registered(analyst, home, catalogue, "--prefix", "all_")
    assert {name for name in found if name.startswith("all_gold.")} >= {
        "all_gold.failovers",
        "all_gold.elections",
    }
    assert len(found) > 50


def test_a_column_that_came_later_is_in_iceberg_too(
    home: Path, tmp_path: Path, analyst: Tools
) -> None:
    """The catalogue is a file; the list's values have the name that Arrow gives them."""
    shutil.copytree(home / ".regent", tmp_path / ".regent")
    uri, place = f"sqlite:///{tmp_path}/catalogue.db", f"warehouse=file://{tmp_path}/warehouse"
    words = ("--property", place, "--table", "gold.controller_terms")
    registered(analyst, tmp_path, uri, *words)
    table = f"{tmp_path}/.regent/data/tables/gold/controller_terms"
    [row] = deltalake.DeltaTable(table).to_pyarrow_table().slice(0, 1).to_pylist()
    grown = pa.Table.from_pylist([row | {"term": 99, "note": "late", "tags": ["a", "b"]}])
    deltalake.write_deltalake(table, grown, mode="append", schema_mode="merge")
    assert registered(analyst, tmp_path, uri, *words)["gold.controller_terms"]["added"] == 1
    told = analyst.run("-c", READ_BY_PYICEBERG, uri)
    assert json.loads(told) == [{"term": 99, "tags": ["a", "b"]}]


def test_a_catalogue_that_is_not_there_is_one_sentence(home: Path, analyst: Tools) -> None:
    words = ["lake", "register", "--iceberg", "http://127.0.0.1:9", "--dir", str(home / ".regent")]
    done = analyst.verb(*words)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "the catalogue at http://127.0.0.1:9 cannot be opened" in done.stderr


def by_iceberg(analyst: Tools, home: Path, catalogue: str) -> list[list[list[Any]]]:
    """DuckDB's answers over the REST catalogue."""
    extensions = analyst.extensions(home)
    attached = (
        f"ATTACH 'warehouse' AS lake (TYPE iceberg, ENDPOINT '{catalogue}', "
        "AUTHORIZATION_TYPE 'none')"
    )
    return analyst.asked(
        [one.format("lake.") for one in BOTH_SAY],
        ":memory:",
        extensions,
        [*(f"LOAD {name}" for name in READ), attached],
        read_only=False,
    )
