"""The index catches up from the log, in pieces."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from brokers.store.index import catch_up
from brokers.store.index.catch_up import IndexCatchUp
from brokers.store.log.properties import encode_properties
from brokers.store.store import MessageStore, StoreConfig
from tests.unit.brokers.store.log.test_patch import flip
from tests.unit.brokers.store.log_samples import NOW_MS, message

FILE_BYTES = 1 << 19


def keyed(number: int, body: bytes = b"x" * 900):  # type: ignore[no-untyped-def]
    return replace(message(body=body), properties=encode_properties({"KEYS": f"k{number}"}))


def store_without_index(root: Path, count: int, big_at: int = -1) -> None:
    config = StoreConfig(log_file_bytes=FILE_BYTES, queue_file_bytes=2000, message_index=False)
    store = MessageStore(root, config)
    assert store.index is None
    for number in range(count):
        body = b"y" * (2 * catch_up.WINDOW_BYTES) if number == big_at else b"x" * 900
        store.put(keyed(number, body), NOW_MS)
    store.dispatch_to(store.log_end)
    store.close()


def caught_up(store: MessageStore) -> int:
    """Pieces it took."""
    assert store.index is not None
    work, pieces = IndexCatchUp(store.log, store.index), 0
    while (piece := work.next_piece(store.dispatched_offset)) is not None:
        start = store.index.position
        assert work.take(start, *piece())
        pieces += 1
        assert pieces < 100
    return pieces


def test_an_index_switched_on_later_learns_all_messages_over_file_borders_and_large_ones(
    tmp_path: Path,
) -> None:
    store_without_index(tmp_path, 1200, big_at=700)
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=FILE_BYTES, queue_file_bytes=2000))
    assert store.index is not None
    store.dispatch_to(store.log_end)
    assert store.index.position == 0 and len(store.log.file_starts) > 2
    assert caught_up(store) > 5
    assert store.index.position == store.dispatched_offset == store.log_end
    assert all(
        len(list(store.index.find("T", f"k{number}", 0, 1 << 60))) == 1 for number in range(1200)
    )
    store.put(keyed(5000), NOW_MS)
    store.dispatch_to(store.log_end)
    assert len(list(store.index.find("T", "k5000", 0, 1 << 60))) == 1
    store.close()


@pytest.mark.parametrize("where", [0, 3, 400])
def test_a_damaged_record_is_passed_over_and_what_comes_later_is_found(
    tmp_path: Path, where: int
) -> None:
    store_without_index(tmp_path, 1200)
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=FILE_BYTES, queue_file_bytes=2000))
    assert store.index is not None
    queue = store.queues.get("T", 0)
    assert queue is not None
    at = queue.read(where, 1)[0].physical_offset
    flip(tmp_path, at + 4)  # its magic
    caught_up(store)
    assert store.index.position >= store.dispatched_offset - 2000
    found = [
        number for number in range(1200) if list(store.index.find("T", f"k{number}", 0, 1 << 60))
    ]
    assert found == [number for number in range(1200) if number != where]
    store.put(keyed(5000), NOW_MS)
    store.dispatch_to(store.log_end)
    caught_up(store)
    assert len(list(store.index.find("T", "k5000", 0, 1 << 60))) == 1
    store.close()


def test_a_piece_read_before_a_cut_does_not_count(tmp_path: Path) -> None:
    store_without_index(tmp_path, 20)
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=FILE_BYTES, queue_file_bytes=2000))
    assert store.index is not None
    work = IndexCatchUp(store.log, store.index)
    store.index.put(0, [], 1000)
    piece = work.next_piece(store.dispatched_offset)
    assert piece is not None
    store.truncate(0)
    assert work.take(1000, *piece())
    assert store.index.position == 0
    store.close()


def test_damage_is_passed_over_only_after_a_wider_look(tmp_path: Path) -> None:
    store_without_index(tmp_path, 20)
    store = MessageStore(tmp_path, StoreConfig(log_file_bytes=FILE_BYTES, queue_file_bytes=2000))
    assert store.index is not None
    store.dispatch_to(store.log_end)
    with (tmp_path / "commitlog" / f"{0:020d}").open("r+b") as raw:
        raw.write(b"\xff" * 8)
    work = IndexCatchUp(store.log, store.index)
    outcomes = []
    for _ in range(2):
        piece = work.next_piece(store.dispatched_offset)
        assert piece is not None
        outcomes.append(work.take(0, *piece()))
        assert (store.index.position > 0) is (len(outcomes) == 2)
    assert outcomes == [True, True]
    store.close()
