import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from infra.cli import main
from infra.cluster.data_folder import DataFolder
from infra.problems import EXIT_DONE, EXIT_USAGE
from infra.processes import children


def test_down_without_a_cluster_says_where_it_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["down", "--dir", str(tmp_path)]) == EXIT_USAGE
    assert str(tmp_path) in capsys.readouterr().err


def left_by_a_crash(folder: DataFolder) -> subprocess.Popen[bytes]:
    """A process in that folder, with nobody to answer for it."""
    folder.create("cluster", {}, "1")
    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True
    )
    folder.write_cluster(
        {
            "processes": [
                {"name": "broker-a-2", "pid": left.pid, "stamp": children.start_stamp(left.pid)}
            ]
        }
    )
    return left


def test_down_ends_what_a_crash_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = DataFolder(tmp_path / "d")
    left = left_by_a_crash(folder)
    assert main.main(["down", "--dir", str(folder.root)]) == EXIT_DONE
    assert "broker-a-2" in capsys.readouterr().out
    assert left.wait(30) == -9
    assert main.main(["down", "--dir", str(folder.root)]) == EXIT_DONE
    assert "nothing runs" in capsys.readouterr().out


def test_down_ends_what_a_supervisor_leaves_that_dies_while_it_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = DataFolder(tmp_path / "d")
    left = left_by_a_crash(folder)
    handle = folder.lock()

    def dies() -> None:
        while not folder.pending():
            pass
        os.close(handle)

    dying = threading.Thread(target=dies)
    dying.start()
    assert main.main(["down", "--dir", str(folder.root)]) == EXIT_DONE
    dying.join()
    assert "broker-a-2" in capsys.readouterr().out
    assert left.wait(30) == -9 and folder.pending() == []
