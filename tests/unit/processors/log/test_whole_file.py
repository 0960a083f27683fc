"""A file is there whole or not at all."""

from pathlib import Path

import pytest

from processors.log.whole_file import replace_whole


def test_the_new_bytes_stand_under_the_name_and_nothing_beside_it(tmp_path: Path) -> None:
    for data in (b"old and longer", b"new"):
        replace_whole(tmp_path / "notes.json", data)
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("notes.json", b"new")]


def test_the_folder_is_synced_after_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a loss of power may take the new name away again."""
    import os

    seen: list[str] = []
    true_sync, true_replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda fd: (seen.append(os.readlink(f"/proc/self/fd/{fd}")), true_sync(fd))
    )
    monkeypatch.setattr(os, "replace", lambda *names: (seen.append("rename"), true_replace(*names)))
    replace_whole(tmp_path / "notes.json", b"x")
    assert seen == [str(tmp_path / "notes.part"), "rename", str(tmp_path)]
