"""One entry of a queue."""

import pytest

from brokers.log.queue_entries import DAMAGED_RUN_MAX, ENTRY, ENTRY_BYTES, FILLER, Entry, first_kept, is_deleted, is_kept, pack_entry


def test_an_entry_is_what_the_reference_says() -> None:
    assert pack_entry(6002, 220, 2598919).hex() == "0000000000001772" "000000dc" "000000000027a807"
    assert ENTRY.size == ENTRY_BYTES == len(FILLER)
    assert FILLER.hex() == "0000000000000000" "7fffffff" "0000000000000000"


def test_a_message_is_kept_from_the_start_of_the_log_on_and_filler_never() -> None:
    assert is_kept(Entry(100, 10, 0), 100) and not is_kept(Entry(99, 10, 0), 100)
    assert not is_kept(Entry(*ENTRY.unpack(FILLER)), 0)


def test_only_an_entry_says_that_its_message_is_gone() -> None:
    assert is_deleted(Entry(99, 10, 0), 100) and not is_deleted(Entry(100, 10, 0), 100)
    for nothing in (Entry(0, 0, 0), Entry(-1, 10, 0), Entry(-1, -1, -1), Entry(*ENTRY.unpack(FILLER))):
        assert not is_deleted(nothing, 100)


@pytest.mark.parametrize("damage", [pack_entry(0, 0, 0), pack_entry(-1, -1, -1), pack_entry(0, 100, 0), pack_entry(10**15, 100, 0)])
@pytest.mark.parametrize("run", [1, 3, DAMAGED_RUN_MAX])
def test_damaged_entries_hide_none_of_those_in_front_of_them(damage: bytes, run: int) -> None:
    wrong = Entry(*ENTRY.unpack(damage))
    for at in range(200):
        entries = [Entry(100 * slot, 100, 0) for slot in range(200)]
        entries[at : at + run] = [wrong] * len(entries[at : at + run])
        found = first_kept(lambda slot, count: entries[slot : slot + count], 0, 200, 5_000)
        kept = [slot for slot, entry in enumerate(entries) if entry.physical_offset >= 5_000 and entry != wrong]
        assert found <= kept[0]
        assert found == kept[0] or found in range(at, at + run + 1)  # a wrong one may count as kept, and is refused when read


def test_without_damage_it_is_the_border() -> None:
    entries = [Entry(100 * slot, 100, 0) for slot in range(50)]
    read = lambda slot, count: entries[slot : slot + count]  # noqa: E731
    for log_min, slot in ((0, 0), (1, 1), (2_500, 25), (4_900, 49), (4_901, 50)):
        assert first_kept(read, 0, 50, log_min) == slot
