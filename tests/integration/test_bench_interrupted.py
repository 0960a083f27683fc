"""Ctrl-C while the benchmark measures: whatever was started by then ends soon, and the exit code says why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.test_chaos_interrupted import ENDS_WITHIN_S, cluster_starts, end_all, running_below
from tests.support.local_cluster import ROOT, VERB_LIMIT_S, wait_until

pytestmark = pytest.mark.timeout(600)
ROW = [sys.executable, "tests/bench/run.py", "--only", "memory-growth", "--minutes", "30"]
# As a shell starts what a script runs in its background.
IN_BACKGROUND = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]


def messages_flow(folder: Path) -> bool:
    return any(path.stat().st_size for path in folder.glob("regent-bench-*/memory-growth/*/consumequeue/bench-send/*/*"))


@pytest.mark.parametrize(("before", "moment"), [([], cluster_starts), (IN_BACKGROUND, messages_flow)])
def test_an_interrupted_row_leaves_nothing_behind(tmp_path: Path, before: list[str], moment: Callable[[Path], bool]) -> None:
    with (tmp_path / "said").open("wb") as said:
        run = subprocess.Popen([*before, *ROW], cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=said, stderr=said, start_new_session=True)
    try:
        wait_until(lambda: moment(tmp_path), moment.__name__, VERB_LIMIT_S)
        for _ in range(2):  # whoever is impatient changes nothing
            os.kill(run.pid, signal.SIGINT)
        assert run.wait(ENDS_WITHIN_S) == 130, (tmp_path / "said").read_text()
        wait_until(lambda: not running_below(tmp_path), "nothing is left of it")
    finally:
        end_all(run, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["said"]
