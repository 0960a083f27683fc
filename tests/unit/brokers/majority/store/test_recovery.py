"""What a start believes: where reading begins, the index, an end or damage, what is owed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from brokers.majority.entry import EMPTY, Place
from brokers.majority.store import recovery
from brokers.majority.store.folder import MajorityFolder
from tests.unit.brokers.majority.store.majority_samples import (
    FILE,
    append,
    chain,
    entries,
    filled,
    kill,
    small_folder,
)

MANY = [200] * 40  # ten files of four
JAVAS_CHECKPOINT = "endIndex=39\ncommittedIndex={}\n"


def killed(root: Path, sizes: list[int] | None = None, *, mark: bool = True) -> list:
    """The entries of a folder whose process was killed. `mark`: a checkpoint covers them."""
    folder = filled(root, MANY if sizes is None else sizes)
    if mark:
        folder.log.checkpoint()
    held = entries(folder.log)
    kill(folder)
    return held


def by_java(root: Path, committed: int = -1) -> list:
    """The same as Java leaves it: no checksums, no marks."""
    killed(root)
    data, made = chain(MANY, sums=False)
    for start in range(0, len(data), FILE):
        (root / "data" / f"{start:020d}").write_bytes(data[start : start + FILE])
    (root / "checkpoint").write_text(JAVAS_CHECKPOINT.format(committed))
    return made


def overwrite(root: Path, name: str, position: int, data: bytes) -> None:
    start = position // FILE * FILE
    with (root / name / f"{start:020d}").open("r+b") as file:
        file.seek(position - start)
        file.write(data)


def opened(root: Path, same_boot: bool = True) -> MajorityFolder:
    return small_folder(root, same_boot=same_boot)


# -- where reading begins


@pytest.mark.parametrize("checked_bytes", [0, 300, 5 * FILE, 1 << 40])
def test_reading_begins_a_little_in_front_of_the_last_durable_entry(
    tmp_path: Path, checked_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = killed(tmp_path)
    monkeypatch.setattr(recovery, "CHECKED_BYTES", checked_bytes)
    folder = opened(tmp_path)
    assert entries(folder.log) == held
    wanted = [e.position for e in held if e.position >= held[-1].position - checked_bytes]
    assert (folder.found.read_from, folder.found.entries) == (wanted[0], len(wanted))
    folder.close()


def test_a_folder_of_java_is_read_from_its_third_last_file(tmp_path: Path) -> None:
    made = by_java(tmp_path)
    folder = opened(tmp_path)
    assert folder.found.read_from == 7 * FILE and folder.found.index_from == -1
    assert entries(folder.log) == made and folder.log.owed is None
    folder.close()


def test_or_from_an_earlier_one_that_agrees_with_the_index(tmp_path: Path) -> None:
    by_java(tmp_path)
    overwrite(tmp_path, "index", 28 * 32, bytes(32))
    folder = opened(tmp_path)
    assert folder.found.read_from == 6 * FILE and folder.found.index_from == 28
    assert len(entries(folder.log)) == 40
    folder.close()


# -- the index


@pytest.mark.parametrize("broken", [0, 1, 31, 32, 39])
@pytest.mark.parametrize("mark", [True, False], ids=["marked", "unmarked"])
def test_index_records_that_disagree_are_made_again(
    tmp_path: Path, broken: int, mark: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = killed(tmp_path, mark=mark)
    monkeypatch.setattr(recovery, "FILES_READ", 1 << 20)
    overwrite(tmp_path, "index", broken * 32, b"\1" * 32)
    folder = opened(tmp_path)
    assert entries(folder.log) == held and folder.log.owed is None
    assert folder.found.index_from in (broken, 0)
    folder.close()


@pytest.mark.parametrize("left", ["none", "the last", "one of another log"])
def test_a_lost_index_is_made_again(tmp_path: Path, left: str) -> None:
    held = killed(tmp_path)
    index = tmp_path / "index"
    if left == "none":
        shutil.rmtree(index)
    elif left == "the last":
        (index / f"{0:020d}").unlink()
    else:
        shutil.rmtree(index)
        index.mkdir()
        (index / f"{9 * FILE:020d}").write_bytes(b"\7" * FILE)
    folder = opened(tmp_path)
    assert entries(folder.log) == held and folder.found.index_from == 0
    folder.close()
    again = opened(tmp_path)
    assert again.found.index_from == -1 and entries(again.log) == held
    again.close()


def test_index_records_behind_the_last_entry_are_gone(tmp_path: Path) -> None:
    """A cut was made in the data, and the process was killed before it was made in the index."""
    held = killed(tmp_path, [20] * 10, mark=False)
    overwrite(tmp_path, "data", held[6].position, bytes(4 * 68))
    folder = opened(tmp_path, same_boot=False)
    assert folder.log.last == Place(1, 5)
    assert not any((tmp_path / "index" / f"{0:020d}").read_bytes()[6 * 32 :])
    assert append(folder.log, 20, term=2).index == 6
    folder.close()


# -- ends


def test_zeros_end_a_log_in_order(tmp_path: Path) -> None:
    held = killed(tmp_path, [20] * 5)
    folder = opened(tmp_path)
    assert (folder.found.stopped_at, folder.found.cut_bytes) == ("", 0)
    assert entries(folder.log) == held
    folder.close()


@pytest.mark.parametrize("kept", [4, 20, 47, 48, 60])
def test_a_torn_last_entry_is_cut_and_kept_aside(tmp_path: Path, kept: int) -> None:
    held = killed(tmp_path, [20] * 5)
    folder = opened(tmp_path)
    made = append(folder.log, 20)
    kill(folder)
    overwrite(tmp_path, "data", made.position + kept, bytes(made.size - kept))
    overwrite(tmp_path, "index", 5 * 32, bytes(32))
    folder = opened(tmp_path)
    assert entries(folder.log) == held and folder.log.owed is None
    assert folder.found.cut_bytes and folder.found.stopped_at
    assert list((tmp_path / "cutAtStart").iterdir())
    folder.close()


def test_an_empty_last_file_is_no_end_by_failure(tmp_path: Path) -> None:
    """Made ahead, before the process was killed."""
    held = killed(tmp_path)
    (tmp_path / "data" / f"{10 * FILE:020d}").write_bytes(bytes(FILE))
    folder = opened(tmp_path)
    assert entries(folder.log) == held and folder.found.stopped_at == ""
    assert append(folder.log, 200).position == 10 * FILE
    folder.close()


def test_a_log_whose_files_are_gone_begins_anew_and_owes(tmp_path: Path) -> None:
    killed(tmp_path)
    shutil.rmtree(tmp_path / "data")
    folder = opened(tmp_path)
    assert (folder.log.last, folder.log.owed) == (EMPTY, Place(1, 39))
    assert append(folder.log, 5).index == 0
    folder.close()


# -- damage


@pytest.mark.parametrize("same_boot", [True, False])
@pytest.mark.parametrize("index", [0, 3, 38, 39])
def test_damage_in_what_was_durable_is_no_end(
    tmp_path: Path, index: int, same_boot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = killed(tmp_path)
    overwrite(tmp_path, "data", held[index].position + 60, b"\xee")
    folder = opened(tmp_path, same_boot)
    assert folder.log.owed == Place(1, 39), "a hole is not taken for the end"
    assert folder.log.last.index == index - 1
    assert "checksum" in folder.found.stopped_at
    kill(folder)
    again = opened(tmp_path, same_boot)
    assert again.log.owed == Place(1, 39)
    again.close()


def test_a_hole_of_whole_files_is_owed_not_forgotten(tmp_path: Path) -> None:
    """Java ends its process here."""
    killed(tmp_path)
    for start in (5, 6, 7):
        overwrite(tmp_path, "data", start * FILE, bytes(FILE))
    folder = opened(tmp_path)
    assert (folder.log.last, folder.log.owed) == (Place(1, 19), Place(1, 39))
    folder.close()


@pytest.mark.parametrize(("same_boot", "owed"), [(True, Place(1, 39)), (False, None)])
def test_without_a_mark_only_a_machine_that_kept_its_power_tells_damage_from_a_torn_end(
    tmp_path: Path, same_boot: bool, owed: Place | None
) -> None:
    folder = filled(tmp_path, [200])
    folder.log.checkpoint()
    for _ in range(39):
        append(folder.log, 200)
    kill(folder)
    overwrite(tmp_path, "data", 8 * FILE + 100, b"\xee")
    folder = opened(tmp_path, same_boot)
    assert folder.log.owed == owed and folder.log.last == Place(1, 31)
    folder.close()


@pytest.mark.parametrize(("committed", "owed"), [(20, None), (38, Place(1, 38))])
def test_of_a_folder_of_java_what_was_committed_was_written(
    tmp_path: Path, committed: int, owed: Place | None
) -> None:
    made = by_java(tmp_path, committed)
    overwrite(tmp_path, "data", made[35].position + 4, b"\xee")
    folder = opened(tmp_path)
    assert folder.log.owed == owed and folder.log.last == Place(1, 34)
    assert folder.log.committed_index == min(committed, 34)
    folder.close()


def test_a_damaged_first_entry_of_the_oldest_file_is_found_when_it_is_read(tmp_path: Path) -> None:
    held = killed(tmp_path)
    folder = opened(tmp_path)
    folder.log.commit(39)
    folder.log.trim(3 * FILE)()
    folder.close()
    overwrite(tmp_path, "data", 3 * FILE, b"\xee" * 48)
    with pytest.MonkeyPatch.context() as context:
        context.setattr(recovery, "CHECKED_BYTES", 0)
        folder = opened(tmp_path)
    assert folder.log.first_index == 12 and folder.log.owed is None
    assert folder.log.get(13) == held[13]
    folder.close()


@pytest.mark.parametrize(("said", "found"), [(7, 7), (39, 39), (77, 39), (-1, -1)])
def test_the_committed_index_is_clamped_to_the_end(tmp_path: Path, said: int, found: int) -> None:
    by_java(tmp_path, said)
    folder = opened(tmp_path)
    assert folder.log.committed_index == found
    folder.close()
