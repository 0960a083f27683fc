"""One process of a run with a folder and an address of its own, whatever kind it is: started,
killed, paused, started again.

Responsible for: its life and its words; what a store folder says of the replica that owns it.
Refuses to know: what the program is and how it is configured.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Self

from infra.problems import Problem
from infra.processes import children
from infra.processes.ports import is_free

LISTENS_WITHIN_S = 60.0
# A Java broker joins its threads one by one, each may be in the middle of a pause: 13 s at rest,
# more on a busy machine. One that is killed before it is through leaves a folder as after a kill.
STOP_GRACE_S = 90.0


class World(Protocol):
    """Who waits for programs."""

    @property
    def wait_until(self) -> Callable[[Callable[[], bool], str, float], float]: ...


class Program:
    """Killed and started again, it finds its folder."""

    def __init__(self, world: World, name: str, home: Path, address: str) -> None:
        self.name = name
        self.address = address
        self.home = home
        self.out = home / "stdout.txt"
        self._world = world
        self._child: subprocess.Popen[bytes] | None = None

    def command(self) -> tuple[list[str], dict[str, str]]:
        """What is run, and its environment; configuration files are written by now."""
        raise NotImplementedError

    # -- life --------------------------------------------------------------------------------------

    def start(self, wait: bool = True) -> Self:
        """Start it, again after a kill or stop; with `wait` returns when it listens. Problem when
        it ends before.
        """
        if self.is_running:
            raise Problem(f"{self.name} runs already", "")
        command, environ = self.command()
        self._child = children.spawn(command, self.out, environ, self.home)
        if wait:
            self.wait_listening()
        return self

    def wait_listening(self) -> None:
        """Until its address is taken by it."""
        self._world.wait_until(
            lambda: not is_free(self.address) or not self.is_running,
            f"{self.name} listens on {self.address}",
            LISTENS_WITHIN_S,
        )
        if not self.is_running:
            raise Problem(f"{self.name} ended at start", " | ".join(self.logs(6)))

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        """Problem when it does not run."""
        if self._child is None or not self.is_running:
            raise Problem(f"{self.name} does not run", " | ".join(self.logs(3)))
        return self._child.pid

    def kill(self) -> int:
        """`kill -9`; gives the wall clock in ms just before, returns when the process is gone."""
        child, at_ms = self._child, time.time_ns() // 1_000_000
        os.kill(self.pid, signal.SIGKILL)
        assert child is not None
        child.wait()
        return at_ms

    def pause(self) -> int:
        """SIGSTOP; gives the wall clock in ms just before."""
        at_ms = time.time_ns() // 1_000_000
        os.kill(self.pid, signal.SIGSTOP)
        return at_ms

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        """SIGTERM: the orderly end, SIGKILL after a grace. A paused one is woken first."""
        if self._child is not None:
            children.kill_group(self._child.pid, signal.SIGCONT)
            children.stop(self._child, STOP_GRACE_S)

    def end(self) -> None:
        """The hard end, also when it never ran."""
        if self._child is not None:
            children.kill_group(self._child.pid, signal.SIGCONT)
            children.stop(self._child, 0.0)

    # -- what it says ------------------------------------------------------------------------------

    def log_files(self) -> list[Path]:
        return sorted(self.home.glob("logs/**/*.log"))

    def logs(self, lines: int = 4) -> list[str]:
        """The end of stdout and of every log file, each line with its file's name."""
        files = [self.out, *self.log_files()]
        return [
            (f"{self.name}/{path.name}: {line}")
            for path in files
            for line in children.last_lines(path, lines)
        ]

    def log_lines(self, pattern: str) -> list[str]:
        """Lines of its log files that match."""
        found = []
        for path in [self.out, *self.log_files()]:
            if path.exists():
                found += [
                    line
                    for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
                    if re.search(pattern, line)
                ]
        return found


class Replica(Program):
    """A broker, of either kind: its store folder has one layout."""

    @property
    def store(self) -> Path:
        return self.home / "store"

    def wipe(self) -> None:
        """Forget everything, as after a lost disk. Problem while it runs."""
        if self.is_running:
            raise Problem(f"{self.name} runs, its store cannot be wiped", "")
        shutil.rmtree(self.store)

    def identity(self) -> tuple[str, str, int] | None:
        """(cluster, set, id) as its identity file has it, None before it is written."""
        try:
            cluster, name, broker_id = (
                (self.store / "brokerIdentity").read_text(encoding="utf-8").strip().split("#")[:3]
            )
        except (OSError, ValueError):
            return None
        return cluster, name, int(broker_id)

    @property
    def broker_id(self) -> int:
        found = self.identity()
        if found is None:
            raise Problem(f"{self.name} has no identity yet", "")
        return found[2]

    def epochs(self) -> list[tuple[int, int]]:
        """(epoch, start offset) of its epoch file; [] before it has one."""
        try:
            text = (self.store / "epochFileCheckpoint").read_text(encoding="utf-8")
        except OSError:
            return []
        return [
            (int(match[1]), int(match[2]))
            for match in re.finditer(r"^(\d+)-(\d+)$", text, re.MULTILINE)
        ]
