import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lakehouse.errors import LakehouseError, TablesInUse
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


def test_a_lock_that_was_taken_away_is_noticed(tmp_path: Path) -> None:
    held = writer_lock.acquire(tmp_path / "lock", 0, "rows of a")
    writer_lock.require_held({held: tmp_path / "lock"})
    (tmp_path / "lock").unlink()
    other = writer_lock.acquire(tmp_path / "lock", 0, "rows of a")
    writer_lock.require_held({other: tmp_path / "lock"})
    with pytest.raises(LakehouseError, match="was taken away"):
        writer_lock.require_held({held: tmp_path / "lock"})
    for lock in (held, other):
        writer_lock.release(lock)


def test_who_waited_for_a_lock_that_was_taken_away_waits_for_the_one_that_others_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = writer_lock.acquire(tmp_path / "lock", 0, "rows of a")
    waits, found = threading.Event(), []
    asleep = writer_lock.time.sleep
    monkeypatch.setattr(writer_lock.time, "sleep", lambda s: (waits.set(), asleep(s)))
    waiting = threading.Thread(
        target=lambda: found.append(writer_lock.acquire(tmp_path / "lock", 60_000, "rows of a"))
    )
    waiting.start()
    assert waits.wait(60)
    (tmp_path / "lock").unlink()
    second = writer_lock.acquire(tmp_path / "lock", 0, "rows of a")
    writer_lock.release(first)
    for _ in range(2):  # the first time it may have looked before that
        waits.clear()
        while waiting.is_alive() and not waits.wait(0.01):
            pass
    assert not found, "two hold it"
    writer_lock.release(second)
    waiting.join(60)
    writer_lock.require_held({found[0]: tmp_path / "lock"})
    writer_lock.release(found[0])
