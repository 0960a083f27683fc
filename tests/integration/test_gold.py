"""The gold job as a process of its own, killed again and again while history lands under it.

Whatever it was doing, the tables end up as if they had been made at once.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from lakehouse.gold.progress import read_mark
from lakehouse.gold.reader import gold_standing
from lakehouse.gold.specs import GOLD_TABLES
from lakehouse.tables.lake import Lake
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.support.made_gold import bring_up, job_of, rows_of
from tests.unit.lakehouse.gold.gold_cases import wandering

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]

HISTORY = wandering(6, 240)
PIECES = 4
MERGES_MAX = 6
"""A piece of this history changes more tables than that."""
WAIT_S = 180
POLL_S = 0.2
MERGE_S = 0.01
"""Merges follow one another within some ms."""


class GoldProcess:
    """`regent lake gold`, again and again, on one lake."""

    def __init__(self, lake: Lake, said: Path) -> None:
        self.said, self.trouble = said, said.with_suffix(".trouble")
        words = [
            "lake",
            "gold",
            "--tables",
            lake.root,
            "--cluster",
            str(lake.cluster_id),
            "--every",
            "0.05",
            "--json",
        ]
        with self.said.open("wb") as out, self.trouble.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "infra", *words], stdout=out, stderr=err
            )

    def wait_until(self, done: Callable[[], bool], what: str, every_s: float = POLL_S) -> None:
        """Until it has done that."""
        until = time.monotonic() + WAIT_S
        while not done():
            assert self.process.poll() is None, self.trouble.read_text()
            assert time.monotonic() < until, f"no {what} within {WAIT_S} s"
            time.sleep(every_s)

    def kill(self) -> None:
        """As the machine would."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> tuple[int, str, str]:
        """As an operator does, once it has said how far gold is: one that is just starting hears no
        signal yet. Exit code and what it said.
        """
        self.wait_until(lambda: self.said.stat().st_size > 0, "word")
        self.process.terminate()
        code = self.process.wait(WAIT_S)
        return code, self.said.read_text(), self.trouble.read_text()


def merges(lake: Lake) -> int:
    """How many commits the gold tables have."""
    logs = [Path(lake.uri(table)) / "_delta_log" for table in GOLD_TABLES]
    if not all(log.is_dir() for log in logs):
        return 0
    # Counted by their names: to open all tables at each look costs more than the job itself.
    return sum(len(list(log.glob("*.json"))) - 1 for log in logs)


def is_fresh(lake: Lake) -> bool:
    """Whether gold is where all that has landed is."""
    return read_mark(lake) is not None and gold_standing(lake).is_fresh


def test_killed_at_any_moment_gold_ends_up_as_made_at_once(tmp_path: Path) -> None:
    pairs = list(
        zip(command_records(HISTORY.records), outcome_records(HISTORY.records), strict=True)
    )
    records, chance = [record for pair in pairs for record in pair], Random(1)
    lake = lake_in(tmp_path / "killed")
    land(lake, records[:2])
    marks = []
    for piece in range(1, PIECES + 1):
        process = GoldProcess(lake, tmp_path / f"said-{piece}")
        try:
            if piece % 2:
                process.wait_until(lambda: is_fresh(lake), "gold of all that landed")
            # Counted before the piece lands: the process sees it while it does.
            enough = merges(lake) + 1 + chance.randrange(MERGES_MAX)
            # Commands with their outcomes: gold waits for what was not published yet.
            land(lake, records[: len(pairs) * piece // PIECES * 2])
            process.wait_until(lambda: merges(lake) >= enough, f"merge number {enough}", MERGE_S)
        finally:
            process.kill()
        marks.append(read_mark(lake))
    assert marks[-1] is not None and any(mark != marks[-1] for mark in marks)
    process = GoldProcess(lake, tmp_path / "said")
    try:
        process.wait_until(lambda: is_fresh(lake), "gold of all that landed")
        code, said, error = process.stop()
    finally:
        process.kill()
    assert (code, error) == (0, "")
    assert json.loads(said.splitlines()[-1])["offset"] == len(HISTORY.records) - 1
    again = lake_in(shutil.copytree(tmp_path / "killed", tmp_path / "again"))
    shutil.rmtree(f"{again.root}/gold")
    assert bring_up(job_of(again)) == len(HISTORY.records)
    assert rows_of(lake) == rows_of(again)
