"""Message ids for producers that set none (`broker-wire-and-storage.md` 5.5).

Responsible for: the layout ip, pid, class-loader hash, ms, counter in upper-case hex. Refuses to
know: clocks, hosts.
"""

from __future__ import annotations

import struct

_TAIL = struct.Struct(">HIIH")  # pid, hash, ms, counter


class UniqueKeys:
    """Keys of one process: `host` is 4 or 16 packed address bytes, `salt` tells processes with one
    pid apart.
    """

    def __init__(self, host: bytes, pid: int, salt: int) -> None:
        self._host = host
        self._pid = pid & 0xFFFF
        self._salt = salt & 0xFFFFFFFF
        self._counter = 0

    def next_key(self, wall_ms: int) -> str:
        """A new key: 32 characters, 56 with an IPv6 host; unique while a process makes at most
        65,536 per ms.
        """
        self._counter = (self._counter + 1) & 0xFFFF
        return (
            (self._host + _TAIL.pack(self._pid, self._salt, wall_ms & 0xFFFFFFFF, self._counter))
            .hex()
            .upper()
        )
