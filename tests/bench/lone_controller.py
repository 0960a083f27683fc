"""Controllers without brokers: processes on a Kafka that the row started, started and ended again
and again.

Refuses to know what is measured with them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.cluster import toml_text
from infra.processes import children
from infra.processes import status as process_status
from infra.processes.ports import pick_block
from tests.bench.cluster import ROOT, BenchFailed

POLL_S = 0.02
STOP_GRACE_S = 60.0
READY_WITHIN_S = 60.0


class LoneController:
    """One controller process; started again it finds its folder, and so its snapshot."""

    def __init__(
        self, home: Path, kafka: Mapping[str, str], cluster_id: str, **settings: object
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.home = home
        self.address = f"127.0.0.1:{pick_block(1)}"
        self._config = home / "controller.toml"
        self._config.write_text(
            toml_text.dumps(
                {
                    "controller_id": home.name,
                    "cluster_id": cluster_id,
                    "listen": self.address,
                    "data_dir": home / "data",
                    "local_cluster": True,
                    **settings,
                    "kafka": dict(kafka),
                }
            ),
            encoding="utf-8",
        )
        self._child: subprocess.Popen[bytes] | None = None
        self.began = 0.0

    def start(self) -> LoneController:
        """Spawn it; does not wait."""
        self.began = time.monotonic()
        command = [sys.executable, "-m", "infra", "controller", "--config", str(self._config)]
        self._child = children.spawn(command, self.home / "output.log", cwd=ROOT)
        return self

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def status(self) -> dict[str, Any]:
        """What it says of itself, empty while it says nothing. BenchFailed when it has ended."""
        if self._child is None or self._child.poll() is not None:
            tail = " | ".join(children.last_lines(self.home / "output.log", 3))
            raise BenchFailed(f"{self.home.name} ended: {tail}")
        return process_status.ask_once(self.address) or {}

    def wait_applied(self, offset: int, limit_s: float) -> float:
        """Seconds from its start until it serves with everything up to `offset` applied."""
        while time.monotonic() - self.began < limit_s:
            status = self.status()
            if status.get("applied_offset", -1) >= offset and status.get("role") in (
                "standby",
                "active",
            ):
                return time.monotonic() - self.began
            time.sleep(POLL_S)
        raise BenchFailed(
            f"{self.home.name} had not applied {offset} after {limit_s:.0f} s: {self.status()}"
        )

    def wait_active(self) -> LoneController:
        """Until it leads."""
        limit = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < limit:
            status = self.status()
            if status.get("role") == "active" and status.get("ready"):
                return self
            time.sleep(POLL_S)
        raise BenchFailed(f"{self.home.name} does not lead: {self.status()}")

    def stop(self) -> None:
        """The orderly end, which writes a snapshot."""
        if self._child is not None:
            children.stop(self._child, STOP_GRACE_S)
            self._child = None

    def __enter__(self) -> LoneController:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
