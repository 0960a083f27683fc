"""How far the tables are, asked beside a controller's start: an answer in time, or none."""

import logging
from pathlib import Path

import pytest

from processors.log import landed_tables
from processors.log.landed_tables import LandedTables, shorter_than_tables
from tests.support.control_history import CLUSTER_ID, with_master
from tests.support.landed_log import command_records, lake_in, land

RECORDS = with_master(1, 2).records


def test_the_last_offset_that_landed_is_told(tmp_path: Path) -> None:
    land(lake_in(tmp_path), command_records(RECORDS))
    assert LandedTables(str(tmp_path), CLUSTER_ID, 60).offset() == len(RECORDS) - 1
    assert LandedTables(str(tmp_path), "another", 60).offset() == -1


def test_without_tables_nobody_is_asked(tmp_path: Path) -> None:
    assert LandedTables("", CLUSTER_ID).offset() == -1
    assert LandedTables(str(tmp_path / "nothing"), CLUSTER_ID, 60).offset() == -1


def test_who_is_slow_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "never_answers.py").write_text("import signal\nwhile True: signal.pause()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(landed_tables, "PROGRAM", "never_answers")
    with caplog.at_level(logging.WARNING):
        assert LandedTables(str(tmp_path), CLUSTER_ID, 0.01).offset() == -1
    assert "no answer in time" in caplog.text


@pytest.mark.parametrize(
    ("program", "said"),
    [("this", "an answer that is no offset"), ("no.such.module", "No module named")],
)
def test_who_cannot_answer_is_told_of(
    program: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(landed_tables, "PROGRAM", program)
    assert LandedTables("tables", CLUSTER_ID, 60).offset() == -1
    assert said in caplog.text


def test_a_start_that_is_given_up_leaves_no_process_behind(tmp_path: Path) -> None:
    asked = LandedTables(str(tmp_path), CLUSTER_ID)
    process = asked._asked
    assert process is not None
    asked.close()
    assert process.poll() is not None and asked.offset() == -1


def test_the_words_name_the_tables_and_the_way_out() -> None:
    text = shorter_than_tables(5, 7, "/srv/tables")
    assert (
        "ends at offset 5" in text
        and ("up to offset 7 have landed in /srv/tables") in text
        and "regent controller rebuild" in text
    )
