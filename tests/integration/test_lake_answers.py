"""The same question asked of Spark, of the Spark-free reader, of the running controller and of a
fold of the log itself: one answer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from lakehouse.answers import forecast_answer, state_at
from tests.integration.test_chaos_interrupted import end_all, running_below
from tests.support.controller_answers import HELD
from tests.support.generated_history import generate
from tests.support.generated_lake import land_generated
from tests.support.lake_questions import HEAD, KnownLog, questions_about
from tests.support.local_cluster import ROOT, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1_800)]
COMMANDS, SETS, SEED = 1_200, 6, 11
STARTS_WITHIN_S, ENDS_WITHIN_S = 600, 600


@contextmanager
def run(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`make equality` on a small history; everything that it leaves is in the folder."""
    command = [
        sys.executable,
        "tests/equality/run.py",
        "--commands",
        str(COMMANDS),
        "--sets",
        str(SETS),
        "--seed",
        str(SEED),
        "--json",
    ]
    with (folder / "said").open("wb") as said, (folder / "told").open("wb") as told:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder)},
            stdout=told,
            stderr=said,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:  # It ends what it has started, if it is let.
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDS_WITHIN_S)
        end_all(process, folder)


@pytest.mark.kafka
@pytest.mark.processes
@pytest.mark.long
def test_one_answer_whoever_is_asked_before_gold_is_made_and_after(tmp_path: Path) -> None:
    with run(tmp_path) as process:
        code = process.wait()
    assert code == 0, f"{(tmp_path / 'told').read_text()}\n{(tmp_path / 'said').read_text()}"
    told = json.loads((tmp_path / "told").read_text())
    assert told["equal"] and told["why"] == []
    asked = {one["question"]: set(one["seconds"]) for one in told["questions"]}
    assert list(asked) == [
        one.name for one in questions_about(KnownLog.of(generate(COMMANDS, SETS, SEED)))
    ]
    readers = {"SQL before gold", "Spark before gold", "SQL", "Spark"}
    assert all(readers <= who for who in asked.values()), "both readers, before and after"
    assert {
        name for name, who in asked.items() if {"controller", "controller again"} <= who
    } == set(HELD)
    assert asked[HEAD] == readers | {
        "fold",
        "controller",
        "controller again",
        "verbs",
        "Spark's proof",
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["said", "told"]


@pytest.mark.kafka
@pytest.mark.processes
@pytest.mark.long
def test_interrupted_it_leaves_nothing_behind(tmp_path: Path) -> None:
    with run(tmp_path) as process:
        wait_until(
            lambda: (
                process.poll() is not None
                or any(b"\0land\0" in one for one in running_below(tmp_path).values())
            ),
            "the landing job runs, and all before it",
            STARTS_WITHIN_S,
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(ENDS_WITHIN_S) == 130, (tmp_path / "said").read_text()
        wait_until(lambda: not running_below(tmp_path), "nothing is left of it")
    assert (
        sorted(path.name for path in tmp_path.iterdir()) == ["said", "told"]
        and not (tmp_path / "told").read_bytes()
    )


def test_the_state_at_any_offset_is_that_of_the_fold(tmp_path: Path) -> None:
    history = generate(2_000, 8, seed=11)
    assert len(history.blows) > 100
    lake, folder = land_generated(tmp_path, history), KnownLog.of(history).folder
    found, at_ms = state_at.folder_at(lake)
    assert (found.state, found.digest, at_ms) == (
        folder.state,
        folder.digest,
        history.commands_ms[-1],
    )
    for name in history.sets:
        now = folder.state.sets[name]
        assert forecast_answer.forecast_of(lake, name)["master"] == now.master_broker_id
