"""The key index as a whole: files in a row, restarts, cuts, a disk that refuses."""

import errno
import os
from pathlib import Path

import pytest

from brokers.store.index import index as index_module
from brokers.store.index.file import Header
from brokers.store.index.index import TOGETHER, MessageIndex, open_index
from brokers.store.log.properties import encode_properties
from brokers.store.log.records import Record
from tests.support.descriptors import open_count
from tests.unit.brokers.store.log_samples import NOW_MS, message, small_store

SIZE = 100
ALWAYS = 0, 1 << 60


def records(numbers: range) -> list[Record]:
    return [
        Record(
            n * SIZE,
            SIZE,
            "T",
            0,
            n,
            0,
            NOW_MS + n,
            0,
            encode_properties({"UNIQ_KEY": f"u{n}", "KEYS": f"k{n % 3}"}),
        )
        for n in numbers
    ]


def opened(root: Path, *, entries: int = 11, log_min: int = 0, sound: bool = True) -> MessageIndex:
    return MessageIndex(root, lambda: log_min, 64, entries, sound=sound)


def put(index: MessageIndex, numbers: range) -> None:
    index.put(numbers.start * SIZE, records(numbers), numbers.stop * SIZE)


def offsets(index: MessageIndex, key: str) -> list[int]:
    return list(index.find("T", key, *ALWAYS))


def files(root: Path) -> list[str]:
    return sorted(os.listdir(root / "index"))


def test_messages_are_found_newest_first_over_several_files_and_after_restart(
    tmp_path: Path,
) -> None:
    index = opened(tmp_path)
    put(index, range(20))
    wanted = [n * SIZE for n in reversed(range(20)) if n % 3 == 1]
    assert offsets(index, "k1") == wanted
    assert offsets(index, "u7") == [700]
    assert index.position == 2000
    assert len(files(tmp_path)) == 4 and all(len(name) == 17 for name in files(tmp_path))
    index.close(flush=True)
    again = opened(tmp_path)
    assert (again.position, offsets(again, "k1")) == (2000, wanted)
    put(again, range(20, 23))
    assert offsets(again, "k1") == [2200, *wanted]


def test_only_what_follows_without_a_gap_is_taken_and_nothing_twice(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(2))
    put(index, range(3, 5))
    assert index.position == 200
    put(index, range(1, 3))
    assert (index.position, offsets(index, "u1"), offsets(index, "u2")) == (300, [100], [200])


def test_after_a_kill_it_goes_on_behind_the_last_flush(tmp_path: Path) -> None:
    index = opened(tmp_path, entries=100)
    put(index, range(5))
    index.flush_job()()
    put(index, range(5, 9))
    index.close(flush=False)
    again = opened(tmp_path, entries=100, sound=False)
    assert 400 <= again.position <= 500
    put(again, range(4, 9))
    assert [offsets(again, f"u{n}") for n in range(9)] == [[n * SIZE] for n in range(9)]


def test_messages_without_keys_count_after_a_restart(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(3))
    index.put(300, [Record(300, 9700, "T", 0, 3, 0, NOW_MS, 0, b"")], 10_000)
    index.close(flush=True)
    assert opened(tmp_path).position == 10_000


def test_a_cut_is_remembered_and_what_comes_instead_is_indexed(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(20))
    stale = index.flush_job()
    index.cut(750)
    stale()
    assert index.position == 750
    index.close(flush=False)
    again = opened(tmp_path, sound=False)
    assert again.position == 750
    again.put(750, [Record(750, 50, "T", 0, 7, 0, NOW_MS, 0, b"KEYS\x01new\x02")], 800)
    assert offsets(again, "new") == [750]


