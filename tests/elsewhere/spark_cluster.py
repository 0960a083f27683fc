"""A Spark cluster of its own on loopback: PySpark's standalone master and workers, as processes
that know nothing of us.

Responsible for: their start and end, and what the master says of who takes which cores.
Refuses to know: what is run on them.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from infra.jars.java import find_java
from infra.problems import Problem
from infra.processes import children
from infra.processes.ports import pick_block

MASTER, WORKER = "org.apache.spark.deploy.master.Master", "org.apache.spark.deploy.worker.Worker"
STARTS_WITHIN_S = 180.0
STOP_GRACE_S = 10.0
POLL_S = 0.2


class SparkCluster:
    """`with SparkCluster(folder) as cluster: cluster.add_worker()`. A worker has `cores` cores and
    1 GiB for executors.
    """

    def __init__(self, home: Path, cores: int = 2) -> None:
        self._home, self._cores = home, cores
        port = pick_block(2)
        self.master = f"spark://127.0.0.1:{port}"
        self._pages = f"http://127.0.0.1:{port + 1}/json/"
        self._children: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> SparkCluster:
        self._home.mkdir(parents=True)
        port = self.master.rpartition(":")[2]
        try:
            self._spawn("master", MASTER, "--port", port, "--webui-port", str(int(port) + 1))
            self.wait_until(lambda state: state is not None, "Spark's master answers")
        except BaseException:
            self.stop()
            raise
        return self

    def add_worker(self) -> None:
        """One worker more; returns when the master knows it."""
        known = len(self._alive())
        number = len(self._children)
        self._spawn(
            f"worker-{number}",
            WORKER,
            "--cores",
            str(self._cores),
            "--memory",
            "1g",
            "--webui-port",
            "0",
            "--work-dir",
            str(self._home / "work"),
            self.master,
        )
        self.wait_until(lambda state: len(self._alive()) > known, f"worker {number} is known")

    def kill_worker(self) -> None:
        """`kill -9` the newest worker and its executors."""
        child = self._children.pop()
        children.kill_group(child.pid)
        child.wait()

    @property
    def shipped(self) -> set[str]:
        """Names of the jars that executors have got from drivers."""
        return {path.name for path in (self._home / "work").glob("app-*/*/*.jar")}

    @property
    def cores_taken(self) -> int:
        """By all applications together."""
        return sum(worker["coresused"] for worker in self._alive())

    def wait_until(self, condition: Callable[[dict[str, Any] | None], bool], what: str) -> None:
        """Wait until the master's page says so; None while it does not answer."""
        until = time.monotonic() + STARTS_WITHIN_S
        while not condition(self._state()):
            if time.monotonic() > until:
                raise Problem(
                    f"waited in vain for {STARTS_WITHIN_S:.0f} s until {what}", self._last_words()
                )
            time.sleep(POLL_S)

    def _alive(self) -> list[dict[str, Any]]:
        return [
            worker
            for worker in (self._state() or {}).get("workers", [])
            if worker["state"] == "ALIVE"
        ]

    def _state(self) -> dict[str, Any] | None:
        try:
            with urllib.request.urlopen(self._pages, timeout=STARTS_WITHIN_S) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return None

    def _spawn(self, name: str, main: str, *words: str) -> None:
        spec = find_spec("pyspark")
        assert spec is not None and spec.origin is not None
        spark = Path(spec.origin).parent
        # As on another machine: nothing of our own environment.
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._home),
            "JAVA_HOME": str(find_java().home),
            "SPARK_HOME": str(spark),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_DIRS": str(self._home / "local"),
        }
        command = [str(spark / "bin" / "spark-class"), main, "--host", "127.0.0.1", *words]
        self._children.append(
            children.spawn(command, self._home / f"{name}.log", environ, self._home)
        )

    def _last_words(self) -> str:
        return " | ".join(
            line
            for path in sorted(self._home.glob("*.log"))
            for line in children.last_lines(path, 3)
        )

    def stop(self) -> None:
        """End all of it, executors too."""
        children.stop_all(self._children[::-1], STOP_GRACE_S)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()
