import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lakehouse.errors import LakehouseError, TablesInUse
from lakehouse.tables.commit_lock import ALONE, LOCK_FOLDER, CommitLocks

TABLES = ("bronze/records", "silver/decisions")
NOT_AT_ALL_S = 0.05


def free(locks: CommitLocks, table: str) -> bool:
    try:
        with locks.held(table, NOT_AT_ALL_S):
            return True
    except TablesInUse:
        return False


@pytest.mark.parametrize("local", [True, False])
def test_a_held_table_is_held_against_another_thread_and_others_are_free(
    tmp_path: Path, local: bool
) -> None:
    locks = CommitLocks(tmp_path if local else None, TABLES)
    found: dict[str, bool] = {}
    with locks.held(TABLES[0]):
        asking = threading.Thread(
            target=lambda: found.update({name: free(locks, name) for name in TABLES})
        )
        asking.start()
        asking.join()
    assert found == {TABLES[0]: False, TABLES[1]: True}
    assert free(locks, TABLES[0])
    locks.close()


def test_who_writes_where_there_are_no_locks_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    CommitLocks(tmp_path, TABLES).close()
    assert not caplog.messages
    CommitLocks(None, TABLES)
    assert caplog.messages == [ALONE]


def test_a_held_table_is_held_against_another_process_and_says_so(tmp_path: Path) -> None:
    ours, theirs = CommitLocks(tmp_path, TABLES), CommitLocks(tmp_path, TABLES)
    with ours.held(TABLES[0]):
        with (
            pytest.raises(TablesInUse, match="bronze/records"),
            theirs.held(TABLES[0], NOT_AT_ALL_S),
        ):
            raise AssertionError("both hold it")
        assert free(theirs, TABLES[1])
    assert free(theirs, TABLES[0])
    ours.close()
    theirs.close()


def test_who_inherited_the_files_keeps_the_lock_of_one_that_was_killed(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, sys, signal; from pathlib import Path; from "
        "lakehouse.tables.commit_lock "
        "import CommitLocks\n"
        f"locks = CommitLocks(Path({str(tmp_path)!r}), {TABLES!r})\n"
        f"with locks.held({TABLES[0]!r}):\n"
        "    child = subprocess.Popen(['cat'], stdin=0, stdout=1, pass_fds=locks.open_files)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    locks = CommitLocks(tmp_path, TABLES)
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as killed:
        killed.wait()
        assert not free(locks, TABLES[0]) and free(locks, TABLES[1])
        assert killed.stdin is not None
        killed.stdin.close()  # the one that inherited them ends
    with locks.held(TABLES[0]):
        pass
    locks.close()


def test_an_error_inside_gives_the_lock_back(tmp_path: Path) -> None:
    locks = CommitLocks(tmp_path, TABLES)
    with pytest.raises(ValueError), locks.held(TABLES[0]):
        raise ValueError
    assert free(locks, TABLES[0])
    locks.close()
    assert locks.open_files == ()


def test_a_table_that_comes_later_is_looked_after_too(tmp_path: Path) -> None:
    early, late = CommitLocks(tmp_path, TABLES), CommitLocks(tmp_path, ("silver/disk_warm",))
    early.also("silver/disk_warm")
    with early.held("silver/disk_warm"):
        early.also("silver/disk_warm")
        assert not free(late, "silver/disk_warm")
    assert free(late, "silver/disk_warm")
    early.close()
    late.close()


def test_who_committed_goes_on_no_more_when_the_locks_were_taken_away(tmp_path: Path) -> None:
    ours = CommitLocks(tmp_path, TABLES)
    assert free(ours, TABLES[0])
    shutil.rmtree(tmp_path / LOCK_FOLDER)
    theirs = CommitLocks(tmp_path, TABLES)
    assert free(theirs, TABLES[0])
    for _ in range(2):
        with pytest.raises(LakehouseError, match="was taken away"), ours.held(TABLES[0]):
            raise AssertionError("two may commit")
    assert free(theirs, TABLES[0])
    ours.close()
    theirs.close()


def test_a_lock_that_was_taken_away_during_a_commit_ends_the_one_that_committed(
    tmp_path: Path,
) -> None:
    """Another may have committed at the same time: whoever goes on would not know."""
    locks = CommitLocks(tmp_path, TABLES)
    with pytest.raises(LakehouseError, match="was taken away"), locks.held(TABLES[0]):
        shutil.rmtree(tmp_path / LOCK_FOLDER)
    locks.close()
