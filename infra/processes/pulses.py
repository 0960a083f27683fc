"""The receiving end of sd_notify(3): which processes beat, by pid.

A child gets the name of the socket in its environment, as systemd would give it; the kernel says
who sent a datagram. Refuses to know what a silent process means.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

DATAGRAM_BYTES_MAX = 4_096
DATAGRAMS_AT_ONCE = 1_000
BEAT = b"WATCHDOG=1"
_CREDENTIALS = struct.Struct("iII")  # pid, uid, gid


class Pulses:
    """Where the system has no such sockets nothing is ever heard, and `environ` says nothing."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._name = ""
        if sys.platform != "linux":
            return
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._socket.setblocking(False)
        self._socket.bind("")  # a free name in the abstract space: no file to leave behind
        self._name = "@" + self._socket.getsockname()[1:].decode("ascii")

    def environ(self, period_ms: int) -> dict[str, str]:
        """The environment of a child that shall beat within each `period_ms`."""
        if self._socket is None:
            return dict(os.environ)
        asked = {"NOTIFY_SOCKET": self._name, "WATCHDOG_USEC": str(period_ms * 1000)}
        return {name: text for name, text in os.environ.items() if name != "WATCHDOG_PID"} | asked

    def beaten(self) -> set[int]:
        """The pids of those that beat since this was asked last."""
        pids: set[int] = set()
        if self._socket is None:
            return pids
        for _ in range(DATAGRAMS_AT_ONCE):
            try:
                data, extra, _, _ = self._socket.recvmsg(
                    DATAGRAM_BYTES_MAX, socket.CMSG_SPACE(_CREDENTIALS.size)
                )
            except BlockingIOError:
                break
            if BEAT in data.split(b"\n"):
                pids |= {_pid_of(item) for _, kind, item in extra if kind == socket.SCM_CREDENTIALS}
        return pids

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _pid_of(item: bytes) -> int:
    return int(_CREDENTIALS.unpack(item[: _CREDENTIALS.size])[0])
