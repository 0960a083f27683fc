"""A process without descriptors, for a moment."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def none_left(but: int = 0) -> Iterator[None]:
    """This process can open no more than `but` files until the end of the block."""
    gc.collect()  # what others left behind is closed now, and not in the middle of the block
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spent: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 1 + but, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                spent.append(os.dup(0))
        for _ in range(min(but, len(spent))):
            os.close(spent.pop())
        yield
    finally:
        for number in spent:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_count() -> int:
    """How many this process has."""
    return len(os.listdir("/proc/self/fd")) - 1
