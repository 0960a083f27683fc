"""Reading a data log: what makes an entry good, where a log ends, and why."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from brokers.majority.entry import BEGIN, EMPTY, Entry, Place, link_of, sealed
from brokers.majority.store import walk as walking
from brokers.majority.store.layout import encode_entry
from brokers.majority.store.walk import EntryWalk, entry_at
from tests.support.examples import examples
from tests.unit.brokers.majority.store.majority_samples import FILE, chain, reader


def walked(data: bytes, start: int = 0, before=BEGIN) -> tuple[EntryWalk, list[int]]:
    walk = EntryWalk(reader(data), start, len(data), FILE, before)
    return walk, [head.index for head in walk]


def with_entry(data: bytes, entry: Entry) -> bytes:
    """`entry` over what its position has."""
    encoded = encode_entry(entry)
    return data[: entry.position] + encoded + data[entry.position + len(encoded) :]


@pytest.mark.parametrize("sums", [True, False], ids=["ours", "Java's"])
@pytest.mark.parametrize("last", [0, 100, 1_024 - 48 - 8])
def test_a_log_of_several_files_is_read_to_its_end(last: int, sums: bool) -> None:
    data, entries = chain([300, 400, 500, last], sums=sums)
    walk, found = walked(data)
    assert found == [0, 1, 2, 3] and walk.reason == ""
    assert walk.last == Place(1, 3) and walk.link == link_of(entries[3])
    assert walk.end == entries[3].position + entries[3].size


@pytest.mark.parametrize("left", range(8, 60))
def test_zeros_or_filler_at_any_distance_from_the_files_end(left: int) -> None:
    data, entries = chain([FILE - 48 - left])
    walk, found = walked(data)
    assert (found, walk.reason, walk.end) == ([0], "", entries[0].size)
    data, entries = chain([FILE - 48 - left, 10])
    walk, found = walked(data)
    assert found == [0, 1] and entries[1].position == FILE


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"index": 3}, "its index is not the next one"),
        ({"index": 1}, "its index is not the next one"),
        ({"term": 0}, "its term is below"),
        ({"position": 9}, "it belongs to another position"),
        ({"magic": 2}, "its magic"),
        ({"body_crc": 5}, "its body does not fit"),
        ({"chain_crc": 5}, "it was not written behind"),
        ({"channel": 1}, "it was not written behind"),
    ],
    ids=lambda one: str(one),
)
def test_the_first_entry_that_is_not_good_ends_the_log(changed, reason: str) -> None:
    data, entries = chain([50, 60, 70])
    wrong = encode_entry(replace(entries[2], **changed))
    at = entries[2].position
    walk, found = walked(data[:at] + wrong + data[at + len(wrong) :])
    assert found == [0, 1] and walk.end == at and reason in walk.reason


def test_a_size_that_does_not_fit_its_file_ends_the_log() -> None:
    data, entries = chain([50, 60])
    at = entries[1].position
    large = bytearray(data)
    large[at + 4 : at + 8], large[at + 44 : at + 48] = (
        struct.pack(">i", 2048),
        struct.pack(">i", 2000),
    )
    walk, found = walked(bytes(large))
    assert found == [0] and "does not fit its file" in walk.reason


@pytest.mark.parametrize("filler", [b"\xff\xff\xff\xff\0\0\0\x09", b"\xff" * 8])
def test_filler_that_says_another_length_ends_the_log(filler: bytes) -> None:
    data, entries = chain([50])
    end = entries[0].size
    walk, found = walked(data[:end] + filler + data[end + 8 :])
    assert found == [0] and "filler" in walk.reason and walk.end == end


def test_old_bytes_behind_a_cut_are_no_entries_though_their_numbers_follow() -> None:
    """(6, t3)(7, t3), then 6 replaced by a leader of t2 with an entry as long."""
    data, entries = chain([20] * 8, [1] * 6 + [3, 3])
    new = sealed(link_of(entries[5]), replace(entries[6], term=2, body=b"x" * 20))
    walk, found = walked(with_entry(data, new))
    assert found[-1] == 6 and walk.last == Place(2, 6) and "written behind" in walk.reason


def test_without_checksums_only_the_numbers_tell() -> None:
    """As Java itself: what it left behind a cut comes back where the numbers happen to follow."""
    data, entries = chain([20] * 8, [1] * 6 + [3, 3], sums=False)
    _, found = walked(with_entry(data, replace(entries[6], term=2)))
    assert found[-1] == 7


def test_the_first_entry_of_a_walk_is_chained_to_what_the_caller_knows() -> None:
    data, entries = chain([20, 20, 20])
    start = entries[1].position
    assert walked(data, start, link_of(entries[0]))[1] == [1, 2]
    assert walked(data, start, None)[1] == [1, 2]
    walk, found = walked(data, start, BEGIN)
    assert found == [] and walk.last == EMPTY and "written behind" in walk.reason


@pytest.mark.parametrize("window", [48, 64, 100, 1 << 20])
def test_any_window_finds_the_same(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "WINDOW_BYTES", window)
    data, entries = chain([0, 300, 1, 500, 900, 20])
    walk, found = walked(data)
    assert found == list(range(6)) and walk.end == entries[5].position + entries[5].size


@pytest.mark.parametrize("bad_from", [0, 100, 200, 390, 700])
def test_what_can_be_read_in_front_of_unreadable_bytes_counts(bad_from: int) -> None:
    data, entries = chain([50] * 10)
    read = reader(data)

    def disk(position: int, count: int) -> bytes:
        if position <= bad_from < position + count:
            raise OSError(errno.EIO, "bad sector")
        return read(position, count)

    walk = EntryWalk(disk, 0, len(data), FILE, BEGIN)
    found = [head.index for head in walk]
    assert found == [e.index for e in entries if e.position + e.size <= bad_from]
    assert "cannot be read" in walk.reason


def test_an_error_that_is_no_damage_is_the_callers() -> None:
    def disk(position: int, count: int) -> bytes:
        raise OSError(errno.EMFILE, "descriptors")

    with pytest.raises(OSError, match="descriptors"):
        list(EntryWalk(disk, 0, FILE, FILE))


def test_one_entry_alone() -> None:
    data, entries = chain([20, 20])
    walk = entry_at(reader(data), entries[1].position, len(data), FILE)
    assert walk is not None and walk.last == Place(1, 1)
    assert entry_at(reader(data), 5, len(data), FILE) is None
    assert entry_at(reader(data), len(data), len(data), FILE) is None


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.sampled_from([0, 1, 30, 200, 900]), min_size=1, max_size=12),
    st.integers(0, 10_000),
    st.integers(1, 255),
)
def test_a_flipped_byte_ends_the_log_in_front_of_its_entry_or_harms_nothing(
    sizes: list[int], at: int, bits: int
) -> None:
    data, entries = chain(sizes)
    at %= len(data)
    broken = bytearray(data)
    broken[at] ^= bits
    _, found = walked(bytes(broken))
    hit = [e.index for e in entries if e.position <= at < e.position + e.size]
    used = max(e.position + e.size for e in entries)
    assert found == list(range(len(found)))
    if hit:
        assert found == list(range(hit[0]))
    else:
        assert len(found) <= len(entries) and (at < used or found == [e.index for e in entries])


@settings(max_examples=examples(150), deadline=None)
@given(st.binary(max_size=3 * FILE), st.integers(0, FILE))
def test_any_bytes_are_walked(data: bytes, start: int) -> None:
    walk, found = walked(data + bytes(-len(data) % FILE), start, None)
    assert start <= walk.end <= max(start, 3 * FILE)
    assert len(found) <= len(data) // 48 + 1
