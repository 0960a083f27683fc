"""Ctrl-C while faults are played: whatever was started by then ends, and the exit code says why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.local_cluster import ROOT, wait_until

ENDS_WITHIN_S = 60


def running_below(folder: Path) -> dict[int, bytes]:
    """Processes whose command lines name something in the folder, which the run's own does not; the lines by pid."""
    found = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes()
            if os.fsencode(folder) in words:
                found[int(entry.name)] = words
    return found


def end_all(run: subprocess.Popen[bytes], folder: Path) -> None:
    """Whatever a failed test has left."""
    run.kill()
    run.wait()
    for pid in running_below(folder):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("part", [b"\0up\0", b"workload.producer"], ids=["while the cluster starts", "while messages flow"])
def test_an_interrupted_run_leaves_nothing_behind(tmp_path: Path, part: bytes) -> None:
    command = [sys.executable, "tests/chaos/run.py", "controllers-all", "--kafka-nodes", "1"]
    with (tmp_path / "said").open("wb") as said:
        run = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=said, stderr=said, start_new_session=True)
    try:
        wait_until(lambda: any(part in one for one in running_below(tmp_path).values()), f"{part!r} runs")
        os.kill(run.pid, signal.SIGINT)
        assert run.wait(ENDS_WITHIN_S) == 130, (tmp_path / "said").read_text()
        wait_until(lambda: not running_below(tmp_path), "nothing is left of it")
    finally:
        end_all(run, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["said"]
