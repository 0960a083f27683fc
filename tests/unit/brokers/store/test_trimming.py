"""Old files leave a store: what stays readable, what a crash in between leaves."""

import shutil
from pathlib import Path

import pytest

from brokers.store.trimming import trim
from tests.unit.brokers.store.log_samples import NOW_MS, bodies, log_bytes, message, small_store


def filled(root: Path, count: int = 300):
    store = small_store(root)
    for number in range(count):
        store.put(message(queue_id=number % 2, body=b"%d" % number), NOW_MS + number)
    store.dispatch_to(store.log_end)
    return store


def trimmed(store, below: int) -> None:
    trim(store.log, store.queues, below, store.dispatched_offset)()


@pytest.mark.parametrize("below", [1, 4095, 4096, 8191, 8192, 10**9])
def test_whole_files_go_and_everything_in_the_others_stays_readable(
    tmp_path: Path, below: int
) -> None:
    store = filled(tmp_path)
    data, before = log_bytes(store), bodies(store, 0) + bodies(store, 1)
    starts = store.log.file_starts
    assert len(starts) > 4
    trimmed(store, below)
    wanted = max(start for start in starts if start <= max(below, 0))
    assert store.log_min == wanted and log_bytes(store) == data[wanted:]
    assert (
        store.read_log(wanted - 1, 10) == b"" and store.file_range(0, 10) is None
    ) or wanted == 0
    assert sorted(int(path.name) for path in (tmp_path / "commitlog").iterdir()) == [
        start for start in starts if start >= wanted
    ]
    left = bodies(store, 0) + bodies(store, 1)
    assert set(left) <= set(before) and sorted(map(int, left)) == list(range(300 - len(left), 300))
    end = store.put(message(body=b"next"), NOW_MS).end_offset
    store.dispatch_to(end)
    store.close()
    again = small_store(tmp_path)
    assert (again.log_min, again.log_end) == (wanted, end)
    assert (
        bodies(again, 0)[-1] == b"next"
        and len(bodies(again, 0)) + len(bodies(again, 1)) == len(left) + 1
    )
    again.close()


def test_what_is_not_dispatched_stays(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for number in range(300):
        store.put(message(body=b"%d" % number), NOW_MS)
    store.dispatch_to(5000)
    trimmed(store, 10**9)
    assert store.log_min == 4096
    store.dispatch_to(store.log_end)
    assert bodies(store)[-1] == b"299"
    store.close()


def test_queue_files_go_with_the_messages_they_point_to_but_never_the_newest(
    tmp_path: Path,
) -> None:
    store = filled(tmp_path)
    store.put(message(queue_id=7, body=b"once"), NOW_MS)
    for _ in range(300):
        store.put(message(queue_id=0), NOW_MS)
    store.dispatch_to(store.log_end)
    before = len(list((tmp_path / "consumequeue" / "T" / "1").iterdir()))
    trimmed(store, store.log_end)
    files = {
        queue: sorted(
            path.name for path in (tmp_path / "consumequeue" / "T" / str(queue)).iterdir()
        )
        for queue in (0, 1, 7)
    }
    assert before > 10 and len(files[1]) == len(files[7]) == 1
    assert store.queue_bounds("T", 7) == (1, 1) and store.queue_bounds("T", 1) == (150, 150)
    assert store.put(message(queue_id=7), NOW_MS).queue_offset == 1
    assert store.put(message(queue_id=1), NOW_MS).queue_offset == 150
    store.close()


def test_a_crash_before_the_files_are_gone_leaves_a_store_that_opens(tmp_path: Path) -> None:
    store = filled(tmp_path / "one")
    starts, data = store.log.file_starts, log_bytes(store)
    trim(store.log, store.queues, 3 * 4096, store.dispatched_offset)  # and then nothing
    store.close(clean=False)
    for removed in range(4):
        root = tmp_path / f"copy-{removed}"
        shutil.copytree(tmp_path / "one", root)
        for start in starts[:removed]:
            (root / "commitlog" / f"{start:020d}").unlink()
        again = small_store(root, same_boot=True)
        assert again.log_min == starts[removed] and log_bytes(again) == data[starts[removed] :]
        assert bodies(again, 1)[-1] == b"299"
        again.close()


def test_a_flush_beside_a_trim_and_readers_of_gone_bytes_are_safe(tmp_path: Path) -> None:
    store = filled(tmp_path)
    job = store.checkpoint_job()
    trimmed(store, 2 * 4096)
    job()
    assert store.log.flushed_offset == store.log_end
    assert store.query("T", 0, 0, 32).body == b""
    store.close()
