"""Putting back the bytes of a damaged message."""

import os
from pathlib import Path

import pytest

from brokers.store.log.integrity import Place
from brokers.store.log.patch import patch, patch_blank
from brokers.store.log.records import encode_blank
from tests.unit.brokers.store.log_samples import NOW_MS, bodies, message, sized, small_store


def flip(root: Path, offset: int) -> None:
    with (root / "commitlog" / f"{0:020d}").open("r+b") as log:
        log.seek(offset)
        byte = log.read(1)[0]
        log.seek(offset)
        log.write(bytes((byte ^ 1,)))


def test_sound_bytes_go_to_their_place_and_nowhere_else(tmp_path: Path) -> None:
    store = small_store(tmp_path)
    for number in range(3):
        store.put(message(body=b"%d" % number), NOW_MS)
    store.dispatch_to(store.log_end)
    size = store.log_end // 3
    good, place = store.read_log(size, size), Place(size, size)
    flip(tmp_path, size + 88)
    damaged = store.read_log(size, size)
    assert patch(store.log, place, damaged, store.log_end) is None
    assert patch(store.log, place, good[:-1], store.log_end) is None
    assert patch(store.log, Place(size, size, b"U", 0, 1), good, store.log_end) is None
    assert patch(store.log, place, good, 2 * size - 1) is None, "not confirmed"
    assert patch(store.log, Place(10**6, size), good, 1 << 40) is None
    assert store.read_log(size, size) == damaged
    sync = patch(store.log, place, good, store.log_end)
    assert sync is not None
    sync()
    assert bodies(store) == [b"0", b"1", b"2"]


def test_a_disk_that_refuses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = small_store(tmp_path)
    store.put(message(), NOW_MS)
    good = store.read_log(0, store.log_end)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: 1)
    with pytest.raises(OSError, match="in part"):
        patch(store.log, Place(0, len(good)), good, store.log_end)


@pytest.mark.parametrize(("last", "told"), [(4096 - 60, b""), (3000, encode_blank(1096))])
def test_a_blank_record_is_put_back_where_it_can_be_nothing_else(
    tmp_path: Path, last: int, told: bytes
) -> None:
    store = small_store(tmp_path)
    for size in (last, 2000):
        store.put(sized(size), NOW_MS)
    end = store.log_end
    sound = store.read_log(last, 8)
    flip(tmp_path, last + 5)
    assert patch_blank(store.log, last, 4095, told) is None, "not confirmed"
    assert patch_blank(store.log, last, end, encode_blank(7)) is None, (
        "another replica has something else there"
    )
    assert last > 3000 or patch_blank(store.log, last, end) is None, (
        "a message could have been there"
    )
    sync = patch_blank(store.log, last, end, told)
    assert sync is not None and store.read_log(last, 8) == sound
    sync()
