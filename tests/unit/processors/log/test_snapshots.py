"""Snapshot files: whole or not at all, never the truth (design D4, S12)."""

from pathlib import Path

import pytest

from processors.log.snapshots import SnapshotFolder
from tests.support.controller_rig import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig().lead().three()


def test_a_snapshot_gives_the_same_state_and_digest_back(tmp_path: Path, rig: Rig) -> None:
    snapshots = SnapshotFolder(tmp_path / "s", kept=3)
    snapshots.write(rig.folder)
    loaded = next(snapshots.newest_first(not_above=10**9))
    assert (loaded.state, loaded.offset, loaded.digest) == (
        rig.folder.state,
        rig.folder.offset,
        rig.folder.digest,
    )
    assert list((tmp_path / "s").glob("*.part")) == []


def test_the_newest_that_is_old_enough_is_taken(tmp_path: Path, rig: Rig) -> None:
    snapshots = SnapshotFolder(tmp_path, kept=3)
    snapshots.write(rig.folder)
    early = rig.folder.offset
    rig.alter("1", 2)
    snapshots.write(rig.folder)
    assert next(snapshots.newest_first(not_above=rig.folder.offset)).offset == rig.folder.offset
    assert next(snapshots.newest_first(not_above=rig.folder.offset - 1)).offset == early
    assert list(snapshots.newest_first(not_above=0)) == []


def test_a_torn_snapshot_is_passed_over(tmp_path: Path, rig: Rig) -> None:
    snapshots = SnapshotFolder(tmp_path, kept=3)
    snapshots.write(rig.folder)
    early = rig.folder.offset
    rig.alter("1", 2)
    path = snapshots.write(rig.folder)
    path.write_bytes(path.read_bytes()[:-20])
    assert next(snapshots.newest_first(not_above=10**9)).offset == early


def test_a_snapshot_under_a_wrong_name_is_passed_over(tmp_path: Path, rig: Rig) -> None:
    snapshots = SnapshotFolder(tmp_path, kept=3)
    path = snapshots.write(rig.folder)
    path.rename(tmp_path / f"snapshot-{999:020d}.bin")
    assert list(snapshots.newest_first(not_above=10**9)) == []


def test_only_the_newest_few_are_kept(tmp_path: Path, rig: Rig) -> None:
    snapshots = SnapshotFolder(tmp_path, kept=2)
    for members in ("1", "1,2", "1,3"):
        assert rig.alter(members, rig.state.sets["a"].sync_state_set_epoch).code == 0
        snapshots.write(rig.folder)
    assert len(snapshots.offsets()) == 2 and snapshots.offsets()[-1] == rig.folder.offset


def test_the_file_of_the_newest_snapshot_that_is_old_enough_is_found_unread(
    tmp_path: Path, rig: Rig
) -> None:
    snapshots = SnapshotFolder(tmp_path, kept=2)
    assert snapshots.newest_offset() == -1 and snapshots.newest_path(10**9) is None
    path, early = snapshots.write(rig.folder), rig.folder.offset
    rig.alter("1", 2)
    snapshots.write(rig.folder)
    assert snapshots.newest_offset() == rig.folder.offset
    assert snapshots.newest_path(early) == (early, path)


def test_what_no_start_would_read_is_not_written_and_told(
    tmp_path: Path, rig: Rig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("processors.fold.snapshot_codec.SNAPSHOT_BYTES_MAX", 100)
    snapshots = SnapshotFolder(tmp_path, kept=2)
    assert snapshots.write(rig.folder) is None and snapshots.offsets() == []
    assert "limit 100; a start folds the log" in caplog.text
