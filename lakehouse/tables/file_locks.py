"""What a lock on a file is worth.

A lock that rests on an open file (flock) keeps other processes away only where the file system
gives it to the opening and not to the process, and as long as others open the same file.
Responsible for finding out. Refuses to know what is locked.
"""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from lakehouse.errors import LakehouseError, LocksDoNotHold

MOUNTS = Path("/proc/self/mountinfo")
SHARED_BETWEEN_HOSTS = (
    "9p", "afs", "cifs", "fuse.blobfuse2", "fuse.gcsfuse", "fuse.glusterfs", "fuse.goofys",
    "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "nfs", "nfs4", "smb3", "smbfs",
)  # fmt: skip
"""Their locks hold on one host each, or for a process and not for what inherits its files."""
LOCAL_DISK = "put the tables on a local disk of one host, or into an object store"
CHILD = """
import fcntl, sys
found = "held"
with open(sys.argv[1], "r+b") as own:
    try:
        fcntl.flock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(own, fcntl.LOCK_UN)
        found = "free"
    except BlockingIOError:
        pass
    sys.stdout.write(found + "\\n")
    sys.stdout.flush()
    sys.stdin.read()
"""
"""What another process does: it tries the lock by an opening of its own, and keeps open the file
that it inherited.
"""
_tried_devices: set[int] = set()
"""Those whose locks hold: a child's start costs more than all else."""


def require_local_locks(folder: Path) -> None:
    """Raises `LocksDoNotHold` when locks in this folder, which must be there, would not hold, and
    `OSError` when nothing can be written there.

    A disk is tried once in the life of a process.
    """
    kind = _file_system_of(folder)
    if kind in SHARED_BETWEEN_HOSTS:
        raise LocksDoNotHold(f"{folder} lies on {kind}, whose locks do not hold: {LOCAL_DISK}")
    device = folder.stat().st_dev
    if device in _tried_devices:
        return
    handle, name = tempfile.mkstemp(dir=folder, prefix="try.")
    os.close(handle)
    try:
        why = _why_not(name)
    finally:
        os.unlink(name)
    if why:
        raise LocksDoNotHold(f"a lock in {folder} {why}: {LOCAL_DISK}")
    _tried_devices.add(device)


def _why_not(name: str) -> str:
    """What is wrong with a lock on this file, empty when it holds."""
    with open(name, "r+b") as one, open(name, "r+b") as two:
        try:
            if not take(one):
                return "is held by nobody and cannot be had"
            if take(two):
                return "is given to a process and not to an open file, as on NFS"
        except OSError as error:
            return f"cannot be had ({error.strerror})"
        return _why_not_beside_another(one, two)


def _why_not_beside_another(one: IO[bytes], two: IO[bytes]) -> str:
    """The same, with a process that tries the lock and inherits the file that has it."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", CHILD, str(one.name)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=(one.fileno(),),
    ) as child:
        assert child.stdout is not None
        found = child.stdout.readline().strip()
        one.close()
        inherited = not take(two)
    if found != b"held":
        return "keeps no other process away" if found else "could not be tried by another process"
    return "" if inherited else "goes with the process that took it, a child does not inherit it"


def take(file: IO[bytes] | int) -> bool:
    """Take the lock of an open file if it is free; whether it was. Raises `OSError` where there are
    no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_same_file(file: int, path: Path) -> bool:
    """Whether the open file is the one that others find there."""
    mine = os.fstat(file)
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    return (found.st_dev, found.st_ino) == (mine.st_dev, mine.st_ino)


def require_same_file(file: int, path: Path) -> None:
    """Raises `LakehouseError` when the open, locked file is no longer the one that others find:
    they would lock another one.
    """
    if not is_same_file(file, path):
        raise LakehouseError(
            f"the lock {path} was taken away while it was in use, and another process may hold its "
            "successor: stop whoever writes to these tables, leave the folder of locks alone, "
            "begin again"
        )


def _file_system_of(folder: Path) -> str | None:
    """The kind of the file system, as Linux names it; None where nobody tells."""
    best, kind = -1, None
    whole = folder.resolve()
    for point, found in _mounts():
        # Of those at one place the last lies above the others, as a share above its automounter.
        if whole.is_relative_to(point) and len(point.parts) >= best:
            best, kind = len(point.parts), found
    return kind


def _mounts() -> Iterator[tuple[Path, str]]:
    try:
        lines = MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        own, _, rest = line.partition(" - ")
        if len(own.split()) > 4 and rest:
            point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), own.split()[4])
            yield Path(point), rest.split()[0]
