"""The next log file: there in time, given back when the log goes another way, harmless when it is
left behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.store.log import next_file
from brokers.store.log.commit_log import CommitLog
from brokers.store.store import MessageStore
from tests.unit.brokers.store.log_samples import NOW_MS, SMALL, bodies, message, sized, small_store

FILE_BYTES = SMALL.log_file_bytes


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    log = CommitLog(tmp_path / "commitlog", FILE_BYTES)
    log.next_file.ahead = True
    yield log
    log.close()


def names(log: CommitLog) -> list[int]:
    return sorted(int(path.name) for path in log._directory.iterdir())


def settle(log: CommitLog) -> None:
    if log.next_file._made is not None:
        log.next_file._made.exception()


def test_it_is_made_once_the_newest_file_is_half_full(log: CommitLog) -> None:
    log.write(0, bytes(FILE_BYTES // 2 - 1))
    assert names(log) == [0]
    log.write(log.end_offset, bytes(1))
    settle(log)
    assert names(log) == [0, FILE_BYTES] and log.capacity_end == FILE_BYTES
    log.write(log.end_offset, bytes(FILE_BYTES // 2))
    log.write(log.end_offset, b"next")
    assert log.capacity_end == 2 * FILE_BYTES and log.read(FILE_BYTES, 9) == b"next"
    assert names(log) == [0, FILE_BYTES]


def test_without_being_asked_nothing_is_made_ahead(tmp_path: Path) -> None:
    log = CommitLog(tmp_path / "commitlog", FILE_BYTES)
    log.write(0, bytes(FILE_BYTES))
    assert names(log) == [0]
    log.close()


def test_a_cut_that_removes_files_takes_it_back(log: CommitLog) -> None:
    log.append_raw(0, bytes(2 * FILE_BYTES - 10))
    settle(log)
    assert names(log) == [0, FILE_BYTES, 2 * FILE_BYTES]
    log.truncate(100)
    assert names(log) == [0]
    log.append_raw(100, bytes(2 * FILE_BYTES))
    assert log.end_offset == 2 * FILE_BYTES + 100


def test_a_cut_within_the_newest_file_leaves_it(log: CommitLog) -> None:
    log.append_raw(0, bytes(FILE_BYTES - 10))
    settle(log)
    log.truncate(100)
    assert names(log) == [0, FILE_BYTES]
    log.append_raw(100, bytes(2 * FILE_BYTES))
    assert log.end_offset == 2 * FILE_BYTES + 100


def test_an_orderly_end_leaves_no_file(log: CommitLog) -> None:
    log.append_raw(0, bytes(FILE_BYTES - 10))
    log.close()
    assert names(log) == [0]


def test_what_cannot_be_made_ahead_is_made_when_it_is_needed(
    log: CommitLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_file, "has_room", lambda folder, size: False)
    log.append_raw(0, bytes(FILE_BYTES))
    assert names(log) == [0]
    log.append_raw(FILE_BYTES, b"next")
    assert names(log) == [0, FILE_BYTES]

    def refused(path: Path, size: int) -> int:
        raise OSError("no")

    monkeypatch.undo()
    monkeypatch.setattr(next_file, "new_file", refused)
    log.append_raw(log.end_offset, bytes(FILE_BYTES))
    assert log.end_offset == 2 * FILE_BYTES + 4


@pytest.mark.parametrize("same_boot", [True, False])
def test_a_file_left_behind_by_a_kill_is_no_hindrance(tmp_path: Path, same_boot: bool) -> None:
    store = small_store(tmp_path)
    store.log.next_file.ahead = True
    for _ in range(12):
        store.put(sized(200), NOW_MS)
    store.dispatch_to(store.log_end)
    store.checkpoint()
    settle(store.log)
    end = store.log_end
    store.log.next_file._made = None  # nobody takes it back
    store.close(clean=False)
    assert len(list((tmp_path / "commitlog").iterdir())) == 2
    again = MessageStore(tmp_path, SMALL, same_boot=same_boot)
    assert again.log_end == end and len(bodies(again)) == 12
    again.put(message(), NOW_MS)
    again.close()
