"""The doctor tells of a landing job that is dead, failed, late or in trouble."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from infra.doctor import landing, target
from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL, OK, WARN
from infra.doctor.landing import LandingPlace
from lakehouse.landing.status import STATUS_FILE, LandingStatus, StatusFile

START = "regent land --config land.toml"
COMMANDS = Commands(files={"land": ("land", Path("land.toml"))}, tables="tables")
LOG = Path("land.log")
NOW_MS = 1_700_000_000_000
LANDS = LandingStatus(
    ready=True, pid=17, stage="landing", alarms=0, lag_ms={"a-0": 300}, updated_at_ms=NOW_MS
)


@pytest.mark.parametrize(
    ("status", "lives", "verdict", "text", "way_out"),
    [
        (LANDS, True, OK, "the landing job (pid 17) lands", ""),
        (replace(LANDS, ready=False), True, OK, "the landing job (pid 17) landing", ""),
        (LANDS, False, FAIL, "the landing job (pid 17) does not run", START),
        (replace(LANDS, error="no room"), True, FAIL, "the landing job failed: no room", START),
        (replace(LANDS, error="no room"), False, FAIL, "the landing job failed: no room", START),
        (
            replace(LANDS, alarms=2),
            True,
            FAIL,
            "2 alarm(s) stand",
            "regent lake check --tables tables",
        ),
        (
            replace(LANDS, lag_ms={"a-0": 90_000}),
            True,
            WARN,
            "records have waited 90 s",
            "land.log",
        ),
        (replace(LANDS, troubles={"check": "slow"}), True, WARN, "check fails: slow", "land.log"),
        (replace(LANDS, updated_at_ms=1), True, FAIL, "the landing job (pid 17) has said", START),
        (
            replace(LANDS, ready=False, updated_at_ms=1),
            True,
            WARN,
            "the landing job (pid 17) is at 'landing' for",
            "land.log",
        ),
    ],
)
def test_what_a_status_says(
    status: LandingStatus, lives: bool, verdict: str, text: str, way_out: str
) -> None:
    (one,) = landing.told_by(status, COMMANDS, LOG, lives=lives, now_ms=NOW_MS)
    assert one.verdict == verdict and one.text.startswith(text) and way_out in one.command


def test_the_file_is_read_and_its_process_looked_for(tmp_path: Path) -> None:
    place = LandingPlace(tmp_path)
    assert landing.check(None, COMMANDS) == []
    assert [one.verdict for one in landing.check(place, COMMANDS)] == [WARN]
    status = StatusFile(tmp_path)
    status.update(ready=True)
    assert [one.verdict for one in landing.check(place, COMMANDS)] == [OK]
    assert str(os.getpid()) in landing.check(place, COMMANDS)[0].text


@pytest.mark.parametrize("content", ["", "[1]", "{", "null"])
def test_a_file_that_is_no_status_fails(content: str, tmp_path: Path) -> None:
    (tmp_path / STATUS_FILE).write_text(content)
    (one,) = landing.check(LandingPlace(tmp_path), COMMANDS)
    assert one.verdict == FAIL and one.command == START


def test_a_landing_job_s_configuration_is_known(tmp_path: Path) -> None:
    path = tmp_path / "land.toml"
    path.write_text(
        f'tables = "{tmp_path}/tables"\ncheckpoint_dir = "{tmp_path}/work"\n'
        f'jars_dir = "{tmp_path}"\n'
        '[kafka]\n"bootstrap.servers" = "k:9092"\n'
    )
    found = target.of_file(path)
    assert found.landing == LandingPlace(tmp_path / "work")
    assert found.commands().start("land") == f"regent land --config {path}"
    assert found.kafka == {"bootstrap.servers": "k:9092"} and found.controllers == {}
