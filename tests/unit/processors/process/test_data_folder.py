from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from processors.process import data_folder

HOLD = (
    "import sys; from pathlib import Path; from processors.process import data_folder; "
    "data_folder.claim(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
)


def test_a_folder_that_another_process_holds_is_refused_until_that_ends(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(
            data_folder.FolderTaken,
            match=(f"in use by process {other.pid}; .* data_dir and a controller_id of its own"),
        ):
            data_folder.claim(tmp_path)
        other.kill()
        other.wait(10)
        os.close(data_folder.claim(tmp_path))


def test_a_folder_that_is_not_there_is_made(tmp_path: Path) -> None:
    handle = data_folder.claim(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b" / data_folder.LOCK_FILE).read_text() == f"{os.getpid()}\n"
    os.close(handle)
