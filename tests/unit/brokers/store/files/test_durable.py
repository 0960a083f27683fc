"""Replacement of small files, the abort marker, the lock of a store folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from brokers.store.files.durable import AbortMarker, StoreLock, replace_file
from brokers.store.files.errors import LogError


def test_a_replaced_file_leaves_nothing_beside_it(tmp_path: Path) -> None:
    replace_file(tmp_path / "f", b"one")
    replace_file(tmp_path / "f", b"two")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("f", b"two")]


def test_the_abort_marker_tells_of_an_unfinished_run(tmp_path: Path) -> None:
    marker = AbortMarker(tmp_path)
    assert not marker.is_set()
    marker.set()
    assert AbortMarker(tmp_path).is_set()
    marker.clear()
    marker.clear()
    assert not AbortMarker(tmp_path).is_set()


def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from brokers.store.files.durable import StoreLock; "
        "StoreLock(Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[5],
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    try:
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(LogError, match="in use by another broker process"):
            StoreLock(tmp_path)
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()
    lock = StoreLock(tmp_path)
    with pytest.raises(LogError):
        StoreLock(tmp_path)
    lock.release()
    with (tmp_path / "other").open("wb") as other:  # gets the number that the lock had
        lock.release()
        assert not lock.is_held
        other.write(b"x")
