"""One run of a demo, whatever it shows: start a cluster, take steps, stop what was started, one
document.

Refuses to know what the steps are.
"""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from infra.cli import down, up
from infra.cluster.data_folder import DataFolder
from infra.cluster.running import DemoCluster
from infra.demo import asked
from infra.demo.console import Console
from infra.demo.load import Load
from infra.problems import Problem
from infra.processes import children

STOP_GRACE_S = 60.0
DRAIN_LIMIT_S = 60.0


class DemoRun(ABC):
    """Collects the document of the report as it goes."""

    def __init__(self, folder: DataFolder, console: Console, *, keep: bool) -> None:
        self.folder = folder
        self.console = console
        self.document: dict[str, Any] = {"steps": [], "problems": []}
        self._keep = keep
        self._began = time.monotonic()
        self._supervisor: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def steps(self) -> None:
        """All that is shown. A Problem ends it."""

    @abstractmethod
    def end_load(self) -> None:
        """End what still sends and reads."""

    def run(self) -> dict[str, Any]:
        """All steps; whatever happens, what was started is stopped."""
        try:
            self.steps()
        except Problem as problem:
            self.document["problems"].append(problem.line())
            self.console.live = None
            self.console.say(f"    problem: {problem.line()}")
        finally:
            self._stop()
        self.document["seconds"] = round(time.monotonic() - self._began, 1)
        return self.document

    def step(self, title: str, work: Callable[[], Any]) -> Any:
        """One of them, with its time."""
        self.console.say(f"[{time.monotonic() - self._began:5.1f} s] {title}")
        began = time.monotonic()
        result = work()
        self.document.setdefault("durations_s", {})[title.split(":")[0].strip()] = round(
            time.monotonic() - began, 2
        )
        return result

    def blow(
        self,
        number: str,
        title: str,
        work: Callable[[str], dict[str, Any]],
        line: Callable[[dict[str, Any]], str],
    ) -> dict[str, Any]:
        """A step whose result stands in the report; `line` says it in a line."""
        result: dict[str, Any] = self.step(f"{number} {title}", lambda: work(title))
        self.document["steps"].append(result)
        self.console.say(f"    {line(result)}")
        return result

    def drain(self, cluster: DemoCluster, load: Load) -> None:
        """Let the consumer come to the end: it has, when it stands still with all that was
        acknowledged.
        """
        wanted = self.document["load"].get("acknowledged", 0)
        try:
            cluster.wait(
                "the consumer's end",
                lambda: load.consumption().get("consumed", 0) >= wanted,
                DRAIN_LIMIT_S,
            )
        except Problem as problem:
            self.document["problems"].append(problem.line())
        load.wait_settled()

    def ask(self, questions: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
        """These verbs of the command line, each with what it printed."""
        answers = []
        for words in questions:
            answer = asked.ask(self.folder, *words)
            answers.append(asdict(answer))
            self.console.say(f"\n$ {answer.command}   ({answer.seconds:.1f} s)")
            for line in answer.text.splitlines():
                self.console.say(f"  {line}")
        return answers

    def wait_landed(self) -> float:
        """Until the tables have all of the log; gives the seconds."""
        seconds = asked.wait_landed(self.folder)
        self.console.say(f"    all of the log stands in the tables after {seconds:.1f} s")
        return seconds

    def start_cluster(self, *words: str) -> None:
        """`regent up` with these flags, tied to this process unless the cluster is kept."""
        flags: Sequence[str] = ["--dir", str(self.folder.root), "--purpose", "demo", *words]
        self._supervisor = up.detach(
            self.folder,
            list(flags),
            lambda line: self.console.say(f"    {line}"),
            tied=not self._keep,
        )

    def _stop(self) -> None:
        self.console.live = None
        self.end_load()
        if self._keep and self.folder.is_running():
            self.console.say(
                f"the cluster is left up; 'regent down --dir {self.folder.root}' stops it"
            )
            return
        began = time.monotonic()
        try:
            if self.folder.is_running():
                down.stop_cluster(self.folder)
        except Problem as problem:  # a machine that is too busy to ask: it is ended all the same
            self.document["problems"].append(problem.line())
            self.console.say(f"    problem: {problem.line()}")
        if self._supervisor is not None:
            children.stop(self._supervisor, STOP_GRACE_S)
        self.console.say(
            f"[{time.monotonic() - self._began:5.1f} s] 6  stopped everything in "
            f"{time.monotonic() - began:.1f} s"
        )
