"""What can be done to the processes of a local cluster, waiting for them to come back, and what a
broken promise is.

Refuses to know who is hit, when and why.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from infra.features.counts import Blow
from infra.workload.client import CallFailed
from tests.chaos.verdict import Run
from tests.support.local_cluster import LocalCluster, wait_until

HOLD_LIMIT_S = 60.0


class NotAsItShouldBe(Exception):
    """A promise was not kept; the text is one line."""


class NotPossible(Exception):
    """This machine does not permit the blow; the text says what is wanting."""


@contextmanager
def told_in(run: Run) -> Iterator[None]:
    """How long the block takes and what goes wrong in it stands in the run; what this machine does
    not permit goes on.
    """
    began = time.monotonic()
    try:
        yield
    except NotPossible:
        raise
    except (NotAsItShouldBe, AssertionError, CallFailed) as error:
        run.problem = str(error).splitlines()[0]
    except Exception as error:
        # a defect of the fault itself must not hide what the others have shown
        traceback.print_exc()
        run.problem = f"{type(error).__name__}: {error}"
    finally:
        run.seconds = round(time.monotonic() - began, 1)


class Hits:
    """Blows at one cluster, by names of processes. `blows`: when kills and pauses fell."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.blows: list[Blow] = []

    def signal(self, names: list[str], number: int) -> None:
        for name in names:
            os.kill(int(self.cluster.process(name)["pid"]), number)

    def kill(self, *names: str) -> dict[str, int]:
        """`kill -9` of all of them that live, at once; their pids, for `wait_restarted`."""
        with self._blow():
            return self.cluster.kill_all(names)

    def stop_for_good(self, *names: str) -> dict[str, int]:
        """They stand still, and nobody wakes them; their pids, for `wait_restarted`."""
        with self._blow():
            return self.cluster.kill_all(names, signal.SIGSTOP)

    @contextmanager
    def _blow(self) -> Iterator[None]:
        begun_ns = time.time_ns()
        yield
        self.blows.append(Blow(begun_ns // 1_000_000, time.time_ns() // 1_000_000))

    @contextmanager
    def paused(self, *names: str) -> Iterator[None]:
        """These processes, those of them that live, stand still as if cut off."""
        pids = [
            int(one["pid"])
            for one in self.cluster.processes()
            if one["name"] in names and one["pid"] is not None
        ]
        with self._blow():
            for pid in pids:
                _tell(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                _tell(pid, signal.SIGCONT)

    @contextmanager
    def held(self, *names: str) -> Iterator[None]:
        """These processes are stopped in order and do not come back by themselves."""
        for name in names:
            self.hold(name)
        try:
            yield
        finally:
            for name in names:
                self.let_start(name)
            self.wait_ready(*names)

    def hold(self, name: str) -> None:
        """It is stopped in order, and does not come back before `let_start`."""
        self.cluster.folder.ask({"action": "hold", "name": name}, HOLD_LIMIT_S)

    def let_start(self, name: str) -> None:
        """It starts again; `wait_ready` waits for it."""
        self.cluster.folder.ask({"action": "start", "name": name}, HOLD_LIMIT_S)

    def wait_ready(self, *names: str) -> None:
        wait_until(
            lambda: all(self.cluster.process(name)["state"] == "ready" for name in names),
            f"{', '.join(names)} run",
        )

    def wait_restarted(self, pids: dict[str, int]) -> None:
        """Until the supervisor has started again what was killed, each with another pid."""
        wait_until(
            lambda: all(self.cluster.restarted(name, pid) for name, pid in pids.items()),
            f"{', '.join(pids)} are back",
        )

    def log_of(self, name: str) -> str:
        return self.cluster.folder.log_of(name).read_text(errors="replace")

    def notes_of(self, name: str) -> Path:
        return self.cluster.folder.data_of(name)


def _tell(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):  # killed meanwhile
        os.kill(pid, number)
