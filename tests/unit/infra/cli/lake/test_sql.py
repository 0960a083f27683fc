import csv
import io
import json
from pathlib import Path

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.support.error_line import error_line
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.unit.lakehouse.gold.gold_cases import failed_over

PAST, OFFSET = failed_over()
COUNT = len(PAST.records)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history with one failover; nothing writes to it."""
    root = tmp_path_factory.mktemp("tables")
    land(lake_in(root), [*command_records(PAST.records), *outcome_records(PAST.records)])
    return root


def said(capsys: pytest.CaptureFixture[str], tables: Path, *words: str) -> str:
    assert main.main(["sql", *words, "--tables", str(tables)]) == EXIT_DONE
    return capsys.readouterr().out


def refused(
    capsys: pytest.CaptureFixture[str], tables: Path, *words: str, code: int = EXIT_FAILED
) -> str:
    assert main.main(["sql", *words, "--tables", str(tables)]) == code
    return error_line(capsys.readouterr().err)


def test_an_answer_is_a_table_or_json_or_csv(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query = "SELECT new_epoch, phases FROM gold.failovers"
    text = said(capsys, tables, query)
    assert "new_epoch" in text and f"1 rows; gold speaks up to command {COUNT - 1}" in text
    model = json.loads(said(capsys, tables, query, "--json"))
    assert model["rows"][0]["new_epoch"] == 2
    assert (model["more"], model["as_of"]["offset"]) == (False, COUNT - 1)
    assert (
        next(csv.DictReader(io.StringIO(said(capsys, tables, query, "--csv"))))["new_epoch"] == "2"
    )


def test_a_limit_is_told_when_it_was_reached(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ("2 rows; there are more, --limit 2 was reached") in said(
        capsys, tables, "SELECT * FROM silver.decisions", "--limit", "2"
    )
    assert json.loads(said(capsys, tables, "SELECT * FROM range(2000)", "--json"))["more"]
    assert (
        len(
            json.loads(said(capsys, tables, "SELECT * FROM range(2000)", "--json", "--limit", "0"))[
                "rows"
            ]
        )
        == 2000
    )


def test_without_a_query_the_tables_are_listed(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "gold.failovers" in said(capsys, tables)
    assert "offset" in json.loads(said(capsys, tables, "--json"))["bronze.records"]["columns"]


@pytest.mark.parametrize(("words", "told"), [
    (["DROP TABLE gold.failovers"], "the tables are history"),
    (["SELEC 1"], "syntax error"),
    (["SELECT 1", "--csv", "--json"], "--csv and --json are two answers"),
    (["SELECT 1", "--limit", "-1"], "less than nothing"),
])  # fmt: skip
def test_wrong_usage_is_one_line(
    tables: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refused(capsys, tables, *words, code=EXIT_USAGE)


def test_what_is_not_there_is_one_line(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "did you mean gold.failovers" in refused(capsys, tables, "SELECT * FROM gold.failover")
    assert "no tables in" in refused(capsys, tmp_path / "none", "SELECT 1")


def test_spark_without_java_is_one_line(
    tables: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("HOME", "/nowhere")
    assert "Java" in refused(capsys, tables, "SELECT 1", "--spark")
