"""How a store refuses.

Responsible for: telling what ran out and comes back, mostly the disk, from everything that does
not. Refuses to know: what was asked.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

_UNREADABLE = frozenset({errno.EIO, errno.ENODATA, errno.EBADMSG, errno.EUCLEAN})


class LogError(Exception):
    """The log refuses: files that do not fit together, an offset outside, an earlier I/O error. One
    line, with the way out.
    """


class DiskFull(LogError):
    """No room for these bytes, on the disk or among descriptors and memory: none was kept. The log
    goes on as it was and takes bytes again once there is.
    """


class NotNow(LogError):
    """Who has to agree takes nothing at this moment: none was kept, and no disk is to blame."""


def is_unreadable(error: OSError) -> bool:
    """Whether the disk cannot give these bytes, now or later: its sectors, or what it keeps about
    them, are damaged.
    """
    return error.errno in _UNREADABLE


@contextlib.contextmanager
def unreadable_told(what: str) -> Iterator[None]:
    """An OSError that says so becomes a LogError; `what` cannot be read."""
    try:
        yield
    except OSError as error:
        if is_unreadable(error):
            raise LogError(f"{what} cannot be read: {error.strerror or error}") from error
        raise
