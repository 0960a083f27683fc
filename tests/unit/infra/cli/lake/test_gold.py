import json
from pathlib import Path

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from tests.support.error_line import error_line
from tests.support.judged_history import sound_history
from tests.support.landed_log import (
    append_to_bronze,
    command_records,
    lake_in,
    land,
    outcome_records,
)

RECORDS = sound_history().records


def test_it_says_what_was_done_and_up_to_where_gold_speaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land(lake_in(tmp_path), [*command_records(RECORDS), *outcome_records(RECORDS)])
    assert main.main(["lake", "gold", "--tables", str(tmp_path)]) == EXIT_DONE
    told = capsys.readouterr().out
    assert told.startswith(f"cluster cluster-1: {len(RECORDS)} commands folded, ")
    assert "nothing more has landed" in told
    assert main.main(["lake", "gold", "--tables", str(tmp_path), "--json"]) == EXIT_DONE
    document = json.loads(capsys.readouterr().out)
    assert (document["commands"], document["rows"], document["offset"], document["fresh"]) == (
        0,
        0,
        len(RECORDS) - 1,
        True,
    )
    assert (
        main.main(["lake", "gold", "--tables", str(tmp_path), "--json", "--from-start"])
        == EXIT_DONE
    )
    assert json.loads(capsys.readouterr().out)["commands"] == len(RECORDS)


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["lake", "gold", "--tables", str(tmp_path / "none")]) == EXIT_FAILED
    assert "no tables in" in capsys.readouterr().err
    land(lake_in(tmp_path), command_records(RECORDS)[:3])
    append_to_bronze(lake_in(tmp_path), command_records(RECORDS)[5:])
    land(lake_in(tmp_path), outcome_records(RECORDS))
    assert main.main(["lake", "gold", "--tables", str(tmp_path), "--every", "0"]) == EXIT_USAGE
    assert error_line(capsys.readouterr().err)
    assert main.main(["lake", "gold", "--tables", str(tmp_path)]) == EXIT_FAILED
    assert "command 3 never landed" in error_line(capsys.readouterr().err)
