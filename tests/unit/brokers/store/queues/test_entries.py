"""One entry of a queue."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.store.queues.entries import (
    DAMAGED_RUN_MAX,
    ENTRY,
    ENTRY_BYTES,
    FILLER,
    NOWHERE,
    PAGE_ENTRIES,
    Entry,
    first_cut,
    first_kept,
    is_deleted,
    is_kept,
    pack_entry,
    reaches,
    unknown_behind,
)


def test_an_entry_is_what_the_reference_says() -> None:
    assert pack_entry(6002, 220, 2598919).hex() == "0000000000001772000000dc000000000027a807"
    assert ENTRY.size == ENTRY_BYTES == len(FILLER)
    assert FILLER.hex() == "00000000000000007fffffff0000000000000000"


def test_a_message_is_kept_from_the_start_of_the_log_on_and_filler_never() -> None:
    assert is_kept(Entry(100, 10, 0), 100) and not is_kept(Entry(99, 10, 0), 100)
    assert not is_kept(Entry(*ENTRY.unpack(FILLER)), 0)


def test_only_an_entry_says_that_its_message_is_gone() -> None:
    assert is_deleted(Entry(99, 10, 0), 100) and not is_deleted(Entry(100, 10, 0), 100)
    for nothing in (
        Entry(0, 0, 0),
        Entry(-1, 10, 0),
        Entry(-1, -1, -1),
        Entry(*ENTRY.unpack(FILLER)),
    ):
        assert not is_deleted(nothing, 100)


@pytest.mark.parametrize(
    "damage",
    [
        pack_entry(0, 0, 0),
        pack_entry(-1, -1, -1),
        pack_entry(0, 100, 0),
        pack_entry(10**15, 100, 0),
    ],
)
@pytest.mark.parametrize("run", [1, 3, DAMAGED_RUN_MAX])
def test_damaged_entries_hide_none_of_those_in_front_of_them(damage: bytes, run: int) -> None:
    wrong = Entry(*ENTRY.unpack(damage))
    for at in range(200):
        entries = [Entry(100 * slot, 100, 0) for slot in range(200)]
        entries[at : at + run] = [wrong] * len(entries[at : at + run])
        found = first_kept(lambda slot, count: entries[slot : slot + count], 0, 200, 5_000)
        kept = [
            slot
            for slot, entry in enumerate(entries)
            if entry.physical_offset >= 5_000 and entry != wrong
        ]
        assert found <= kept[0]
        # a wrong one may count as kept, and is refused when read
        assert found == kept[0] or found in range(at, at + run + 1)


def test_without_damage_it_is_the_border() -> None:
    entries = [Entry(100 * slot, 100, 0) for slot in range(50)]
    read = lambda slot, count: entries[slot : slot + count]
    for log_min, slot in ((0, 0), (1, 1), (2_500, 25), (4_900, 49), (4_901, 50)):
        assert first_kept(read, 0, 50, log_min) == slot


FILE_ENTRIES = 64
wrong = st.builds(
    Entry,
    st.integers(-(2**40), 2**40) | st.sampled_from([0, -1, 2**62]),
    st.integers(-5, 300),
    st.just(0),
)


def read_in_files(entries: list[Entry]) -> object:
    """A read ends with its file."""
    return lambda slot, count: entries[
        slot : min(slot + count, slot - slot % FILE_ENTRIES + FILE_ENTRIES)
    ]


@given(
    number=st.integers(0, 500),
    cut=st.integers(0, 500),
    gap=st.integers(0, 2),
    damage=st.lists(
        st.tuples(st.integers(0, 499), st.lists(wrong, min_size=1, max_size=PAGE_ENTRIES - 5)),
        max_size=1,
    ),
    singly=st.lists(st.tuples(st.integers(0, 499), wrong), max_size=4),
)
def test_a_cut_takes_all_that_has_to_go_and_nothing_else_whatever_is_damaged(
    number: int,
    cut: int,
    gap: int,
    damage: list[tuple[int, list[Entry]]],
    singly: list[tuple[int, Entry]],
) -> None:
    sound = [Entry(1000 + 100 * slot, 100, 0) for slot in range(number)]
    entries = list(sound)
    for at, others in [*damage, *((at, [other]) for at, other in singly)]:
        for slot, other in enumerate(others[: max(number - at, 0)], at):
            entries[slot] = other
    leads = lambda slot: entries[slot] == sound[slot] and slot < cut
    found = first_cut(read_in_files(entries), 0, number, 1000 + 100 * cut - gap, leads)  # type: ignore[arg-type]
    sound_at = [slot for slot in range(number) if entries[slot] == sound[slot]]
    assert not any(found <= slot < cut for slot in sound_at), "taken though its message stays"
    assert not any(cut <= slot < found for slot in sound_at), "left though its message goes"


def test_a_cut_in_front_of_messages_that_are_deleted_follows_the_entries() -> None:
    entries = [Entry(100 * slot, 100, 0) for slot in range(50)]
    read = read_in_files(entries)
    assert first_cut(read, 10, 50, 3_000, lambda slot: False) == 30  # type: ignore[arg-type]
    assert first_cut(read, 10, 50, 500, lambda slot: False) == 10  # type: ignore[arg-type]


def test_what_reaches_beyond_an_offset() -> None:
    filler = Entry(*ENTRY.unpack(FILLER))
    assert reaches([Entry(100, 10, 0), Entry(200, 10, 0), Entry(5, 10, 0)], 200)
    assert (
        not reaches([Entry(100, 10, 0), Entry(-1, 10, 0)], 101)
        and not reaches([filler], 0)
        and not reaches([], 0)
    )


def test_what_lies_between_two_rows_of_filler_is_kept() -> None:
    """Filler in front of a queue's begin, and a gap that was found to be nobody's: what lies
    between is not passed over.
    """
    filler, rows = (
        Entry(*ENTRY.unpack(FILLER)),
        [Entry(10_000 + 100 * slot, 100, 0) for slot in range(25)],
    )
    rows[:10], rows[16:21] = [filler] * 10, [filler] * 5
    assert first_kept(lambda slot, count: rows[slot : slot + count], 0, 25, 5_000) == 10


def test_a_first_entry_of_zeros_is_asked_for_and_not_passed_over() -> None:
    rows = [Entry(100 * slot, 100, 0) for slot in range(50)]
    rows[20] = Entry(0, 0, 0)
    assert first_kept(lambda slot, count: rows[slot : slot + count], 0, 50, 2_000) == 20


@pytest.mark.parametrize(
    ("damaged", "unknown"),
    [
        ({}, 0),
        ({30: NOWHERE}, 1),
        ({30: 0, 31: NOWHERE}, 2),
        ({49: 0}, 0),
        (dict.fromkeys(range(30, 50), 0), 0),
        ({30: 3_050}, 0),
    ],
)
def test_entries_where_a_cut_ends_a_queue_may_be_damaged_ones_of_what_stays(
    damaged: dict[int, int], unknown: int
) -> None:
    entries = [Entry(damaged.get(slot, 100 * slot), 100, 0) for slot in range(50)]
    assert unknown_behind(read_in_files(entries), 30, 50, 3_000) == unknown  # type: ignore[arg-type]


@pytest.mark.parametrize("rows", ["zf", "fz", "zzff", "fzfzz", "z" * 20 + "f" * 20 + "z"])
def test_no_mixture_of_filler_and_zeros_hides_a_message_in_front_of_it(rows: str) -> None:
    """Of a gap's filler a loss of power left some."""
    said = {"z": Entry(0, 0, 0), "f": Entry(*ENTRY.unpack(FILLER))}
    entries = [
        Entry(100, 50, 0),
        Entry(5_000, 50, 0),
        *(said[one] for one in rows for _ in range(3)),
        Entry(5_050, 50, 0),
    ]
    assert first_kept(lambda slot, count: entries[slot : slot + count], 0, len(entries), 5_000) == 1


@pytest.mark.parametrize(("damaged", "end"), [([], 30), ([29], 30), ([27, 28, 29], 30), ([30], 30)])
def test_a_cut_leaves_the_slots_of_damaged_messages_in_front_of_it(
    damaged: list[int], end: int
) -> None:
    """Whatever their messages are: a slot that was given stays taken."""
    entries = [Entry(100 * slot, 100, 0) for slot in range(50)]
    leads = lambda slot: slot not in damaged and slot < 30
    assert first_cut(read_in_files(entries), 0, 50, 3_000, leads) == end  # type: ignore[arg-type]
