"""
The gold job as a process of its own, killed again and again while history lands under it.

Whatever it was doing, the tables end up as if they had been made at once.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from lakehouse.delta_tables import open_table
from lakehouse.errors import NotLanded
from lakehouse.gold_progress import read_mark
from lakehouse.gold_reader import gold_standing
from lakehouse.gold_tables import GOLD_TABLES
from lakehouse.lake import Lake
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.support.made_gold import bring_up, job_of, rows_of
from tests.unit.lakehouse.gold_cases import wandering

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]

HISTORY = wandering(6, 240)
PIECES = 4
WAIT_S = 60
POLL_S = 0.01


class GoldProcess:
    """`regent lake gold`, again and again, on one lake."""

    def __init__(self, lake: Lake) -> None:
        words = ["lake", "gold", "--tables", lake.root, "--cluster", str(lake.cluster_id), "--every", "0.05", "--json"]
        self.process = subprocess.Popen([sys.executable, "-m", "infra", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def kill(self) -> None:
        """As the machine would."""
        self.process.kill()
        self.process.communicate()

    def stop(self) -> tuple[int, str, str]:
        """As an operator does; exit code and what it said."""
        self.process.terminate()
        said, error = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, said, error


def versions(lake: Lake) -> dict[str, int]:
    """How many commits each gold table has."""
    try:
        return {table.name: open_table(lake, table).version() for table in GOLD_TABLES}
    except NotLanded:
        return {}


def wait_for(lake: Lake, process: GoldProcess, what: str, chance: Random) -> None:
    """Until it has merged something of a run (`merge`), or brought gold up to all that has landed (`fresh`)."""
    before, until = versions(lake), time.monotonic() + WAIT_S
    while time.monotonic() < until:
        assert process.process.poll() is None, process.process.communicate()
        if what == "merge" and sum(versions(lake).values()) > sum(before.values()) + chance.randrange(6):
            return
        if what == "fresh" and read_mark(lake) is not None and gold_standing(lake).is_fresh:
            return
        time.sleep(POLL_S)
    raise AssertionError(f"no {what} within {WAIT_S} s: {versions(lake)}")


def test_killed_at_any_moment_gold_ends_up_as_made_at_once(tmp_path: Path) -> None:
    pairs = list(zip(command_records(HISTORY.records), outcome_records(HISTORY.records), strict=True))
    records, chance = [record for pair in pairs for record in pair], Random(1)
    lake = lake_in(tmp_path / "killed")
    land(lake, records[:2])
    marks = []
    for piece in range(1, PIECES + 1):
        process = GoldProcess(lake)
        try:
            if piece % 2:
                wait_for(lake, process, "fresh", chance)
            # Commands with their outcomes: gold waits for what was not published yet.
            land(lake, records[: len(pairs) * piece // PIECES * 2])
            wait_for(lake, process, "merge", chance)
        finally:
            process.kill()
        marks.append(read_mark(lake))
    assert marks[-1] is not None and any(mark != marks[-1] for mark in marks)
    process = GoldProcess(lake)
    try:
        wait_for(lake, process, "fresh", chance)
    finally:
        code, said, error = process.stop()
    assert (code, error) == (0, "")
    assert json.loads(said.splitlines()[-1])["offset"] == len(HISTORY.records) - 1
    again = lake_in(shutil.copytree(tmp_path / "killed", tmp_path / "again"))
    shutil.rmtree(f"{again.root}/gold")
    assert bring_up(job_of(again)) == len(HISTORY.records)
    assert rows_of(lake) == rows_of(again)
