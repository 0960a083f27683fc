"""From the log to the queues: order, limits, repeats, memory of own appends."""

from pathlib import Path

import pytest

from brokers.store.log.records import Record
from brokers.store.log.scan import LogWalk
from brokers.store.queues.consume_queues import ConsumeQueues
from brokers.store.queues.dispatch import Dispatcher
from brokers.store.store import MessageStore
from tests.unit.brokers.store.log_samples import (
    GOLDEN,
    NOW_MS,
    encoded,
    message,
    sized,
    small_store,
)


def replica_of(source: MessageStore, root: Path) -> MessageStore:
    """A store that got the same bytes by replication, in pieces that respect no record."""
    copy = small_store(root)
    at = 0
    while at < source.log_end:
        data = source.read_log(at, 777)
        copy.append_raw(at, data)
        at += len(data)
    return copy


def entries(store: MessageStore) -> dict[tuple[str, int], list[tuple[int, int, int]]]:
    found: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for key, queue in store.queues:
        found[key] = [tuple(queue.read(slot, 1)[0]) for slot in range(queue.max_offset)]  # type: ignore[misc]
    return found


def filled(root: Path) -> MessageStore:
    store = small_store(root)
    for number in range(60):
        store.put(
            message("AB"[number % 2], number % 3, b"x" * number, tag="t%d" % (number % 4)),
            NOW_MS + number,
        )
    return store


def test_the_queues_of_the_real_broker_come_out_of_its_log(tmp_path: Path) -> None:
    store = MessageStore(tmp_path)
    data = (GOLDEN / "commitlog_first_8k").read_bytes()[:7302]
    store.append_raw(0, data)
    grown = {(topic, queue): end for topic, queue, end in store.dispatch_to(7302)}
    assert grown["Life", 0] == 9
    for path in GOLDEN.glob("consumequeue__*"):
        topic, queue_id = path.name.split("__")[1:]
        queue = store.queues.get(topic, int(queue_id))
        assert queue is not None
        mine = (tmp_path / "consumequeue" / topic / queue_id / f"{0:020d}").read_bytes()
        assert mine[: 20 * queue.max_offset] == path.read_bytes()[: 20 * queue.max_offset]
        assert not any(path.read_bytes()[20 * queue.max_offset :])
    store.close()


def test_master_and_replica_build_the_same_queues(tmp_path: Path) -> None:
    master = filled(tmp_path / "master")
    slave = replica_of(master, tmp_path / "slave")
    assert sorted(master.dispatch_to(master.log_end)) == sorted(slave.dispatch_to(master.log_end))
    assert entries(master) == entries(slave)
    assert sum(len(found) for found in entries(slave).values()) == 60


@pytest.mark.parametrize("as_slave", [False, True])
def test_entries_appear_exactly_up_to_the_confirm_offset(tmp_path: Path, as_slave: bool) -> None:
    store = filled(tmp_path / "master")
    ends = [record.physical_offset + record.size for record in walk_of(store)]
    if as_slave:
        store = replica_of(store, tmp_path / "slave")
    for confirm in range(0, store.log_end + 50, 11):
        store.dispatch_to(confirm)
        assert sum(len(found) for found in entries(store).values()) == sum(
            end <= confirm for end in ends
        )
        assert store.dispatched_offset <= max(confirm, 0)
    assert store.dispatch_to(store.log_end) == []


def walk_of(store: MessageStore) -> list[Record]:
    return list(LogWalk(store.log.read, 0, store.log_end, store.log.file_bytes, check_body=True))


def test_own_appends_and_replicated_bytes_mix(tmp_path: Path) -> None:
    first = filled(tmp_path / "first")
    store = replica_of(first, tmp_path / "second")
    for _ in range(5):
        store.put(message("A"), NOW_MS)
    store.dispatch_to(store.log_end)
    for _ in range(5):
        store.put(message("A"), NOW_MS)
    store.dispatch_to(store.log_end)
    assert store.queue_bounds("A", 0)[1] == len([1 for n in range(60) if n % 6 == 0]) + 10


def test_more_unconfirmed_messages_than_memory_allows_are_read_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokers.store.queues.dispatch.PENDING_RECORDS_MAX", 7)
    store = filled(tmp_path)
    assert len(store.dispatcher._pending) == 7
    store.dispatch_to(store.log_end)
    assert sum(len(found) for found in entries(store).values()) == 60
    store.put(message("A"), NOW_MS)
    assert len(store.dispatcher._pending) == 1


