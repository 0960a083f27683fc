"""One process for one data folder: two controllers with the same snapshots would be one identity
twice.

Refuses to know what lies in the folder. The lock ends with the process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

LOCK_FILE = "lock"


class FolderTaken(OSError):
    """Another process lives in the folder; the text says which, and the way out."""


def claim(folder: Path) -> int:
    """The handle that keeps the folder; closing it gives the folder back. Raises FolderTaken,
    OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        # Of the process, not of the handle: a test that starts one controller after the other in
        # one process may do so.
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(handle, 0)
        os.pwrite(handle, b"%d\n" % os.getpid(), 0)
    except BlockingIOError:
        holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
        os.close(handle)
        raise FolderTaken(
            f"data folder {folder} is in use by process {holder or '?'}; each controller needs a "
            "data_dir and a controller_id of its own"
        ) from None
    except OSError:
        os.close(handle)
        raise
    return handle
