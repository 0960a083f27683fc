"""What can be done to the processes of a local cluster, and waiting for them to come back.

Refuses to know who is hit, when and why.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.support.local_cluster import LocalCluster, wait_until

HOLD_LIMIT_S = 60.0


class NotAsItShouldBe(Exception):
    """A promise was not kept; the text is one line."""


class NotPossible(Exception):
    """This machine does not permit the blow; the text says what is wanting."""


class Hits:
    """Blows at one cluster, by names of processes."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    def signal(self, names: list[str], number: int) -> None:
        for name in names:
            os.kill(int(self.cluster.process(name)["pid"]), number)

    def kill(self, *names: str) -> dict[str, int]:
        """`kill -9` of all of them that live, at once; their pids, for `wait_restarted`."""
        return self.cluster.kill_all(names)

    @contextmanager
    def paused(self, *names: str) -> Iterator[None]:
        """These processes, those of them that live, stand still as if cut off."""
        pids = [int(one["pid"]) for one in self.cluster.processes() if one["name"] in names and one["pid"] is not None]
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
            self.cluster.folder.ask({"action": "hold", "name": name}, HOLD_LIMIT_S)
        try:
            yield
        finally:
            for name in names:
                self.cluster.folder.ask({"action": "start", "name": name}, HOLD_LIMIT_S)
            self.wait_ready(*names)

    def wait_ready(self, *names: str) -> None:
        wait_until(lambda: all(self.cluster.process(name)["state"] == "ready" for name in names), f"{', '.join(names)} run")

    def wait_restarted(self, pids: dict[str, int]) -> None:
        """Until the supervisor has started again what was killed, each with another pid."""
        wait_until(lambda: all(self.cluster.restarted(name, pid) for name, pid in pids.items()), f"{', '.join(pids)} are back")

    def log_of(self, name: str) -> str:
        return self.cluster.folder.log_of(name).read_text(errors="replace")

    def notes_of(self, name: str) -> Path:
        return self.cluster.folder.data_of(name)


def _tell(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):  # killed meanwhile
        os.kill(pid, number)
