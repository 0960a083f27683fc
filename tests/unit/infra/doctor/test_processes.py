"""The doctor looks at the processes of a local cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.cluster.data_folder import DataFolder
from infra.doctor import processes
from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL, OK, WARN
from infra.processes import children
from tests.support.pasted import why_not


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    made = DataFolder(tmp_path / "d")
    made.create("cluster", {}, "1")
    return made


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def commands(folder: DataFolder, runs: bool = True) -> Commands:
    where = ("--dir", str(folder.root))
    return Commands(where=where, local=folder.root, runs=runs)


def one(pid: int, **changed: object) -> dict[str, object]:
    stamp = children.start_stamp(pid)
    return {"name": "b", "state": "ready", "pid": pid, "stamp": stamp, "restarts": 0, **changed}


def test_a_cluster_that_does_not_run_is_one_line_with_its_start(folder: DataFolder) -> None:
    (found,) = processes.check(folder, commands(folder, runs=False))
    assert found.verdict == FAIL and found.command == f"regent up --dir {folder.root} --detach"
    assert processes.check(None, Commands()) == []


def test_what_a_crash_left_is_named(folder: DataFolder) -> None:
    folder.write_cluster({"processes": [one(os.getpid())]})
    (found,) = processes.check(folder, commands(folder, runs=False))
    assert found.verdict == FAIL and f"b (pid {os.getpid()})" in found.text
    assert "regent down" in found.command and why_not(found.command) is None


def test_a_process_that_a_signal_stopped_is_named_with_what_wakes_it(
    folder: DataFolder, sleeper: subprocess.Popen[bytes]
) -> None:
    known = one(sleeper.pid)
    assert processes.told_by(known, folder, commands(folder)) == []
    sleeper.send_signal(signal.SIGSTOP)
    assert children.until_stopped(sleeper.pid)
    (found,) = processes.told_by(known, folder, commands(folder))
    assert found.verdict == FAIL and found.command == f"kill -CONT {sleeper.pid}"
    subprocess.run(["sh", "-c", found.command], check=True)
    assert processes.told_by(known, folder, commands(folder)) == []


@pytest.mark.parametrize(
    ("changed", "verdict", "text"),
    [
        ({"state": "starting"}, WARN, "b is starting"),
        ({"state": "restarting", "last_exit": 1}, WARN, "it ended with 1 the last time"),
        ({"state": "restarting", "last_exit": -9}, WARN, "it was killed by SIGKILL the last time"),
        ({"state": "held"}, WARN, "b was stopped on request"),
        ({"state": "failed"}, FAIL, "b did not come up"),
        ({"restarts": 3, "last_exit": 1}, FAIL, "b was started again 3 times"),
    ],
)
def test_what_the_supervisor_has_trouble_with_is_told(
    changed: dict[str, object],
    verdict: str,
    text: str,
    folder: DataFolder,
    sleeper: subprocess.Popen[bytes],
) -> None:
    (found,) = processes.told_by(one(sleeper.pid, **changed), folder, commands(folder))
    assert found.verdict == verdict and text in found.text and why_not(found.command) is None


def test_all_well_is_one_line(folder: DataFolder) -> None:
    pid = os.getpid()
    folder.write_cluster({"supervisor": {"pid": pid, "stamp": ""}, "processes": [one(pid)]})
    (found,) = processes.check(folder, commands(folder))
    assert (found.verdict, found.text) == (OK, "2 processes run")
