"""Invariants as data: asked in pieces they say what they say at once, and what is carried survives
being written down.
"""

import copy
from dataclasses import replace

import pytest

from events.changes import MasterElected
from lakehouse.invariants.invariants import (
    INVARIANTS,
    Watch,
    carried_from_json,
    carried_to_json,
    judge,
)
from tests.support.judged_history import (
    Voices,
    altered,
    at_change,
    decided,
    imported_history,
    sound_history,
    sound_voices,
)

SOUND = decided(sound_history().records)
BROKEN = [
    *altered(SOUND, at_change(SOUND, MasterElected, 1), MasterElected, master_epoch=1),
    *sound_voices().wrote(1, 2, 950).acknowledged(1, 1, 5000).rows,
]


def test_each_has_a_name_and_a_sentence() -> None:
    assert len({one.name for one in INVARIANTS}) == len(INVARIANTS) == 13
    assert all(one.explanation.endswith(".") for one in INVARIANTS)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_pieces_say_what_the_whole_says(size: int) -> None:
    carried, whole = judge(BROKEN)
    assert whole
    found, kept = [], b"{}"
    for start in range(0, len(BROKEN), size):
        piece, told = judge(BROKEN[start : start + size], carried_from_json(kept))
        found += told
        kept = carried_to_json(piece)
    assert (found, carried_from_json(kept)) == (whole, carried)


def test_what_an_invariant_sleeps_through_says_nothing_to_it() -> None:
    awake = tuple(replace(one, wakes=None) for one in INVARIANTS)
    histories = [decided(imported_history().records), BROKEN]
    histories += [
        altered(SOUND, i, type(c), broker_name="broker-b")
        for i, row in enumerate(SOUND)
        for c in row.outcome.changes
        if hasattr(c, "broker_name")
    ]
    for rows in histories:
        assert judge(rows)[1] == judge(rows, invariants=awake)[1]


def test_what_was_carried_in_stays_as_it_was() -> None:
    carried, _ = judge(SOUND[:9])
    before = copy.deepcopy(carried)
    judge([*SOUND[9:], *sound_voices().rows], carried)
    assert carried == before


def test_invariants_of_an_older_release_are_forgotten() -> None:
    assert carried_from_json(b'{"gone": {"x": {"y": 1}}}') == {}


def test_a_watch_tells_row_by_row() -> None:
    watch = Watch()
    assert [bool(watch.note(row)) for row in (*SOUND, *Voices().leads(3, 1).rows)] == [False] * len(
        SOUND
    ) + [True]
