"""A name server of Regent that a scenario owns, configured as RocketMQ's beside it is.

Refuses to know: what a scenario proves.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from infra.processes.ports import pick_block
from tests.interop.java_rocketmq import JavaWorld, write_properties
from tests.interop.program import Program

ROOT = Path(__file__).resolve().parents[2]


class RegentNameServer(Program):
    """`settings` under RocketMQ's names."""

    def __init__(self, world: JavaWorld, name: str, settings: Mapping[str, str]) -> None:
        port = pick_block(1)
        super().__init__(world, name, world.folder / name, f"127.0.0.1:{port}")
        self.home.mkdir(parents=True, exist_ok=True)
        self._settings = {**settings, "bindAddress": "127.0.0.1", "listenPort": str(port)}

    def command(self) -> tuple[list[str], dict[str, str]]:
        config, log = self.home / "namesrv.properties", self.home / "logs" / "namesrv.log"
        write_properties(config, self._settings)
        log.parent.mkdir(exist_ok=True)
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        flags = ["namesrv", "--config", str(config), "--log-file", str(log)]
        return [sys.executable, "-m", "infra", *flags], {**os.environ, "PYTHONPATH": path}
