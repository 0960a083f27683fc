import json
from pathlib import Path

import pytest

from infra.cli import main
from infra.cli.lake import views
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.support.landed_log import command_records, lake_in, land
from tests.unit.lakehouse.gold.gold_cases import failed_over

RECORDS = command_records(failed_over()[0].records)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    land(lake_in(tmp_path), RECORDS)
    return tmp_path


def test_tables_that_are_there_are_named_and_others_told(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["lake", "views", "--tables", str(tables)]) == EXIT_DONE
    told = capsys.readouterr().out
    assert f"delta_scan('{tables}/silver/decisions')" in told
    assert "Not made yet: gold.broker_sets" in told and "gold/failovers" not in told
    words = ["lake", "views", "--as", views.SPARK, "--catalogue", "unity", "--json"]
    assert main.main([*words, "--tables", str(tables)]) == EXIT_DONE
    document = json.loads(capsys.readouterr().out)
    assert document["as"] == "spark" and "`unity`.silver.`decisions`" in document["text"]


def test_sources_of_dbt_need_no_lake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["lake", "views", "--as", views.DBT]) == EXIT_DONE
    assert "- name: failovers" in capsys.readouterr().out


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["lake", "views", "--tables", str(tmp_path / "none")]) == EXIT_FAILED
    assert "no tables in" in capsys.readouterr().err
    assert main.main(["lake", "views", "--catalogue", "unity"]) == EXIT_USAGE
    assert "--catalogue goes with --as spark" in capsys.readouterr().err
