"""Syncs are counted from outside, and only those of log files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import syncs
from tests.support import preloaded

PROGRAM = """
import os, sys, mmap
log, other = (os.open(name, os.O_RDWR) for name in sys.argv[1:])
os.pwrite(log, b"x", 0); os.fdatasync(log); os.fsync(log); os.fdatasync(other)
with mmap.mmap(log, 0) as view:
    view[0] = 65
    view.flush()
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_fdatasync_fsync_and_msync_of_a_log_file_are_counted_and_others_are_not(
    tmp_path: Path,
) -> None:
    log, other = tmp_path / "log", tmp_path / "other"
    for path, size in ((log, syncs.LOG_FILE_BYTES), (other, 4_096)):
        path.touch()
        os.truncate(path, size)
    counter = syncs.SyncCounter(preloaded.build(syncs.SOURCE, tmp_path), tmp_path / "counts")
    before = counter.read()
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(log), str(other)],
        env={**os.environ, **counter.environ},
        check=True,
    )
    found = counter.since(before)
    assert found.count == 3 and found.seconds > 0
