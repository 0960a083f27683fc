"""A client's program that sends in two halves, and the master killed between them.

The program says in its lines when the first half is sent and its consumers are there, and goes on
at a line on its standard input; it ends when that is closed.
Responsible for: its life, the kill, when there was time enough. Refuses to know: what the lines say
and what is right.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from infra.processes import children
from tests.interop.client_on_regent import kill_master
from tests.interop.stage import Stage
from tests.support.local_cluster import LocalCluster

POLL_S = 0.1

Said = TypeVar("Said")


@dataclass(frozen=True, slots=True)
class TwoHalves(Generic[Said]):
    """`read` makes of all whole lines what they say; the client's own log stands among them.
    `waits`, `done`: whether the first half, and everything, is there. What is missing after
    `first_within_s` and `within_s` is for the scenario to judge. `quiet_s`: how long something is
    waited for that should not come.
    """

    read: Callable[[Sequence[str]], Said]
    waits: Callable[[Said], bool]
    done: Callable[[Said], bool]
    first_within_s: float
    within_s: float
    quiet_s: float = 0.0
    stop_s: float = 3.0

    def play(
        self,
        stage: Stage,
        cluster: LocalCluster,
        command: Sequence[str],
        out: Path,
        environ: Mapping[str, str] | None = None,
    ) -> Said:
        """All that the program said; `out` holds its lines."""
        client = children.spawn(command, out, environ, wants_input=True)
        assert client.stdin is not None
        try:
            self._until(client, out, self.waits, self.first_within_s)
            cluster.whole()
            stage.say(f"kill -9 {kill_master(cluster)[0]}")
            client.stdin.write(b"\n")
            client.stdin.flush()
            self._until(client, out, self.done, self.within_s)
            time.sleep(self.quiet_s)
            return self._said(out)
        finally:
            client.stdin.close()
            children.stop(client, self.stop_s)

    def _said(self, out: Path) -> Said:
        whole, _, _ = out.read_text("utf-8", "replace").rpartition("\n")
        return self.read(whole.split("\n"))

    def _until(
        self,
        client: subprocess.Popen[bytes],
        out: Path,
        condition: Callable[[Said], bool],
        within_s: float,
    ) -> None:
        deadline = time.monotonic() + within_s
        while not condition(self._said(out)):
            if client.poll() is not None or time.monotonic() > deadline:
                return  # what is missing is judged
            time.sleep(POLL_S)
