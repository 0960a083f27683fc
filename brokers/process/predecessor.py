"""Waiting for the process before this one to be gone.

A process that was killed while a thread of it waited for the disk keeps its sockets and its folder
until that wait ends; its successor comes at once.

Responsible for: trying again for a bounded time. Refuses to know: what is tried.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from typing import TypeVar

from brokers.store.files.durable import StoreInUse

PATIENCE_MS = 3_000
PAUSE_MS = 20

Made = TypeVar("Made")


def is_taken(error: BaseException) -> bool:
    """A folder or an address that another process holds."""
    return isinstance(error, StoreInUse) or (
        isinstance(error, OSError) and error.errno == errno.EADDRINUSE
    )


async def once_free(make: Callable[[], Awaitable[Made]], patience_ms: int = PATIENCE_MS) -> Made:
    """`make()`, again and again while what it wants is taken; its error when that lasts, or is
    another one.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_ms / 1000
    while True:
        try:
            return await make()
        except Exception as error:
            if not is_taken(error) or loop.time() >= deadline:
                raise
        await asyncio.sleep(PAUSE_MS / 1000)
