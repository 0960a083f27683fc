"""The supervisor's end of the pipe to its watchdog (`infra.processes.watchdog`).

Refuses to know why groups come and go.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys


class WatchdogLink:
    """Keeps a watchdog running and informed. When the pipe closes, by whatever end of this process,
    it kills the groups.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process is not None else None

    def start(self) -> None:
        """Start it (again) and tell it of every group that is registered."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "infra.processes.watchdog"],
            stdin=subprocess.PIPE,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for group in sorted(self._groups):
            self._write(f"+{group}")

    def add(self, group: int) -> None:
        """Kill this process group should this process end without dropping it."""
        self._groups.add(group)
        self._tell(f"+{group}")

    def drop(self, group: int) -> None:
        """The group has ended; its number may come again for somebody else."""
        self._groups.discard(group)
        self._tell(f"-{group}")

    def _tell(self, line: str) -> None:
        if self._process is None:
            return
        try:
            self._write(line)
        except BrokenPipeError:
            self._let_go()
            self.start()

    def _write(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def close(self) -> None:
        """All groups have been dropped: let it end."""
        if self._process is not None:
            self._let_go()

    def _let_go(self) -> None:
        assert self._process is not None and self._process.stdin is not None
        # what a dead watchdog did not read is sent to the next
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process = None
