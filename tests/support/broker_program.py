"""`regent broker` of a set without controllers as a process of its own: started, told, ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.support.brokers import WAIT_S, free_port

ROOT = Path(__file__).resolve().parents[2]


class BrokerProgram:
    """With a folder of its own. `settings`: of its file, with room for `broker_id`, `port`,
    `ha_port`, `folder` and `name_server`.
    """

    def __init__(self, folder: Path, broker_id: int, name_server: str, settings: str) -> None:
        self.folder, self.port = folder / f"b{broker_id}", free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.folder.mkdir()
        self.config = self.folder / "broker.toml"
        self.config.write_text(
            settings.format(
                broker_id=broker_id,
                port=self.port,
                ha_port=free_port(),
                folder=self.folder,
                name_server=name_server,
            )
        )
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "infra", "broker", "--config", str(self.config)),
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def tell(self, number: int) -> None:
        """A signal."""
        assert self.process is not None
        self.process.send_signal(number)

    async def end(self, number: int = signal.SIGKILL) -> int | None:
        """Its exit code; None when it was not started."""
        if self.process is None:
            return None
        if self.process.returncode is None:
            self.tell(signal.SIGCONT)
            self.tell(number)
        return await asyncio.wait_for(self.process.wait(), WAIT_S)

    def said(self, words: str) -> int:
        """How often these words stand in its log."""
        return (self.folder / "log").read_text().count(words)

    def commit_log(self) -> bytes:
        """Of its store, without the room behind the last record."""
        files = sorted((self.folder / "store" / "commitlog").glob("*"))
        return b"".join(path.read_bytes() for path in files).rstrip(b"\0")
