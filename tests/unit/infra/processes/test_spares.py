"""Spares wait, begin once, and end with their keeper."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infra.processes import children
from infra.processes.spares import Spares

PROGRAM = "import sys; line = sys.stdin.readline(); print('begun' if line else 'ended', flush=True)"
LIMIT_S = 60.0


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.01)


class Told:
    """What a watchdog hears, in order."""

    def __init__(self) -> None:
        self.added: list[int] = []
        self.dropped: list[int] = []

    def add(self, group: int) -> None:
        self.added.append(group)

    def drop(self, group: int) -> None:
        self.dropped.append(group)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def spares(told: Told) -> Iterator[Spares]:
    kept = Spares(told)
    yield kept
    kept.stop_all()


def prepare(spares: Spares, output: Path, program: str = PROGRAM) -> None:
    spares.prepare("broker-a-1", [sys.executable, "-c", program], output)


def test_a_spare_begins_when_it_is_needed_and_only_once(spares: Spares, tmp_path: Path) -> None:
    output = tmp_path / "out"
    prepare(spares, output)
    process = spares.begin("broker-a-1")
    assert process is not None
    eventually(lambda: output.read_bytes() == b"begun\n")
    assert spares.begin("broker-a-1") is None
    children.stop(process, 5.0)


def test_preparing_twice_keeps_the_one_that_waits(
    spares: Spares, told: Told, tmp_path: Path
) -> None:
    prepare(spares, tmp_path / "out")
    prepare(spares, tmp_path / "out")
    assert len(told.added) == 1


def test_a_dead_spare_is_not_handed_out_and_is_replaced(
    spares: Spares, told: Told, tmp_path: Path
) -> None:
    prepare(spares, tmp_path / "out", "pass")
    pid = told.added[0]
    eventually(lambda: not children.is_alive(pid))
    assert spares.begin("broker-a-1") is None
    prepare(spares, tmp_path / "out")
    assert len(told.added) == 2


def test_stopping_ends_every_spare_and_says_so(spares: Spares, told: Told, tmp_path: Path) -> None:
    prepare(spares, tmp_path / "out")
    spares.stop_all()
    assert told.dropped == told.added
    assert not children.is_alive(told.added[0])
