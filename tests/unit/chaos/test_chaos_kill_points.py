"""A process that is armed ends at the Nth pass of the point it was told, and nowhere else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.armed import starter
from tests.chaos.kill_points import ARM, FIRED, KillPoints, around
from tests.support.local_cluster import ROOT


def arm(folder: Path, point: str, passes: int, *also: int) -> None:
    (folder / ARM).write_text(json.dumps({"point": point, "passes": passes, "also": also}))


@pytest.fixture
def killed() -> list[tuple[int, int]]:
    return []


@pytest.fixture
def points(tmp_path: Path, killed: list[tuple[int, int]]) -> KillPoints:
    return KillPoints(tmp_path, lambda pid, number: killed.append((pid, number)))


def test_the_nth_pass_of_the_armed_point_is_the_last(
    tmp_path: Path, points: KillPoints, killed: list[tuple[int, int]]
) -> None:
    points.passed("after-write")
    arm(tmp_path, "after-write", 3, 7)
    for point in ("after-write", "before-write", "after-write"):
        points.passed(point)
    assert not killed and not (tmp_path / FIRED).exists()
    points.passed("after-write")
    assert killed == [(7, signal.SIGKILL), (os.getpid(), signal.SIGKILL)]
    assert json.loads((tmp_path / FIRED).read_text())["point"] == "after-write"
    points.passed("after-write")
    assert len(killed) == 2


def test_arming_anew_begins_to_count_anew(
    tmp_path: Path, points: KillPoints, killed: list[tuple[int, int]]
) -> None:
    arm(tmp_path, "after-write", 2)
    points.passed("after-write")
    (tmp_path / ARM).unlink()
    os.utime(tmp_path)
    arm(tmp_path, "after-write", 2)
    os.utime(tmp_path / ARM, ns=(1, 1))
    points.passed("after-write")
    assert not killed
    points.passed("after-write")
    assert killed


def test_a_wrapped_function_passes_before_and_after_its_work(
    tmp_path: Path, points: KillPoints, killed: list[tuple[int, int]]
) -> None:
    done: list[str] = []

    class Log:
        def write(self, text: str) -> int:
            done.append(text)
            return len(text)

    around(Log, "write", points, before="before-write", after="after-write")
    arm(tmp_path, "before-write", 1)
    assert Log().write("abc") == 3
    assert len(killed) == 1 and done == ["abc"]
    with pytest.raises(AttributeError):
        around(Log, "flush", points)


def test_the_product_has_every_function_that_is_wrapped_and_other_processes_are_left_alone(
    tmp_path: Path,
) -> None:
    """As a supervisor starts a broker: it begins with the points in place, or not at all."""
    command = [
        *starter(tmp_path),
        sys.executable,
        "-c",
        "import sys; print('tests.chaos.kill_points' in sys.modules)",
    ]
    ran = subprocess.run(
        [*command, "infra", "controller"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "False"
    check = (
        "from pathlib import Path; from tests.chaos.kill_points import KillPoints, set_points; "
        "set_points(KillPoints(Path('.'))); print('set')"
    )
    ran = subprocess.run(
        [*command[:-1], check, "infra", "broker"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == "set"
