"""The demo's questions are processes of their own, and none outlives the demo."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from infra.processes import children

ASKS = """
import sys
from pathlib import Path
from infra.cluster.data_folder import DataFolder
from infra.demo import asked
sys.executable = sys.argv[1]
asked.ask(DataFolder(Path(sys.argv[2])), "explain")
"""


def until(path: Path) -> str:
    deadline = time.monotonic() + 120
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"{path} is not written"
        time.sleep(0.01)
    return path.read_text()


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux'")
def test_a_question_ends_with_the_demo_that_asks_it(tmp_path: Path) -> None:
    slow, told = tmp_path / "slow", tmp_path / "pid"
    slow.write_text(f"#!/bin/sh\necho $$ > {told}\nexec sleep 600\n")
    slow.chmod(0o755)
    demo = children.spawn([sys.executable, "-c", ASKS, str(slow), str(tmp_path)], tmp_path / "out")
    pid = int(until(told))
    demo.send_signal(signal.SIGKILL)
    demo.wait()
    deadline = time.monotonic() + 120
    while children.is_alive(pid):
        assert time.monotonic() < deadline, "it lives on"
        time.sleep(0.01)
