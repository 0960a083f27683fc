"""Ports of one run of tests: those of runs beside it are others.

A cluster whose processes were killed holds no port until it starts again, and another run that
picks from the same range may be given one of them.
"""

from __future__ import annotations

import fcntl
import os

from infra.jars.store import cache_dir
from infra.processes.ports import PORT_FIRST, PORT_LAST, RANGE_VARIABLE

SHARES = 12
"""Runs beside one another that have ports of their own: more than two cores bear."""
_held: list[int] = []


def take_own_ports() -> None:
    """For this process, and whomever it starts, until it ends. Does nothing where a range is named
    already, or all shares are taken.
    """
    if RANGE_VARIABLE in os.environ:
        return
    # Not the folder of temporary files: runs beside one another have others.
    folder = cache_dir().parent / "test-ports"
    folder.mkdir(parents=True, exist_ok=True)
    size = (PORT_LAST - PORT_FIRST) // SHARES
    for number in range(SHARES):
        # Not inherited: the share is free as soon as this process has ended.
        opened = os.open(folder / str(number), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(opened)
            continue
        _held.append(opened)
        first = PORT_FIRST + number * size
        os.environ[RANGE_VARIABLE] = f"{first}-{first + size - 1}"
        return
