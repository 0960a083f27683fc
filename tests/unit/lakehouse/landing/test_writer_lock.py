import os
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.errors import TablesInUse
from lakehouse.landing import writer_lock


def test_a_second_writer_is_refused_and_told_who_writes(tmp_path: Path) -> None:
    held = writer_lock.acquire(tmp_path / "lock", 0, "rows of a")
    with pytest.raises(TablesInUse, match=rf"rows of a is written by .*pid {os.getpid()}"):
        writer_lock.acquire(tmp_path / "lock", 150, "rows of a")
    writer_lock.release(held)
    writer_lock.release(writer_lock.acquire(tmp_path / "lock", 0, "rows of a"))


def test_the_lock_is_held_until_the_process_that_inherited_it_has_ended(tmp_path: Path) -> None:
    """So a killed job's Java process, which may be committing, keeps the next job waiting."""
    held = writer_lock.acquire(tmp_path / "lock", 0, "rows of a")
    heir = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(held,)
    )
    try:
        writer_lock.release(held)
        with pytest.raises(TablesInUse):
            writer_lock.acquire(tmp_path / "lock", 0, "rows of a")
    finally:
        heir.communicate(b"\n")
    writer_lock.release(writer_lock.acquire(tmp_path / "lock", 5_000, "rows of a"))
