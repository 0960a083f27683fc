"""Where the message of a queue's slot lies is found from what stands around it, whatever its own
entry says.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.store.log.integrity import Place
from brokers.store.queues.entries import FILLER_SIZE, pack_entry
from brokers.store.queues.repair import (
    Misplaced,
    all_led_to,
    cut_queues,
    last_dispatched,
    look,
    put_right,
    where_to_look,
)
from brokers.store.store import MessageStore
from tests.unit.brokers.store.log_samples import (
    NOW_MS,
    bodies,
    encoded,
    log_bytes,
    message,
    small_store,
)

COUNT = 40


@pytest.fixture
def store(tmp_path: Path) -> MessageStore:
    """Two queues whose messages alternate, over several files of log and queue."""
    store = small_store(tmp_path)
    for number in range(2 * COUNT):
        store.put(message(queue_id=number % 2, body=b"%d" % (number // 2) * 40), NOW_MS)
    store.dispatch_to(store.log_end)
    return store


def place(slot: int, offset: int = 7, size: int = 99) -> Place:
    return Place(offset, size, b"T", 1, slot)


def queue_of(store: MessageStore):  # type: ignore[no-untyped-def]
    queue = store.queues.get("T", 1)
    assert queue is not None
    return queue


def spoil(store: MessageStore, slot: int) -> None:
    queue_of(store).overwrite(slot, bytes(range(20)))


def found(store: MessageStore, slot: int, window: int = 1 << 20) -> tuple[int, object]:
    """(bytes looked through, message found)."""
    first, last, _ = where_to_look(store.log, queue_of(store), place(slot), store.confirm_offset)
    at = first
    while at < last:
        data = store.read_log(at, min(window, last - at))
        looked = look(data, at, store.log.file_bytes, place(slot))
        if looked.found is not None:
            return last - first, looked.found
        assert looked.end > at
        at = looked.end
    return last - first, None


@pytest.mark.parametrize("slot", [0, 1, COUNT // 2, COUNT - 2, COUNT - 1])
def test_a_wrong_entry_is_put_right_between_its_neighbours(store: MessageStore, slot: int) -> None:
    right = queue_of(store).read(slot, 1)
    spoil(store, slot)
    looked_at, record = found(store, slot)
    assert record is not None and looked_at < 4 * right[0].size + store.log.file_bytes
    assert put_right(queue_of(store), slot, record) and not put_right(queue_of(store), slot, record)
    assert queue_of(store).read(slot, 1) == right
    assert bodies(store, 1) == [b"%d" % number * 40 for number in range(COUNT)]


def test_a_whole_queue_of_wrong_entries_is_found_by_looking_through_the_log(
    store: MessageStore,
) -> None:
    right = queue_of(store).read(0, 10)
    for slot in range(COUNT):
        spoil(store, slot)
    for slot in range(COUNT):
        _, record = found(store, slot, window=700)
        assert record is not None and put_right(queue_of(store), slot, record)
    assert queue_of(store).read(0, 10) == right and len(bodies(store, 1)) == COUNT


def test_a_damaged_message_is_not_found_and_its_entry_left_alone(
    store: MessageStore, tmp_path: Path
) -> None:
    (entry,) = queue_of(store).read(3, 1)
    path = tmp_path / "commitlog" / f"{entry.physical_offset - entry.physical_offset % 4096:020d}"
    data = bytearray(path.read_bytes())
    data[entry.physical_offset % 4096 + 90] ^= 1
    path.write_bytes(data)
    assert found(store, 3)[1] is None and found(store, 4)[1] is not None


def test_entries_of_light_queues_are_not_looked_for(store: MessageStore) -> None:
    assert where_to_look(
        store.log, queue_of(store), Place(0, 1, b"%LMQ%x", 1, 3), store.confirm_offset
    ) == (0, 0, False)


def test_arbitrary_bytes_are_looked_through_without_harm(store: MessageStore) -> None:
    data = log_bytes(store)[:4096]
    for at in range(0, 4096, 7):
        spoiled = data[:at] + bytes(64) + data[at + 64 :]
        looked = look(spoiled, 0, 4096, place(5))
        assert 0 <= looked.end <= len(spoiled)


def test_messages_tell_whether_entries_lead_to_all_of_them(store: MessageStore) -> None:
    first, last, closed = where_to_look(store.log, queue_of(store), place(5), store.confirm_offset)
    others = look(
        store.read_log(first, last - first), first, store.log.file_bytes, place(99)
    ).others
    assert closed and len(others) == 3 and all_led_to(store.queues, others)
    spoil(store, 5)
    assert not all_led_to(store.queues, others)
    assert where_to_look(store.log, queue_of(store), place(0), store.confirm_offset).closed
    assert not where_to_look(
        store.log, queue_of(store), place(COUNT - 1), store.confirm_offset
    ).closed


@pytest.mark.parametrize("gap", [1, 17, 1000, 20_000])
def test_a_gap_of_any_size_is_closed_by_the_messages_on_both_sides_of_it(
    tmp_path: Path, gap: int
) -> None:
    store = small_store(tmp_path)
    for slot in (0, gap + 1):
        store.append_raw(store.log_end, encoded(message(), slot, store.log_end))
    store.dispatch_to(store.log_end)
    queue = store.queues.get("T", 0)
    assert queue is not None
    size = store.log_end // 2
    for slot in {1, gap // 2 + 1, gap}:
        assert where_to_look(store.log, queue, Place(0, 0, b"T", 0, slot), store.log_end) == (
            size,
            size,
            True,
        )
    while queue.read(1, 1)[0].size != FILLER_SIZE or queue.read(gap, 1)[0].size != FILLER_SIZE:
        wrong = next(
            slot for slot in range(1, gap + 1) if queue.read(slot, 1)[0].size != FILLER_SIZE
        )
        assert put_right(queue, wrong, None)
    assert [entry.size == FILLER_SIZE for entry in (queue.read(0, 1) + queue.read(gap + 1, 1))] == [
        False,
        False,
    ]
    assert bodies(store) == [b"body"] * 2


def test_a_last_entry_that_leads_elsewhere_says_nothing_of_what_was_dispatched(
    store: MessageStore,
) -> None:
    other = store.queues.get("T", 0)
    assert other is not None
    assert last_dispatched(store.log, store.queues) == queue_of(store).last_physical
    queue_of(store).overwrite(COUNT - 1, pack_entry(store.log_end - 1, 100, 0))
    assert last_dispatched(store.log, store.queues) == other.last_physical
    other.overwrite(COUNT - 1, pack_entry(1 << 40, 100, 0))
    assert last_dispatched(store.log, store.queues) == -1


@pytest.mark.parametrize("wrong", [1 << 40, 1 << 13])
def test_no_slot_is_passed_over_after_a_start_with_a_last_entry_that_leads_out_of_the_log(
    tmp_path: Path, wrong: int
) -> None:
    """The start takes the entry away; what comes next leaves the slot to whoever reads it."""
    store = small_store(tmp_path)
    for number in range(6):
        store.put(message(body=b"%d" % number), NOW_MS)
    store.dispatch_to(store.log_end)
    queue = store.queues.get("T", 0)
    assert queue is not None
    queue.overwrite(5, pack_entry(wrong, 100, 0))
    store.close(clean=False)
    store = small_store(tmp_path, same_boot=True)
    store.put(message(body=b"6"), NOW_MS)
    store.dispatch_to(store.log_end)
    answer = store.query("T", 0, 0, 32)
    assert answer.next_offset == (5 if answer.messages == 5 else 7)


@pytest.mark.parametrize("spoiled", [0, 19, 20, COUNT - 1])
def test_a_cut_sees_through_a_damaged_entry(store: MessageStore, spoiled: int) -> None:
    spoil(store, spoiled)
    store.log.truncate(store.queues.get("T", 0).read(20, 1)[0].physical_offset)  # type: ignore[union-attr]
    cut_queues(store.log, store.queues, store.log_end)
    assert [store.queues.get("T", number).max_offset for number in (0, 1)] == [
        20,
        21 if spoiled == 20 else 20,
    ]  # type: ignore[union-attr]


@pytest.mark.parametrize("wrong", [bytes(range(20)), b"\x40" + bytes(19), bytes(20)])
@pytest.mark.parametrize("asked", [("T", 1), ("T", 1 << 20)], ids=["offset", "queue id"])
def test_where_a_message_has_its_entry_is_found_among_entries_that_lead_nowhere(
    store: MessageStore, wrong: bytes, asked: tuple[str, int]
) -> None:
    queue = queue_of(store)
    slot = COUNT // 4
    physical, size, _ = queue.read(slot, 1)[0]
    for spoiled in (*range(slot), *range(slot + 1, COUNT - 1)):
        queue.overwrite(spoiled, wrong)
    found = Misplaced(store.log, store.queues).look(asked, 1 << 20, physical, size)
    assert found is not None and found.proven
    assert (found.place.queue_id, found.place.slot) == (1, slot)
