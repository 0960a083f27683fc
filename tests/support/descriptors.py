"""A process without descriptors, for a moment."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def none_left() -> Iterator[None]:
    """This process can open nothing until the end of the block, whatever is closed meanwhile; what
    is open stays so.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_count(folder: Path) -> int:
    """How many this process has of files in `folder`; what other tests left to the collector does
    not count.
    """
    found = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the listing's own is closed by now
            found += Path(os.readlink(f"/proc/self/fd/{number}")).is_relative_to(folder)
    return found
