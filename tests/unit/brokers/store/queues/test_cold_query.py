"""What is in memory is answered at once, the rest beside."""

import errno
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from brokers.store.log.properties import property_value
from brokers.store.log.records import decode_messages
from brokers.store.queues import cold_query
from brokers.store.queues.cold_query import ColdRead
from brokers.store.queues.query import GetResult, GetStatus
from brokers.store.store import MessageStore
from tests.unit.brokers.store.log.test_patch import flip
from tests.unit.brokers.store.log_samples import NOW_MS, message, small_store

COUNT = 100


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MessageStore:
    monkeypatch.setattr(cold_query, "HOT_BYTES", 1000)
    store = small_store(tmp_path)
    for number in range(COUNT):
        store.put(message(body=b"%d" % number), NOW_MS)
    store.dispatch_to(store.log_end)
    return store


def on_disk(monkeypatch: pytest.MonkeyPatch, error: OSError | None = None) -> None:
    def refuse(*_: object) -> int:
        raise error or BlockingIOError(errno.EAGAIN, "not in memory")

    monkeypatch.setattr(os, "preadv", refuse)


def numbers(result: GetResult | ColdRead) -> list[int]:
    assert isinstance(result, GetResult)
    return [int(read.fields.body) for read in decode_messages(result.body)]


def test_the_end_of_the_log_never_waits(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk(monkeypatch)
    assert numbers(store.query_or_cold("T", 0, COUNT - 3, 32)) == [97, 98, 99]


def test_what_is_in_memory_is_answered_as_ever(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "preadv", lambda fd, parts, at, flags: _filled(fd, parts[0], at))
    for offset in (0, 35, 44, COUNT):
        assert store.query_or_cold("T", 0, offset, 32) == store.query("T", 0, offset, 32)


def _filled(fd: int, data: bytearray, at: int) -> int:
    data[:] = os.pread(fd, len(data), at)
    return len(data)


@pytest.mark.parametrize("error", [None, OSError(errno.EOPNOTSUPP, "not offered")])
def test_what_is_on_disk_is_read_beside_and_gives_the_same(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch, error: OSError | None
) -> None:
    on_disk(monkeypatch, error)
    for offset in (0, 35, 44):
        cold = store.query_or_cold("T", 0, offset, 32)
        assert isinstance(cold, ColdRead)
        assert cold.answer(cold.fetch()) == store.query("T", 0, offset, 32)
        assert not cold._fds


def test_bytes_of_which_only_some_are_in_memory_are_read_beside(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "preadv", lambda fd, parts, at, flags: len(parts[0]) - 1)
    cold = store.query_or_cold("T", 0, 0, 32)
    assert isinstance(cold, ColdRead)
    cold.close()
    assert not cold._fds


def test_damage_is_found_beside_too(
    store: MessageStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk(monkeypatch)
    flip(tmp_path, 88)
    cold = store.query_or_cold("T", 0, 0, 32)
    assert isinstance(cold, ColdRead)
    result = cold.answer(cold.fetch())
    assert result.status is GetStatus.RECORD_REFUSED and result.refused is not None


def test_a_disk_that_refuses_is_not_taken_for_one_that_is_slow(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk(monkeypatch, OSError(errno.EIO, "broken"))
    result = store.query_or_cold("T", 0, 0, 32)
    assert (
        isinstance(result, GetResult)
        and result.refused is not None
        and "broken" in result.refused.reason
    )


def test_a_log_cut_meanwhile_has_no_damage(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk(monkeypatch)
    cold = store.query_or_cold("T", 0, 0, 32)
    assert isinstance(cold, ColdRead)
    store.truncate(0)
    result = cold.answer(cold.fetch())
    assert result.refused is None and result.status in (
        GetStatus.MESSAGE_WAS_REMOVING,
        GetStatus.FOUND,
    )


class Even:
    """Wants messages whose number is even."""

    cost = 1

    def matches(self, properties: bytes) -> bool:
        return int(property_value(properties, b"N") or b"1") % 2 == 0


def test_what_is_wanted_is_chosen_beside_too(
    store: MessageStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(COUNT):
        store.put(replace(message(queue_id=1), properties=b"N\x01%d\x02" % number), NOW_MS)
    store.dispatch_to(store.log_end)
    expected = store.query("T", 1, 1, 32, wants=Even())
    assert [one.queue_offset for one in decode_messages(expected.body)] == [2, 4, 6, 8]
    on_disk(monkeypatch)
    cold = store.query_or_cold("T", 1, 1, 32, wants=Even())
    assert isinstance(cold, ColdRead)
    assert cold.answer(cold.fetch()) == expected
