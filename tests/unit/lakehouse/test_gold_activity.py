import threading
from pathlib import Path
from typing import Any

import pytest

from lakehouse import gold_activity
from lakehouse.commit_lock import CommitLocks
from lakehouse.errors import LakehouseError
from lakehouse.gold_activity import GoldActivity
from lakehouse.gold_job import Step
from lakehouse.gold_progress import Mark
from tests.support.landed_log import lake_in


def activity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[Any], done: threading.Event) -> GoldActivity:
    """One whose job does these steps, errors among them, and says when there are no more."""

    def step(job: object) -> Step:
        if not steps:
            done.set()
            return Step(0, 0, Mark(9, 9, 0))
        found = steps.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(gold_activity.GoldJob, "step", step)
    return GoldActivity(lake_in(tmp_path), CommitLocks(None, []), 0.001)


def test_runs_go_on_until_nothing_is_left_and_again_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    steps = [Step(5, 2, Mark(4, 0, 0)), LakehouseError("a hole"), Step(1, 1, Mark(5, 0, 0))]
    one = activity(tmp_path, monkeypatch, steps, done)
    one.start()
    assert done.wait(20)
    one.stop(20)
    assert one.failure is None and one.last is not None


def test_a_failure_is_told_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    one = activity(tmp_path, monkeypatch, [LakehouseError("a hole")], threading.Event())
    one._bring_up()
    assert one.failure == "LakehouseError: a hole"
    assert "it will be tried again" in caplog.text
    one._bring_up()
    assert one.failure is None


def test_one_that_never_began_stops_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    activity(tmp_path, monkeypatch, [], threading.Event()).stop(0.1)
