"""Signs of life for whoever supervises this process: the datagrams that systemd understands
(sd_notify(3): READY=1, WATCHDOG=1, STOPPING=1), and the supervisor of `regent up` as well.

Responsible for: what is sent, where to, how often. Refuses to know: what happens when they stay
out, and what makes the broker well; it asks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping

SOCKET, PERIOD, FOR_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
BEATS_IN_PERIOD = 4
PERIOD_S_MIN, PERIOD_S_MAX = 0.2, 60.0

_log = logging.getLogger("regent.process")


class Beats:
    """Nothing is sent where nobody asked for it. `environ`: the process's environment."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = _address(environ.get(SOCKET, ""))
        self.period_s = _period_s(environ)
        self._link: socket.socket | None = None
        self._failed = False

    def say(self, *lines: str) -> None:
        """One datagram. A supervisor that is gone, or does not read, keeps nobody."""
        if not self._address:
            return
        try:
            if self._link is None:
                self._link = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
                self._link.setblocking(False)
            self._link.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            if not self._failed:
                _log.warning("%s cannot be reached: %s", SOCKET, error)
            self._failed = True

    async def run(self, well: Callable[[], bool]) -> None:
        """READY now, and a beat now and then while `well()`."""
        self.say("READY=1", "WATCHDOG=1")
        while self._address and self.period_s:
            await asyncio.sleep(self.period_s / BEATS_IN_PERIOD)
            if well():
                self.say("WATCHDOG=1")

    def close(self) -> None:
        """The broker ends."""
        self.say("STOPPING=1")
        if self._link is not None:
            self._link.close()
        self._address, self._link = "", None


def _address(name: str) -> str:
    """A path, or a name in Linux's abstract space, which is written with an @."""
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else ""


def _period_s(environ: Mapping[str, str]) -> float:
    """How long this process may be silent; 0: nobody watches it."""
    if environ.get(FOR_PID, str(os.getpid())) != str(os.getpid()):
        return 0.0
    try:
        asked_s = int(environ.get(PERIOD, "0")) / 1_000_000
    except ValueError:
        return 0.0
    return min(PERIOD_S_MAX, max(PERIOD_S_MIN, asked_s)) if asked_s > 0 else 0.0
