"""A disk that can be filled: a memory file system of a few megabytes, mounted where the user may
mount, skipped elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """`fill` leaves no room but `left` bytes; `free` gives the room back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._filler = root / "filler"

    def fill(self, left: int = 0) -> None:
        self.free()
        with self._filler.open("wb") as file:
            while True:
                space = os.statvfs(self.root)
                try:
                    os.posix_fallocate(
                        file.fileno(), 0, max(space.f_bavail * space.f_frsize - left, 1)
                    )
                    return
                except OSError:  # others take room as well
                    if left > space.f_blocks * space.f_frsize:
                        raise
                    left += space.f_frsize

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    def only_read(self) -> None:
        """From now on nobody writes here."""
        subprocess.run(["mount", "-o", "remount,ro", str(self.root)], check=True)


@contextlib.contextmanager
def small_disk(folder: Path, size: int = 8 << 20) -> Iterator[SmallDisk]:
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "regent-test", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"a small disk needs the right to mount: {done.stderr.strip()[:100]}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
