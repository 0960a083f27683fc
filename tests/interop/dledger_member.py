"""DLedger 0.3.1.2's own server and client as processes, driven line by line.

Responsible for: compiling the program once, starting, telling signals, ending. Refuses to know:
what a scenario proves.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from brokers.process.majority.config import MemberConfig
from infra.problems import Problem
from tests.interop.java_rocketmq import SMALL, fetch_jars
from tests.interop.stage import compiler
from tests.support.majority_group import GROUP, Identity, identities, member_config, peers_text

PROGRAM = Path(__file__).resolve().parent / "DLedgerMember.java"
UNMAPS = (
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
)
"""Without it DLedger cannot take a file away that it has mapped."""
ANSWER_S = 240


def class_path(work: Path, say: Callable[[str], None]) -> str:
    """Jars and the program; compiled where it is not yet."""
    jars, classes = fetch_jars(say), work / "dledger-member-classes"
    path = f"{jars}/*"
    if not classes.exists():
        classes.mkdir(parents=True)
        command = [compiler(), "-cp", path, "-d", str(classes), str(PROGRAM)]
        subprocess.run(command, check=True)
    return f"{path}{os.pathsep}{classes}"


class JavaLines:
    """The program in one of its two roles."""

    def __init__(self, path: str, log: Path, *words: str) -> None:
        home = f"-Duser.home={log.parent}"  # DLedger logs there
        machine = ("java", "-Xmx192m", home, *SMALL, *UNMAPS)
        self._command = (*machine, "-cp", path, "DLedgerMember", *words)
        self._log = log
        self.process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
            )
        await self._answer()

    async def _answer(self) -> str:
        assert self.process is not None and self.process.stdout is not None
        line = (await asyncio.wait_for(self.process.stdout.readline(), ANSWER_S)).decode().strip()
        if not line.startswith("ok"):
            raise Problem("DLedger refused", line or f"see {self._log}")
        return line[3:]

    async def say(self, line: str) -> str:
        """Its answer. Problem when it failed."""
        assert self.process is not None and self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        return await self._answer()

    def tell(self, number: int) -> None:
        """A signal."""
        assert self.process is not None
        self.process.send_signal(number)

    async def end(self, number: int = signal.SIGKILL) -> int | None:
        """SIGTERM: in order, by the end of its input."""
        process = self.process
        if process is None:
            return None
        if process.returncode is None:
            self.tell(signal.SIGCONT)
            if number == signal.SIGTERM and process.stdin is not None:
                process.stdin.close()
            else:
                self.tell(number)
        return await asyncio.wait_for(process.wait(), ANSWER_S)


class JavaMember(JavaLines):
    """DLedger's server, with the sizes and times that `config` has."""

    def __init__(
        self,
        path: str,
        folder: Path,
        members: Mapping[str, str],
        self_id: str,
        *,
        batch: bool,
        **changes: object,
    ) -> None:
        self.self_id = self_id
        self.folder = folder / self_id
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config = member_config(self.folder / "store", members, self_id, **changes)
        words = (GROUP, peers_text(members), self_id, str(self.config.store_dir))
        super().__init__(
            path, self.folder / "log", "server", *words, *_settings(self.config, batch)
        )

    def identities(self) -> list[Identity]:
        return identities(self.config.store_dir, self.config)


def _settings(config: MemberConfig, batch: bool) -> list[str]:
    numbers = {
        "mappedFileSizeForEntryData": config.data_file_bytes,
        "mappedFileSizeForEntryIndex": config.index_file_bytes,
        "heartBeatTimeIntervalMs": config.heartbeat_ms,
        "maxHeartBeatLeak": config.heartbeats_missed_max,
        "minVoteIntervalMs": config.vote_pause_min_ms,
        "maxVoteIntervalMs": config.vote_pause_max_ms,
        "batch": int(batch),
    }
    return [f"{name}={value}" for name, value in numbers.items()]


class JavaClient(JavaLines):
    """DLedger's client."""

    def __init__(self, path: str, folder: Path, members: Mapping[str, str]) -> None:
        super().__init__(path, folder / "client.log", "client", GROUP, peers_text(members))

    async def append(self, body: bytes) -> tuple[int, int]:
        """(code, index)."""
        code, index, _ = (await self.say(f"append {_word(body)}")).split()
        return int(code), int(index)

    async def get(self, index: int) -> bytes | None:
        """The body of an entry; None where it was not given."""
        found = (await self.say(f"get {index}")).split()
        if len(found) < 4:
            return None
        return b"" if found[3] == "-" else base64.b64decode(found[3])


def _word(body: bytes) -> str:
    return base64.b64encode(body).decode() or "-"
