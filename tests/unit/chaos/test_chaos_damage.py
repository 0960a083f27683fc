"""Damage hits what it says and nothing else; the product's own store is what it is tried on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from brokers.store.log.records import MessageFields, host_bytes
from brokers.store.store import MessageStore, StoreConfig
from tests.chaos import damage

FILE_BYTES = 1 << 16
COUNT = 300
HOST = host_bytes("127.0.0.1", 1)


def message(number: int) -> MessageFields:
    return MessageFields(
        "T", number % 2, b"%08d" % number * 100, b"KEYS\x01%d\x02" % number, 1_000, HOST, HOST
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = MessageStore(tmp_path, StoreConfig(FILE_BYTES, 20 * 1000))
    for number in range(COUNT):
        store.put(message(number), now_ms=1_000 + number)
    store.dispatch_to(store.log_end)
    store.close()
    return tmp_path


def bits_apart(one: bytes, other: bytes) -> int:
    return sum((a ^ b).bit_count() for a, b in zip(one, other, strict=True))


def log_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in damage.log_files(folder))


def test_messages_are_found_over_all_files(folder: Path) -> None:
    found = list(damage.messages(folder))
    assert len(found) == COUNT and len({one.path for one in found}) > 3
    assert [damage.stored_ms(found[at]) for at in (0, -1)] == [1_000, 1_000 + COUNT - 1]
    store = MessageStore(folder, StoreConfig(FILE_BYTES, 20 * 1000))
    assert damage.log_end(folder) == store.log_end
    store.close()


@pytest.mark.parametrize("kind", ["torn", "zeros", "garbage"])
def test_only_the_end_of_the_log_is_hit(folder: Path, kind: str) -> None:
    before = log_bytes(folder)
    last = damage.last_message(folder)
    spoil = {
        "torn": lambda: damage.tear_last(folder),
        "zeros": lambda: damage.zero_last(folder, 3),
        "garbage": lambda: damage.garbage_behind(folder, random.Random(1)),
    }
    at = spoil[kind]()
    after = log_bytes(folder)
    assert after[:at] == before[:at] and after != before
    assert (
        at
        == {
            "torn": last.offset,
            "zeros": last.offset - 2 * last.size,
            "garbage": last.offset + last.size,
        }[kind]
    )


def test_bits_are_flipped_in_bodies_below_an_offset_and_the_spared_are_left(folder: Path) -> None:
    before, spared = log_bytes(folder), [one.offset for one in damage.messages(folder)][:50]
    below = spared[-1] * 2
    hit = damage.flip_bodies(folder, below, 20, random.Random(1), spared)
    after = log_bytes(folder)
    assert bits_apart(before, after) == 20 and not set(hit) & set(spared) and max(hit) < below
    assert len(list(damage.messages(folder))) == COUNT


def test_entries_and_small_files_are_hit_where_they_hold_anything(folder: Path) -> None:
    files = {path: path.read_bytes() for path in damage.queue_files(folder, "T")}
    assert len(files) == 2
    damage.flip_entries(folder, "T", 9, random.Random(1))
    assert sum(bits_apart(data, path.read_bytes()) for path, data in files.items()) in (9, 7, 5)
    path = folder / "checkpoint"
    used, data = damage.used_part(path), path.read_bytes()
    damage.flip_used(path, 1, random.Random(1))
    assert bits_apart(data, path.read_bytes()) == 1 and damage.used_part(path) <= used


def test_nothing_is_left_of_an_emptied_folder(folder: Path) -> None:
    damage.empty(folder)
    assert folder.is_dir() and not any(folder.iterdir())
