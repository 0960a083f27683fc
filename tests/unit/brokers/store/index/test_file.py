"""The index file: layout, chains, an end without warning, a disk that refuses."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.store.index.file import ENTRY_BYTES, HEADER_BYTES, SLOT_BYTES, Header, IndexFile
from brokers.store.index.keys import keys_of_records
from brokers.store.log.scan import LogWalk
from tests.support.examples import examples
from tests.unit.brokers.store.log_samples import GOLDEN

SLOTS, ENTRIES = 2500, 100


def opened(path: Path, *, sound: bool = True, slots: int = SLOTS) -> IndexFile:
    file = IndexFile(path, slots, ENTRIES)
    file.load_slots(sound=sound)
    return file


def found(file: IndexFile, key_hash: int, begin_ms: int = 0, end_ms: int = 1 << 60) -> list[int]:
    chain = file.chain(key_hash)
    try:
        return [offset for offset in chain.walk(key_hash, begin_ms, end_ms) if offset is not None]
    finally:
        os.close(chain.fd)


def test_a_real_log_gives_the_header_and_entries_of_the_real_index(tmp_path: Path) -> None:
    log = (GOLDEN / "commitlog_first_8k").read_bytes()
    records = list(
        LogWalk(lambda at, count: log[at : at + count], 0, 7302, 1 << 24, check_body=True)
    )
    file = IndexFile(tmp_path / "index", 20_000, 80_000)
    file.load_slots(sound=True)
    file.append(keys_of_records(records))
    file.flush()
    written = (tmp_path / "index").read_bytes()
    assert len(written) == HEADER_BYTES + 20_000 * SLOT_BYTES + 80_000 * ENTRY_BYTES
    recorded = (GOLDEN / "index_header_and_first_entries").read_bytes()
    entries_at = HEADER_BYTES + 20_000 * SLOT_BYTES
    assert written[:HEADER_BYTES] + written[entries_at : entries_at + 2000] == recorded
    again = IndexFile(tmp_path / "index", 20_000, 80_000)
    assert again.header == Header(1795226933999, 1795227099182, 0, 7042, 42, 49)


def test_entries_of_one_slot_are_found_newest_first_also_after_reopening(tmp_path: Path) -> None:
    file = opened(tmp_path / "f")
    file.append([(7, 100, 10_000), (7 + SLOTS, 200, 20_000), (7, 300, 30_000)])
    assert found(file, 7) == [300, 100]
    assert found(file, 7 + SLOTS) == [200]
    assert found(file, 8) == []
    assert file.header.used_slots == 1
    file.flush()
    file.close()
    assert found(IndexFile(tmp_path / "f", SLOTS, ENTRIES), 7) == [300, 100]


@pytest.mark.parametrize(
    ("begin", "end", "offsets"),
    [(0, 9_000, []), (10_500, 25_000, [200, 100]), (22_000, 40_000, [300])],
)
def test_times_choose_with_a_second_of_tolerance(
    tmp_path: Path, begin: int, end: int, offsets: list[int]
) -> None:
    file = opened(tmp_path / "f")
    file.append([(7, 100, 10_000), (7, 200, 20_999), (7, 300, 30_000)])
    assert found(file, 7, begin, end) == offsets


def test_a_file_has_room_for_one_less_than_its_entries(tmp_path: Path) -> None:
    file = opened(tmp_path / "f")
    assert file.room == ENTRIES - 1
    file.append([(1, at, 1) for at in range(ENTRIES - 1)])
    assert file.room == 0
    assert len(found(file, 1)) == ENTRIES - 1


Key = tuple[int, int, int]


def _keys(count: int) -> st.SearchStrategy[list[Key]]:
    return st.lists(
        st.tuples(st.integers(0, 3 * SLOTS), st.integers(0, 1 << 40), st.integers(1, 10**6)),
        min_size=1,
        max_size=count,
    )


@given(_keys(40), _keys(40), st.integers(0, 1 << 20))
@settings(max_examples=examples(60), deadline=None)
def test_after_a_kill_exactly_what_the_header_counts_is_there(
    tmp_path_factory, first, second, seed
) -> None:
    path = tmp_path_factory.mktemp("index") / "f"
    file = opened(path)
    file.append(first)
    file.flush()
    header = path.read_bytes()[:HEADER_BYTES]
    file.append(second)
    file.flush()
    file.close()
    with path.open("r+b") as raw:  # slots are newer than the header
        raw.write(header)
    again = opened(path, sound=False)
    assert again.header.next_entry == len(first) + 1
    for key_hash in {key for key, _, _ in first + second}:
        assert found(again, key_hash) == [at for key, at, _ in reversed(first) if key == key_hash]
    again.append(second)
    for key_hash in {key for key, _, _ in first + second}:
        assert found(again, key_hash) == [
            at for key, at, _ in reversed(first + second) if key == key_hash
        ]
    again.close()


def test_what_the_disk_refuses_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = opened(tmp_path / "f")
    file.append([(7, 100, 1), (8, 150, 1)])
    real: Callable[[int, bytes, int], int] = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: len(data) - 1)
    with pytest.raises(OSError, match="short"):
        file.append([(7, 200, 2), (7, 300, 2), (9, 400, 2)])
    with pytest.raises(OSError, match="short"):
        file.flush()
    monkeypatch.setattr(os, "pwrite", real)
    assert (found(file, 7), found(file, 9), file.header.next_entry) == ([100], [], 3)
    file.append([(7, 500, 3)])
    file.flush()
    file.close()
    assert found(IndexFile(tmp_path / "f", SLOTS, ENTRIES), 7) == [500, 100]
    assert found(IndexFile(tmp_path / "f", SLOTS, ENTRIES), 8) == [150]


def test_files_of_another_shape_are_refused(tmp_path: Path) -> None:
    opened(tmp_path / "f").close()
    with pytest.raises(ValueError, match="bytes instead of"):
        IndexFile(tmp_path / "f", SLOTS + 1, ENTRIES)
    with (tmp_path / "f").open("r+b") as raw:
        raw.seek(36)
        raw.write(b"\x7f\xff\xff\xff")
    with pytest.raises(ValueError, match="counts"):
        IndexFile(tmp_path / "f", SLOTS, ENTRIES)


def test_a_complete_file_answers_without_its_slots_in_memory(tmp_path: Path) -> None:
    file = opened(tmp_path / "f")
    file.append([(7, 100, 1)])
    file.flush()
    assert file.takes_more
    file.unload_slots()
    assert not file.takes_more
    assert found(file, 7) == [100]


def test_a_shorter_end_is_kept(tmp_path: Path) -> None:
    file = opened(tmp_path / "f")
    file.append([(7, 100, 1), (7, 300, 1)])
    file.end_before(200)
    file.flush()
    file.close()
    assert IndexFile(tmp_path / "f", SLOTS, ENTRIES).header.end_offset == 200
