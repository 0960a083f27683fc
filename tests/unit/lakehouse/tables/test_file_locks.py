"""Where a lock on a file holds, and where it does not."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakehouse.errors import LakehouseError, LocksDoNotHold
from lakehouse.tables import file_locks
from lakehouse.tables.file_locks import require_local_locks, require_same_file


@pytest.fixture(autouse=True)
def never_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test tries the disk anew."""
    monkeypatch.setattr(file_locks, "_tried_devices", set())


MOUNTS = """\
22 1 254:1 / / rw,relatime - ext4 /dev/vda rw
30 22 0:40 / {folder} rw,relatime shared:1 - {kind} host:/share rw,local_lock=none
31 22 0:41 / {folder}/below rw - ext4 /dev/vdb rw
"""


def test_a_local_disk_is_well_and_nothing_is_left_there(tmp_path: Path) -> None:
    require_local_locks(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["nfs4", "nfs", "cifs"])
def test_a_file_system_of_several_hosts_is_refused_with_the_way_out(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    folder = tmp_path / "a share"
    (folder / "below").mkdir(parents=True)
    text = MOUNTS.format(folder=str(folder).replace(" ", "\\040"), kind=kind)
    mounts.write_text(text)
    monkeypatch.setattr(file_locks, "MOUNTS", mounts)
    with pytest.raises(LakehouseError, match=f"lies on {kind}, .* local disk of one host"):
        require_local_locks(folder)
    require_local_locks(folder / "below")
    require_local_locks(tmp_path)


def test_of_mounts_at_one_place_the_last_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An automounter stands at the place before the share does; names may hold any character."""
    folder = tmp_path / "a\tshare"
    folder.mkdir()
    written = str(folder).replace("\t", "\\011")
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"29 22 0:39 / {written} rw - autofs systemd-1 rw\n"
        f"30 29 0:40 / {written} rw - nfs4 host:/share rw\n"
    )
    monkeypatch.setattr(file_locks, "MOUNTS", mounts)
    with pytest.raises(LocksDoNotHold, match="lies on nfs4"):
        require_local_locks(folder)


def of_a_process(file: Any, how: int) -> None:
    """As a kernel does that makes a lock on a range of bytes of it."""
    fcntl.lockf(file, how)


def of_this_process_alone() -> Callable[[Any, int], None]:
    """Others never hear of it."""
    held: set[int] = set()

    def lock(file: Any, how: int) -> None:
        if held:
            raise BlockingIOError
        held.add(file.fileno())

    return lock


def of_none(file: Any, how: int) -> None:
    """As on a file system that was mounted without locks."""
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@pytest.mark.parametrize(
    ("lock", "said"),
    [
        (of_a_process, "given to a process and not to an open file"),
        (of_this_process_alone(), "keeps no other process away"),
        (of_none, "cannot be had .*No locks available"),
    ],
)
def test_locks_that_do_not_hold_are_refused_with_the_way_out(
    lock: Callable[[Any, int], None], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_locks.fcntl, "flock", lock)
    with pytest.raises(LocksDoNotHold, match=f"{said}.* local disk of one host"):
        require_local_locks(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_a_child_does_not_inherit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child stands for one to which the lock did not come with the file."""
    forgetful = file_locks.CHILD.replace(
        "import fcntl, sys", "import fcntl, os, sys\nos.closerange(3, 65_536)"
    )
    assert forgetful != file_locks.CHILD
    monkeypatch.setattr(file_locks, "CHILD", forgetful)
    with pytest.raises(LocksDoNotHold, match=r"does not inherit .* local disk of one host"):
        require_local_locks(tmp_path)


def test_a_disk_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_local_locks(tmp_path)
    monkeypatch.setattr(file_locks, "CHILD", "nobody starts this")
    (tmp_path / "below").mkdir()
    require_local_locks(tmp_path / "below")


def test_a_lock_is_worth_something_only_while_others_find_its_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        require_same_file(file, path)
        path.unlink()
        with pytest.raises(LakehouseError, match="was taken away while it was in use"):
            require_same_file(file, path)
        path.touch()
        with pytest.raises(LakehouseError, match="was taken away while it was in use"):
            require_same_file(file, path)
    finally:
        os.close(file)