def test_own_messages_are_remembered_behind_others_that_are_not_read_yet(tmp_path: Path) -> None:
    """A master that took over in the middle of something never goes back to reading its own
    messages.
    """
    store = replica_of(filled(tmp_path / "first"), tmp_path / "second")
    taken_over = store.log_end
    for _ in range(10):
        store.put(message("A"), NOW_MS)
    assert len(store.dispatcher._pending) == 10 and not store.dispatcher.remembers
    store.dispatch_to(taken_over - 1)
    assert store.dispatched_offset < taken_over and not store.dispatcher.remembers
    store.dispatch_to(taken_over)
    assert store.dispatcher.remembers
    store.dispatch_to(store.log_end)
    assert (
        sum(len(found) for found in entries(store).values()) == 70 and not store.dispatcher._pending
    )


def test_a_repeated_range_adds_nothing(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.dispatch_to(store.log_end)
    before = entries(store)
    store.dispatcher.restart_at(0)
    assert store.dispatch_to(store.log_end) == []
    assert entries(store) == before


def test_prepared_messages_get_no_entry(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.put(message(sys_flag=0x4), NOW_MS)
    store.put(message(sys_flag=0xC), NOW_MS)
    store.put(message(sys_flag=0x8), NOW_MS)
    assert store.dispatch_to(store.log_end) == [("T", 0, 1)]


def test_bytes_that_are_no_record_stop_the_queues_and_are_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = small_store(tmp_path)
    store.put(sized(200), NOW_MS)
    end = store.log_end
    store.append_raw(end, b"\x00\x00\x01\x00garbage that nobody can read")
    for _ in range(3):
        store.dispatch_to(store.log_end)
    assert store.dispatched_offset == end
    assert [record.message for record in caplog.records].count(caplog.records[0].message) == 1
    assert "start this replica with an empty store" in caplog.records[0].message


def test_a_disk_that_takes_no_entries_costs_only_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = small_store(tmp_path)
    for number in range(5):
        store.put(message(queue_id=number % 2), NOW_MS)
    (tmp_path / "consumequeue" / "T").touch()  # no folder can be made here
    for _ in range(2):
        assert store.dispatch_to(store.log_end) == []
    assert store.dispatched_offset == 0
    assert len(caplog.records) == 1
    (tmp_path / "consumequeue" / "T").unlink()
    assert sorted(store.dispatch_to(store.log_end)) == [("T", 0, 3), ("T", 1, 2)]


def test_entries_of_one_log_file_are_written_before_those_of_the_next(tmp_path: Path) -> None:
    """Else a kill could leave an early message without entry behind a later file that has some."""
    store = small_store(tmp_path)
    for number in range(8):
        store.put(message("AB"[number % 2], body=bytes(1000)), NOW_MS)
    assert store.log_end > 8192
    # the second queue of the first file cannot be written
    (tmp_path / "consumequeue" / "B").touch()
    store.dispatch_to(store.log_end)
    assert store.queue_bounds("A", 0) == (0, 2)
    assert store.queue_bounds("B", 0) == (0, 0)


def test_a_queue_offset_that_jumps_far_stops_only_its_queue(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = small_store(tmp_path)
    for slot, queue_id in ((0, 0), (1 << 50, 0), (0, 1)):
        end = store.log_end
        store.append_raw(end, encoded(message(queue_id=queue_id), slot, end))
    store.dispatch_to(store.log_end)
    assert (store.queue_bounds("T", 0), store.queue_bounds("T", 1)) == ((0, 1), (0, 1))
    assert "jumps from 1" in caplog.text


def test_a_queue_id_out_of_range_does_not_stop_the_others(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    store.put(message("no/folder"), NOW_MS)
    store.put(message(queue_id=-3), NOW_MS)
    store.put(message(), NOW_MS)
    assert store.dispatch_to(store.log_end) == [("T", 0, 1)]


def test_a_dispatcher_alone_starts_at_the_beginning(tmp_path: Path) -> None:
    store = filled(tmp_path / "store")
    queues = ConsumeQueues(tmp_path / "other", 200)
    dispatcher = Dispatcher(store.log, queues)
    assert sum(end for _, _, end in dispatcher.dispatch_to(store.log_end)) == 60
    assert dispatcher.last_store_ms == NOW_MS + 59
