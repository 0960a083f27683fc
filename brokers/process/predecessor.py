"""Waiting for the process before this one to be gone.

A process that was killed while a thread of it waited for the disk keeps its sockets and its folder
until that wait ends; its successor comes at once. One that was asked to stop may stay for a minute,
for clients with an old route, and leaves word of it in the folder.

Responsible for: trying again for a bounded time, that word. Refuses to know: what is tried.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from brokers.store.files.durable import StoreInUse

PATIENCE_MS = 3_000
PAUSE_MS = 20
LEAVING = "leaving"
"""File in the store folder: when the process that has it is gone at the latest, ms since 1970."""
LEAVING_BYTES_MAX = 32

_log = logging.getLogger("regent.broker")

Made = TypeVar("Made")


def is_taken(error: BaseException) -> bool:
    """A folder or an address that another process holds."""
    return isinstance(error, StoreInUse) or (
        isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    )


def note_leaving(folder: Path, for_ms: int) -> None:
    """This process will be gone in `for_ms` at the latest. A disk that refuses keeps nobody."""
    with suppress(OSError):
        (folder / LEAVING).write_text(str(time.time_ns() // 1_000_000 + for_ms), encoding="ascii")


def forget_leaving(folder: Path) -> None:
    """The process before this one is gone."""
    with suppress(OSError):
        (folder / LEAVING).unlink(missing_ok=True)


def leaves_in_ms(folder: Path) -> int:
    """How long the process that has the folder may still stay; 0 when it left no word."""
    try:
        with (folder / LEAVING).open("rb") as file:
            until_ms = int(file.read(LEAVING_BYTES_MAX))
    except (OSError, ValueError):
        return 0
    return max(0, until_ms - time.time_ns() // 1_000_000)


async def once_free(
    make: Callable[[], Awaitable[Made]],
    patience_ms: int = PATIENCE_MS,
    stays_ms: Callable[[], int] = lambda: 0,
) -> Made:
    """`make()`, again and again while what it wants is taken; its error when that lasts, or is
    another one. `stays_ms()`: how much longer the present holder means to stay.
    """
    loop = asyncio.get_running_loop()
    deadline, waits = loop.time() + patience_ms / 1000, False
    while True:
        try:
            return await make()
        except Exception as error:
            if not is_taken(error):
                raise
            if (more_ms := stays_ms()) > 0 and not waits:
                waits, deadline = True, loop.time() + (more_ms + patience_ms) / 1000
                _log.info(
                    "%s; it was asked to stop and passes on what clients with an old route send, "
                    "for %.0f s at most: waiting for it",
                    error,
                    more_ms / 1000,
                )
            if loop.time() >= deadline:
                raise
        await asyncio.sleep(PAUSE_MS / 1000)
