"""Places and queue offsets of new messages: groups, refusals, new masters."""

import errno
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from brokers.store.appender import PutResult
from brokers.store.files.errors import DiskFull
from brokers.store.log import commit_log
from brokers.store.log.records import RecordError
from tests.support.examples import examples
from tests.support.small_disk import small_disk
from tests.unit.brokers.store.log_samples import (
    NOW_MS,
    bodies,
    encoded,
    log_bytes,
    message,
    sized,
    small_store,
)


def test_each_queue_counts_for_itself(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    offsets = [store.put(message("AB"[n % 2], n % 3), NOW_MS).queue_offset for n in range(12)]
    assert offsets == [0] * 6 + [1] * 6
    store.dispatch_to(store.log_end)
    assert len(store.queue_ids()) == 6


def test_a_batch_is_contiguous_in_one_file(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.put(sized(3000), NOW_MS)
    result = store.put_batch([sized(400) for _ in range(3)], NOW_MS)
    assert (result.physical_offset, result.end_offset, result.queue_offset) == (4096, 5296, 1)
    assert [text[-4:] for text in result.msg_id.split(",")] == ["1000", "1190", "1320"]
    store.dispatch_to(store.log_end)
    assert store.queue_bounds("T", 0) == (0, 4)


def test_a_batch_larger_than_a_file_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    with pytest.raises(RecordError, match="do not fit"):
        store.put_batch([sized(2045), sized(2045)], NOW_MS)
    with pytest.raises(RecordError):
        store.put_batch([], NOW_MS)
    assert store.log_end == 0
    assert store.put(message(), NOW_MS).queue_offset == 0


def test_a_refused_group_leaves_the_others_alone(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    bad = replace(message(), queue_id=1 << 40)
    results = store.put_many(
        [[message()], [message(), bad], [message(topic="")], [message(), message()]], NOW_MS
    )
    assert [isinstance(result, RecordError) for result in results] == [False, True, True, False]
    last = results[3]
    assert isinstance(last, PutResult)
    assert last.queue_offset == 1
    store.dispatch_to(store.log_end)
    assert store.queue_bounds("T", 0) == (0, 3)


def test_many_groups_lie_as_if_put_one_by_one(tmp_path: Path) -> None:
    groups = [[sized(150 + 37 * n % 800, n % 3)] * (1 + n % 3) for n in range(40)]
    one, many = small_store(tmp_path / "one"), small_store(tmp_path / "many")
    singly = [one.put_batch(group, NOW_MS) for group in groups]
    assert many.put_many(groups, NOW_MS) == singly
    assert log_bytes(many) == log_bytes(one)
    assert sorted(many.dispatch_to(many.log_end)) == sorted(one.dispatch_to(one.log_end))


def test_prepared_messages_store_queue_offset_0_and_count_nothing(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.put(message(), NOW_MS)
    assert store.put(message(sys_flag=0x4), NOW_MS).queue_offset == 0
    assert store.put(message(), NOW_MS).queue_offset == 1


def test_a_new_master_goes_on_behind_messages_that_are_not_confirmed(tmp_path: Path) -> None:
    old, new = small_store(tmp_path / "old"), small_store(tmp_path / "new")
    for n in range(20):
        old.put(message(queue_id=n % 2), NOW_MS)
    for at in range(0, old.log_end, 4096):
        new.append_raw(at, old.read_log(at, 4096))
    new.dispatch_to(old.log_end // 2)
    new.rebuild_queue_offsets()
    assert new.put(message(queue_id=1), NOW_MS).queue_offset == 10
    assert new.put(message(queue_id=0), NOW_MS).queue_offset == 10
    new.dispatch_to(new.log_end)
    assert len(bodies(new, 0)) == 11


def test_queue_offsets_are_found_again_without_being_asked_for(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.put(message(), NOW_MS)
    end = store.log_end
    store.append_raw(end, encoded(message(), 1, end))
    assert store.put(message(), NOW_MS).queue_offset == 2


@pytest.mark.parametrize("left", [0, 4096 + 200])
def test_a_full_disk_stores_all_groups_of_a_call_or_none(tmp_path: Path, left: int) -> None:
    with small_disk(tmp_path) as disk:
        store = small_store(disk.root)
        store.put(sized(1000), NOW_MS)
        store.dispatch_to(store.log_end)
        disk.fill(left)
        before = log_bytes(store)
        for _ in range(3):
            with pytest.raises(DiskFull):
                store.put_many(
                    [[sized(2000)], [sized(2000)], [sized(2000)], [sized(2000)], [sized(2000)]],
                    NOW_MS,
                )
        assert log_bytes(store) == before and store.writable() is not None
        assert bodies(store) == [sized(1000).body]
        disk.free()
        store.log._full_until = 0.0
        results = store.put_many([[sized(2000)] for _ in range(5)], NOW_MS)
        assert [result.queue_offset for result in results if isinstance(result, PutResult)] == [
            1,
            2,
            3,
            4,
            5,
        ]
        assert store.writable() is None
        store.dispatch_to(store.log_end)
        end = store.log_end
        store.close(clean=False)
        again = small_store(disk.root, same_boot=True)
        assert again.log_end == end and len(bodies(again)) == 6
        again.close()


class Fickle:
    """A disk that now and then has no room: for a new file, or in the middle of a write."""

    def __init__(self, refusals: list[bool]) -> None:
        self._refusals, self._file, self._write = (
            refusals,
            commit_log.new_file,
            commit_log.write_all,
        )

    def _refuses(self) -> bool:
        return self._refusals.pop() if self._refusals else False

    def new_file(self, path: Path, size: int) -> int:
        if self._refuses():
            raise OSError(errno.ENOSPC, "planted")
        return self._file(path, size)

    def write_all(self, fd: int, data: bytes, position: int) -> None:
        if self._refuses():
            raise OSError(errno.EDQUOT, "planted")
        self._write(fd, data, position)


@settings(max_examples=examples(80), deadline=None)
@given(
    calls=st.lists(
        st.lists(st.sampled_from([10, 1500, 3000]), min_size=1, max_size=5), min_size=4, max_size=12
    ),
    refusals=st.lists(st.sampled_from([False, False, True]), min_size=10, max_size=40),
)
def test_whenever_room_is_missing_the_log_holds_exactly_what_was_said_to_be_stored(
    calls: list[list[int]], refusals: list[bool]
) -> None:
    disk, stored = Fickle(refusals), []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setattr(commit_log, "FULL_RETRY_S", 0)
        patched.setattr(commit_log, "new_file", disk.new_file)
        patched.setattr(commit_log, "write_all", disk.write_all)
        store = small_store(Path(folder))
        for number, sizes in enumerate(calls):
            groups = [
                [message(queue_id=number % 2, body=b"%04d" % number + b"z" * size)]
                for size in sizes
            ]
            end = store.log_end
            try:
                results = store.put_many(groups, NOW_MS)
            except DiskFull:
                assert store.log_end == end and store.log.io_error is None
                continue
            assert [result.queue_offset for result in results if isinstance(result, PutResult)] == [
                sum(queue == number % 2 for queue, _ in stored) + index
                for index in range(len(groups))
            ]
            stored += [(number % 2, group[0].body) for group in groups]
            if number % 3 == 0:
                store.dispatch_to(store.log_end)
        store.dispatch_to(store.log_end)
        data = log_bytes(store)
        for queue in range(2):
            assert bodies(store, queue) == [body for of, body in stored if of == queue]
        store.close(clean=False)
        again = small_store(Path(folder), same_boot=True)
        assert log_bytes(again) == data and again.recovery.missing_bytes == 0
        for queue in range(2):
            assert bodies(again, queue) == [body for of, body in stored if of == queue]
        again.close()
