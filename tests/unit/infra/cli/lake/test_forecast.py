"""`regent forecast`, in the process."""

import json
from pathlib import Path

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED
from tests.support.control_history import NAME
from tests.support.error_line import error_line
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.unit.lakehouse.gold.gold_cases import failed_over

PAST, _ = failed_over()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables")
    land(lake_in(root), [*command_records(PAST.records), *outcome_records(PAST.records)])
    return root


def test_an_answer_for_people_and_one_for_programs(
    capsys: pytest.CaptureFixture[str], tables: Path
) -> None:
    assert main.main(["forecast", NAME, "--tables", str(tables)]) == EXIT_DONE
    assert "broker 3 leads in epoch 2" in capsys.readouterr().out
    assert main.main(["forecast", NAME, "--tables", str(tables), "--json"]) == EXIT_DONE
    model = json.loads(capsys.readouterr().out)
    assert [one["winner"] for one in model["succession"]] == [2, None] and model["limits"]


def test_an_unknown_set_is_one_line_with_the_known_ones(
    capsys: pytest.CaptureFixture[str], tables: Path
) -> None:
    assert main.main(["forecast", "broker-x", "--tables", str(tables)]) == EXIT_FAILED
    assert f"known sets: {NAME}" in error_line(capsys.readouterr().err)