def test_a_cut_the_disk_does_not_take_leaves_nothing_that_claims_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = opened(tmp_path)
    put(index, range(20))
    index.flush_job()()
    with monkeypatch.context() as full:
        full.setattr(os, "fdatasync", _no_space)
        index.cut(750)
    assert 0 < index.position <= 750
    put(index, range(index.position // SIZE, 20))
    assert sorted(offsets(index, "u19")) == [1900]
    index.close(flush=False)
    assert opened(tmp_path, sound=False).position <= 750


def _no_space(*_args: object) -> int:
    raise OSError(errno.ENOSPC, "no space")


def test_a_full_disk_stops_the_index_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = opened(tmp_path)
    put(index, range(3))
    index.settle()
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", _no_space)
        put(index, range(3, 6))
        assert offsets(index, "u4") == []
    put(index, range(6, 8))
    assert index.position == 300
    put(index, range(3, 8))
    assert offsets(index, "u7") == [700]


def test_few_messages_are_not_written_one_by_one_and_many_do_not_wait(tmp_path: Path) -> None:
    index = opened(tmp_path, entries=10_000)
    put(index, range(3))
    assert index.newest == Header()
    put(index, range(3, 3 + TOGETHER))
    assert index.newest.end_offset == (2 + TOGETHER) * SIZE


def test_files_of_deleted_messages_go_but_never_the_newest(tmp_path: Path) -> None:
    index = opened(tmp_path)
    put(index, range(20))
    index.close(flush=True)
    late = opened(tmp_path, log_min=1200)
    late.trim()
    assert offsets(late, "u3") == [] and offsets(late, "u19") == [1900]
    nothing = opened(tmp_path, log_min=10**6)
    nothing.trim()
    assert len(files(tmp_path)) == 1
    assert nothing.position == 10**6


def test_what_is_no_index_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "notes").write_text("x")
    (tmp_path / "index" / "20990101000000000").write_text("damaged")
    index = opened(tmp_path)
    put(index, range(2))
    assert offsets(index, "u1") == [100]
    assert files(tmp_path) == ["20990101000000000", "20990101000000001", "notes"]


def test_a_store_indexes_what_is_confirmed_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    keyed = message(body=b"keyed")
    for number in range(4):
        store.put(_with_key(keyed, f"k{number}"), NOW_MS)
    store.dispatch_to(store.log_end - 1)
    assert store.index is not None
    assert list(store.index.find("T", "k2", *ALWAYS)) and not list(
        store.index.find("T", "k3", *ALWAYS)
    )
    end = store.log_end
    store.close()
    again = small_store(tmp_path)
    assert again.index is not None
    again.dispatch_to(end)
    assert len(list(again.index.find("T", "k3", *ALWAYS))) == 1
    assert again.index.position == end == again.dispatched_offset
    again.truncate(0)
    assert again.index.position == 0
    again.close()


def _with_key(fields, key):  # type: ignore[no-untyped-def]
    from msgspec.structs import replace

    return replace(fields, properties=encode_properties({"KEYS": key}))


def test_a_folder_that_cannot_be_used_costs_only_the_index(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("in the way")
    store = small_store(tmp_path)
    assert store.index is None
    assert open_index(tmp_path, store.log, 64, 10, sound=True) is None
    store.put(message(), NOW_MS)
    store.dispatch_to(store.log_end)
    assert store.queue_bounds("T", 0) == (0, 1)


def popular(root: Path, files: int) -> MessageIndex:
    """Ten messages a second and a file, all with one key."""
    index, at = MessageIndex(root, lambda: 0, slots=1000, entries_max=11), 0
    for number in range(10 * files):
        index.put(
            at,
            [
                Record(
                    at,
                    100,
                    "T",
                    0,
                    number,
                    0,
                    NOW_MS + 60_000 * (number // 10) + number,
                    0,
                    b"KEYS\x01k\x02",
                )
            ],
            at + 100,
        )
        at += 100
    index.settle()
    return index


def test_a_search_reads_no_file_of_another_time_and_not_too_much_of_all_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, before = popular(tmp_path, 30), open_count(tmp_path)
    search = index.find("T", "k", NOW_MS + 60_000 * 7, NOW_MS + 60_000 * 8 - 1)
    assert len(search.chains) == 1 and list(search) == [
        100 * number for number in range(79, 69, -1)
    ]
    monkeypatch.setattr(index_module, "STEPS_MAX", 25)
    assert list(index.find("T", "k", 0, 1 << 60)) == [
        100 * number for number in range(299, 274, -1)
    ]
    assert list(index.find("T", "k", 0, 1)) == [] and open_count(tmp_path) == before
    index.find("T", "k", 0, 1 << 60).close()
    assert open_count(tmp_path) == before
    index.close(flush=False)


def test_a_search_goes_on_when_files_are_deleted_meanwhile(tmp_path: Path) -> None:
    index = popular(tmp_path, 3)
    search = iter(index.find("T", "k", 0, 1 << 60))
    assert next(search) == 2900
    index.cut(0)
    assert list(search) == [100 * number for number in range(28, -1, -1)]
    index.close(flush=False)
