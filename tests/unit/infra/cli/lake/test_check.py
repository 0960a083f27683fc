import json
from pathlib import Path

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED
from lakehouse.landing.status import StatusFile
from lakehouse.tables import delta
from lakehouse.tables.losses import Loss, loss_rows
from lakehouse.tables.specs import ACCEPTED, LOSSES
from tests.support.error_line import error_line
from tests.support.judged_history import sound_history
from tests.support.landed_log import (
    append_to_bronze,
    command_records,
    event_records,
    lake_in,
    land,
    outcome_records,
)

RECORDS = sound_history().records


def test_a_sound_history_ends_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    land(lake_in(tmp_path), [*command_records(RECORDS), *outcome_records(RECORDS)])
    assert main.main(["lake", "check", "--tables", str(tmp_path)]) == EXIT_DONE
    assert capsys.readouterr().out.startswith("sound: ")


def test_a_gap_ends_with_1_and_one_document_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land(lake_in(tmp_path), [*command_records(RECORDS)[:5], *outcome_records(RECORDS)])
    append_to_bronze(lake_in(tmp_path), command_records(RECORDS)[7:])
    assert main.main(["lake", "check", "--tables", str(tmp_path), "--json"]) == EXIT_FAILED
    document = json.loads(capsys.readouterr().out)
    assert document["gaps"] == [{"topic": "regent.commands", "partition": 0, "first": 5, "last": 6}]
    assert (document["violations"], document["exit_code"]) == ({}, EXIT_FAILED)


def test_missing_and_empty_tables_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["lake", "check", "--tables", str(tmp_path / "none")]) == EXIT_FAILED
    assert "no tables in" in capsys.readouterr().err
    assert main.main(["lake", "check", "--tables", str(tmp_path)]) == EXIT_FAILED
    assert error_line(capsys.readouterr().err)


def with_losses(root: Path, *losses: Loss) -> None:
    """A lake in which commands 5 and 6 and three events are missing."""
    lake = lake_in(root)
    land(lake, [*command_records(RECORDS)[:5], *outcome_records(RECORDS)])
    append_to_bronze(lake, command_records(RECORDS)[7:])
    events = event_records([b"x"] * 9, 2)
    append_to_bronze(lake, events[:4])
    append_to_bronze(lake, events[7:])
    tables = delta.OpenTables(lake)
    tables.append(LOSSES, loss_rows(str(lake.cluster_id), losses))


EVENTS = Loss("regent.broker-events", 2, 4, 6, found_ms=1_000)
COMMANDS = Loss("regent.commands", 0, 5, 6, ACCEPTED, 2_000)


def test_a_noted_loss_is_told_and_no_alarm_and_what_is_not_noted_stays_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_losses(tmp_path, EVENTS)
    assert main.main(["lake", "check", "--tables", str(tmp_path)]) == EXIT_FAILED
    told = capsys.readouterr().out
    assert "gap: bronze/records, regent.commands-0 offsets 5 to 6 never landed" in told
    assert f"\n  noted loss: {EVENTS.said}\n" in told and told.count("gap:") == 1


def test_an_accepted_gap_clears_its_alarm(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_losses(tmp_path, EVENTS)
    assert main.main(["lake", "check", "--tables", str(tmp_path)]) == EXIT_FAILED
    delta.OpenTables(lake_in(tmp_path)).append(LOSSES, loss_rows("cluster-1", [COMMANDS]))
    capsys.readouterr()
    assert main.main(["lake", "check", "--tables", str(tmp_path), "--json"]) == EXIT_DONE
    document = json.loads(capsys.readouterr().out)
    assert [(one["topic"], one["from_offset"], one["why"]) for one in document["losses"]] == [
        ("regent.broker-events", 4, "RETENTION"),
        ("regent.commands", 5, "ACCEPTED"),
    ]
    assert (document["losses_noted"], document["gaps"], document["landing"]) == (2, [], None)


def test_a_gap_that_is_noted_in_part_is_an_alarm_about_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_losses(tmp_path, Loss("regent.broker-events", 2, 4, 5), COMMANDS)
    assert main.main(["lake", "check", "--tables", str(tmp_path)]) == EXIT_FAILED
    assert "gap: bronze/records, regent.broker-events-2 offsets 6 to 6" in capsys.readouterr().out


def test_a_landing_job_that_is_dead_is_told_beside_the_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land(lake_in(tmp_path / "t"), [*command_records(RECORDS), *outcome_records(RECORDS)])
    words = ["lake", "check", "--tables", str(tmp_path / "t"), "--work-dir", str(tmp_path / "w")]

    def told() -> str:
        assert main.main(words) == EXIT_DONE
        return capsys.readouterr().out

    assert "nothing lands" not in told(), "no job is known"
    status = StatusFile(tmp_path / "w")
    status.update(ready=True, stage="landing")
    assert "nothing lands" not in told()
    status.update(pid=2**22 + 1)
    assert "  nothing lands: the landing job (pid 4194305) does not run; its last stage" in told()
    status.update(error="the log is gone")
    assert "nothing lands: the landing job failed: the log is gone. Put that right" in told()
