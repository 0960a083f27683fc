"""The store as its users see it: places, queue offsets, batches, roles, cuts, durability."""

import os
import threading
from pathlib import Path

import pytest

from brokers.store.appender import PutResult
from brokers.store.files.errors import LogError
from brokers.store.log.records import decode_messages
from brokers.store.queues.entries import ENTRY_BYTES
from brokers.store.recovery.checkpoint import read_checkpoint
from brokers.store.store import MessageStore
from tests.unit.brokers.store.log_samples import (
    NOW_MS,
    bodies,
    encoded,
    log_bytes,
    message,
    sized,
    small_store,
)
from tests.unit.brokers.store.recovery.test_recovery import overwrite


def test_a_put_tells_where_the_message_went(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    assert store.put(sized(200), NOW_MS) == PutResult(0, 200, 0, "0A00000200002A9F0000000000000000")
    assert store.put(sized(200), NOW_MS) == PutResult(
        200, 400, 1, "0A00000200002A9F00000000000000C8"
    )
    stored = decode_messages(log_bytes(store))[1]
    assert (stored.physical_offset, stored.queue_offset, stored.store_ms) == (200, 1, NOW_MS)


@pytest.mark.parametrize("received", [1, 7, 50, 199])
def test_with_a_partly_received_record_at_its_end_a_log_cannot_lead(
    tmp_path: Path, received: int
) -> None:
    store = small_store(tmp_path)
    store.append_raw(0, encoded(sized(200), 0, 0) + encoded(sized(200), 1, 200)[:received])
    with pytest.raises(LogError, match="cannot lead"):
        store.rebuild_queue_offsets()
    store.dispatch_to(200 + received)
    assert store.truncate(200) == 200
    assert store.put(sized(200), NOW_MS)[:3] == (200, 400, 1)
    store.dispatch_to(400)
    assert store.queue_bounds("T", 0) == (0, 2)


def test_a_log_of_garbage_never_leads(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.append_raw(0, b"garbage!" * 20)
    with pytest.raises(LogError, match="cannot lead"):
        store.rebuild_queue_offsets()


def test_a_cut_takes_back_queue_entries_and_offsets(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    ends = [store.put(message(queue_id=n % 2), NOW_MS).end_offset for n in range(60)]
    store.dispatch_to(store.log_end)
    assert store.truncate(ends[30]) == ends[30]
    assert (store.confirm_offset, store.dispatched_offset) == (ends[30], ends[30])
    assert (store.queue_bounds("T", 0), store.queue_bounds("T", 1)) == ((0, 16), (0, 15))
    assert store.put(message(queue_id=1), NOW_MS)[::2] == (ends[30], 15)


def test_a_cut_takes_no_entry_that_only_looks_as_if_it_led_behind_it(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for _ in range(3):
        store.put(message(queue_id=1), NOW_MS)
    store.dispatch_to(store.log_end)
    store.checkpoint()
    put = [store.put(message(), NOW_MS) for _ in range(3)]
    store.dispatch_to(store.log_end)
    overwrite(tmp_path / "consumequeue" / "T" / "1" / f"{0:020d}", 2 * ENTRY_BYTES, b"\x40")
    store.truncate(put[2].physical_offset)
    assert [store.queue_bounds("T", number) for number in (0, 1)] == [(0, 2), (0, 3)]
    assert [store.put(message(queue_id=number), NOW_MS).queue_offset for number in (0, 1)] == [2, 3]


def test_a_log_that_is_emptied_and_copied_from_further_in_front_is_whole(tmp_path: Path) -> None:
    """Its master has older files than it had itself: nothing of them counts as durable, and their
    entries have room.
    """
    master = small_store(tmp_path / "master")
    while len(master.log.file_starts) < 4:
        master.put(message(body=bytes(500)), NOW_MS)
    slave = small_store(tmp_path / "slave")
    slave.append_raw(8192, master.read_log(8192, 4096))
    slave.dispatch_to(slave.log_end)
    slave.checkpoint()
    slave.truncate(0)
    assert (slave.log_end, slave.durable_offset) == (0, 0)
    for start in range(0, 12288, 4096):
        slave.append_raw(start, master.read_log(start, 4096))
    assert slave.confirm_offset == 0
    slave.dispatch_to(slave.log_end)
    master.dispatch_to(slave.log_end)
    assert slave.queue_bounds("T", 0) == (0, master.queue_bounds("T", 0)[1]) and bodies(
        slave
    ) == bodies(master)


def test_a_replica_emptied_by_a_cut_can_begin_again(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for _ in range(60):
        store.put(message(), NOW_MS)
    store.dispatch_to(store.log_end)
    assert store.truncate(0) == 0
    store.append_raw(8192, encoded(message(body=b"new"), 77, 8192))
    store.dispatch_to(store.log_end)
    assert (store.log_min, store.queue_bounds("T", 0), bodies(store)) == (8192, (77, 78), [b"new"])


def test_the_checkpoint_records_what_is_durable(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for n in range(3):
        store.put(sized(200), NOW_MS + n)
    store.dispatch_to(400)
    job = store.checkpoint_job()
    store.put(sized(200), NOW_MS + 9)
    worker = threading.Thread(target=job)
    worker.start()
    worker.join()
    checkpoint = read_checkpoint(tmp_path / "checkpoint")
    assert (checkpoint.log_ms, checkpoint.queues_ms) == (NOW_MS + 1, NOW_MS + 1)
    assert (checkpoint.flushed_offset, checkpoint.confirm_offset) == (400, 400)
    assert store.flush() == 800


def test_a_checkpoint_job_from_before_a_cut_records_nothing(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for _ in range(3):
        store.put(sized(200), NOW_MS)
    store.dispatch_to(600)
    store.checkpoint()
    job = store.checkpoint_job()
    store.truncate(200)
    store.append_raw(200, encoded(sized(200), 1, 200))
    job()
    checkpoint = read_checkpoint(tmp_path / "checkpoint")
    assert (checkpoint.flushed_offset, checkpoint.confirm_offset) == (200, 200)


def test_an_end_makes_durable_what_a_job_that_has_not_begun_was_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = small_store(tmp_path)
    store.put(sized(200), NOW_MS)
    store.dispatch_to(200)
    store.checkpoint_job()  # its thread comes to nothing before the power goes
    synced, sync = [], os.fdatasync

    def noted(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        sync(fd)

    monkeypatch.setattr(os, "fdatasync", noted)
    store.close()
    assert str(tmp_path / "consumequeue" / "T" / "0" / f"{0:020d}") in synced
    assert read_checkpoint(tmp_path / "checkpoint").flushed_offset == 200


def test_a_job_that_begins_in_the_next_life_records_nothing(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for _ in range(3):
        store.put(sized(200), NOW_MS)
    store.dispatch_to(600)
    job = store.checkpoint_job()
    store.close()
    again = small_store(tmp_path)
    again.truncate(200)
    again.append_raw(200, encoded(sized(200), 1, 200))
    job()
    checkpoint = read_checkpoint(tmp_path / "checkpoint")
    assert (checkpoint.flushed_offset, checkpoint.confirm_offset) == (200, 200)
    again.close()


def test_a_job_that_ends_behind_a_later_one_records_nothing(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.put(sized(200), NOW_MS)
    store.dispatch_to(200)
    early = store.checkpoint_job()
    store.put(sized(200), NOW_MS)
    store.dispatch_to(400)
    store.checkpoint()
    early()
    assert read_checkpoint(tmp_path / "checkpoint").flushed_offset == 400


def test_a_cut_does_not_call_durable_what_was_never_flushed(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for _ in range(3):
        store.put(sized(200), NOW_MS)
    store.dispatch_to(600)
    store.truncate(400)
    checkpoint = read_checkpoint(tmp_path / "checkpoint")
    assert (checkpoint.log_ms, checkpoint.flushed_offset, checkpoint.confirm_offset) == (0, 0, 400)


def test_a_store_in_use_is_refused_with_the_way_out(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    with pytest.raises(LogError, match="stop it, or choose another store folder"):
        small_store(tmp_path)
    store.close()
    small_store(tmp_path).close()


def test_a_store_that_failed_to_open_releases_its_folder(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.put(message(), NOW_MS)
    store.close()
    with pytest.raises(LogError, match="file size"):
        MessageStore(tmp_path)
    small_store(tmp_path).close()


def test_an_unclean_close_leaves_the_mark(tmp_path: Path) -> None:
    small_store(tmp_path).close(clean=False)
    assert (tmp_path / "abort").exists()
    small_store(tmp_path).close()
    assert not (tmp_path / "abort").exists()


def test_closing_twice_touches_nothing_the_second_time(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.close()
    again = small_store(tmp_path)
    store.close()
    again.put(message(), NOW_MS)
    with pytest.raises(LogError, match="in use"):
        small_store(tmp_path)
    again.close(clean=False)
    assert (tmp_path / "abort").exists()
    again.close()
    assert (tmp_path / "abort").exists()


def test_who_remembers_how_far_the_log_went_hears_of_a_cut_before_a_byte_is_gone(tmp_path):
    store = small_store(tmp_path)
    first = store.put(message(), NOW_MS).end_offset
    end = store.put(message(), NOW_MS).end_offset
    store.dispatch_to(end)
    store.checkpoint()
    assert store.durable_offset == end
    heard = []
    store.before_cut = lambda offset: heard.append((offset, store.log_end))
    store.truncate(first)
    assert heard == [(first, end)] and store.durable_offset == first
    store.close()
