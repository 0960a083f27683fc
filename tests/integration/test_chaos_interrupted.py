"""Ctrl-C while faults are played: whatever was started by then ends, and the exit code says why."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.local_cluster import ROOT, VERB_LIMIT_S, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
# what has begun is stopped in order, with a grace for each kind of process; a busy machine may need
# a good part of it
ENDS_WITHIN_S = 180


def running_below(folder: Path) -> dict[int, bytes]:
    """Processes whose command lines name something in the folder, which the run's own does not; the
    lines by pid.
    """
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


def cluster_starts(folder: Path) -> bool:
    return any(b"\0up\0" in words for words in running_below(folder).values())


def messages_flow(folder: Path) -> bool:
    """The first one is acknowledged: whoever started the producer knows it by then."""
    return any(b"\nA " in path.read_bytes() for path in folder.glob("regent-chaos-*/*/ledger"))


def interrupt(
    command: Sequence[str], folder: Path, moment: Callable[[Path], bool], times: int = 1
) -> None:
    """Run it with everything that it leaves in the folder, interrupt it at that moment: it ends
    with 130, and nothing is left of it.
    """
    with (folder / "said").open("wb") as said:
        run = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder)},
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    try:
        wait_until(lambda: moment(folder), moment.__name__, VERB_LIMIT_S)
        for _ in range(times):
            os.kill(run.pid, signal.SIGINT)
        assert run.wait(ENDS_WITHIN_S) == 130, (folder / "said").read_text()
        wait_until(lambda: not running_below(folder), "nothing is left of it")
    finally:
        end_all(run, folder)
    assert [path.name for path in folder.iterdir()] == ["said"]


@pytest.mark.parametrize("moment", [cluster_starts, messages_flow])
def test_an_interrupted_run_leaves_nothing_behind(
    tmp_path: Path, moment: Callable[[Path], bool]
) -> None:
    interrupt(
        [sys.executable, "tests/chaos/run.py", "controllers-all", "--kafka-nodes", "1"],
        tmp_path,
        moment,
    )
