"""A loss of power takes back what was not synced and nothing else."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.store.files.disk import new_file, sync_directory
from brokers.store.files.durable import replace_file
from tests.chaos.write_journal import PAGE_BYTES, Recorder, lose_power, records

FILE_BYTES = 8 * PAGE_BYTES


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "store").mkdir()
    recorder = Recorder(tmp_path / "store", tmp_path / "journal")
    write_bytes, write_text = Path.write_bytes, Path.write_text
    recorder.install()
    yield tmp_path / "store"
    recorder.uninstall()
    Path.write_bytes, Path.write_text = write_bytes, write_text  # type: ignore[method-assign]


def dark(store: Path, kept: float = 0.0, seed: int = 1) -> int:
    return lose_power(store, store.parent / "journal", random.Random(seed), kept).bytes_lost


def test_bytes_behind_the_last_sync_are_gone_and_those_before_it_stay(store: Path) -> None:
    fd = new_file(store / "log", FILE_BYTES)
    os.pwrite(fd, b"a" * 100, 0)
    os.fdatasync(fd)
    os.pwrite(fd, b"b" * 100, 100)
    assert dark(store) == 100
    assert (store / "log").read_bytes() == (b"a" * 100).ljust(FILE_BYTES, b"\0")


def test_what_was_overwritten_comes_back(store: Path) -> None:
    fd = new_file(store / "log", FILE_BYTES)
    os.pwrite(fd, b"old" * 2000, 50)
    os.fdatasync(fd)
    os.pwrite(fd, b"new" * 2000, 50)
    os.pwrite(fd, b"newer" * 100, 50)
    dark(store)
    assert (store / "log").read_bytes()[50:6050] == b"old" * 2000


def test_pages_are_kept_lost_or_torn_each_for_itself(store: Path) -> None:
    found = set()
    for seed in range(30):
        name = f"log{seed}"
        fd = new_file(store / name, FILE_BYTES)
        os.pwrite(fd, b"x" * FILE_BYTES, 0)
        dark(store, 0.5, seed)
        data = (store / name).read_bytes()
        found |= {data[at : at + PAGE_BYTES].count(b"x") for at in range(0, FILE_BYTES, PAGE_BYTES)}
    assert {0, PAGE_BYTES} < found and all(kept % 512 == 0 for kept in found)


def test_a_file_replaced_as_it_should_be_survives(store: Path) -> None:
    replace_file(store / "epochs", b"one")
    replace_file(store / "epochs", b"two")
    dark(store)
    assert (store / "epochs").read_bytes() == b"two"


def test_a_name_without_a_sync_of_its_folder_is_undone(store: Path) -> None:
    replace_file(store / "note", b"old")
    (store / "note.part").write_bytes(b"new")
    os.replace(store / "note.part", store / "note")
    dark(store)
    assert (store / "note").read_bytes() == b"old"


def test_a_name_may_come_before_the_bytes(store: Path) -> None:
    replace_file(store / "note", b"old")
    (store / "note.part").write_text("new")
    os.replace(store / "note.part", store / "note")
    sync_directory(store)
    dark(store)
    assert (store / "note").read_bytes() == b""


def test_a_new_file_whose_folder_was_not_synced_is_gone(store: Path) -> None:
    fd = os.open(store / "queue", os.O_RDWR | os.O_CREAT)
    os.pwrite(fd, b"x", 0)
    os.fsync(fd)
    dark(store)
    assert not (store / "queue").exists()


def test_a_journal_is_good_for_one_loss_and_a_torn_record_is_left_out(store: Path) -> None:
    fd = new_file(store / "log", FILE_BYTES)
    os.pwrite(fd, b"x", 0)
    journal = store.parent / "journal"
    whole = list(records(journal))
    journal.write_bytes(journal.read_bytes()[:-1])
    assert list(records(journal)) == whole[:-1]
    dark(store)
    assert journal.read_bytes() == b""


def test_files_elsewhere_are_not_noted(store: Path) -> None:
    (store.parent / "elsewhere").write_bytes(b"x")
    assert list(records(store.parent / "journal")) == []
