"""The invariants in their own pass say what they say row by row, however history is cut up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from events.changes import MasterElected
from events.commands import ClaimLeadership
from events.outcomes import Outcome
from lakehouse.invariants.invariants import OF_DECISIONS, Watch, carried_to_json
from lakehouse.invariants.rows import Decided
from lakehouse.proof import kept_state
from lakehouse.proof.own_pass import Gathered, Pass, can_begin, judged
from lakehouse.proof.refold import RangeFolded, RangeTold
from processors.fold.folder import Applied, Folder
from tests.support.control_history import seen, with_master

WATCHED = {one.name for one in OF_DECISIONS}


def applied() -> list[Applied]:
    past = with_master(1, 2, 3)
    past.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    past.claim(past.folder.state.term)
    past.append(b"garbage")
    for _ in range(3):
        past.alter((1, 2, 3), seen(1), seen(2), seen(3), set_epoch=0)
    folder = Folder()
    return [folder.apply(offset, value) for offset, value in enumerate(past.records)]


def forged(at: int, **fields: object) -> list[Applied]:
    found = applied()
    found[at] = replace(found[at], outcome=replace(found[at].outcome, **fields))
    return found


def other_epoch(outcome: Outcome) -> Outcome:
    changes = tuple(
        replace(one, master_epoch=1, sync_state_set=(3,)) if isinstance(one, MasterElected) else one
        for one in outcome.changes
    )
    return replace(outcome, changes=changes)


def of_a_later_term(one: Applied) -> Applied:
    assert one.record is not None
    envelope = replace(one.record.envelope, term=one.record.envelope.term + 7)
    return replace(one, record=replace(one.record, envelope=envelope))


def broken() -> dict[str, list[Applied]]:
    rows = applied()
    elections = [n for n, one in enumerate(rows) if "MasterElected" in str(one.outcome.changes)]
    claims = [n for n, one in enumerate(rows) if isinstance(one.record, ClaimLeadership)]
    last = elections[-1]
    return {
        "nothing": rows,
        "an epoch again": [
            replace(one, outcome=other_epoch(one.outcome)) if n == last else one
            for n, one in enumerate(rows)
        ],
        "another term": [of_a_later_term(one) if n == last else one for n, one in enumerate(rows)],
        "a claim won twice": [*rows[: claims[-1] + 1], rows[claims[-1]], *rows[claims[-1] + 1 :]],
        "garbage decided": [
            replace(one, outcome=replace(one.outcome, accepted=True)) if one.record is None else one
            for one in rows
        ],
    }


def row_by_row(rows: list[Applied]) -> tuple[list[tuple[int, str]], bytes]:
    watch = Watch(OF_DECISIONS)
    found = [
        (one.offset, ": ".join(filter(None, (told.broker_name, told.said))))
        for one in rows
        for told in watch.note(Decided(one.offset, one.record, one.outcome))
    ]
    return found, carried_to_json(watch.carried)


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("what", broken())
def test_the_same_is_found_and_known_as_row_by_row(what: str, size: int) -> None:
    rows, way = broken()[what], Pass()
    found = []
    for first in range(0, len(rows), size):
        gathered = Gathered()
        for one in rows[first : first + size]:
            gathered.note(one)
        found += way.judge(gathered.packed())
    assert (found, way.carried) == row_by_row(rows)
    assert bool(found) == (what != "nothing")


def ranges(rows: list[Applied], size: int) -> dict[int, RangeFolded]:
    found = {}
    for first in range(0, len(rows), size):
        gathered = Gathered()
        part = rows[first : first + size]
        for one in part:
            gathered.note(one)
        last = part[-1].offset
        told = RangeTold(first, last, f"s{first}", f"s{first + size}", proven=last)
        found[first // size] = RangeFolded(told, b"snapshot", gathered.packed())
    return found


def test_a_range_goes_on_from_the_one_before_it_or_from_what_was_kept() -> None:
    rows = broken()["an epoch again"]
    whole = ranges(rows, 4)
    told, states = judged(whole, {})
    bad = {r for r, one in told.items() if one.problems}
    assert bad and bad.isdisjoint(states) and set(states) | bad == set(whole)
    later = {r: one for r, one in whole.items() if r >= min(bad)}
    again, kept = judged(later, {min(bad): states[min(bad) - 1]})
    assert again == {r: one for r, one in told.items() if r in again}
    assert kept == {r: one for r, one in states.items() if r in again}


def test_nothing_is_kept_of_a_range_of_which_nobody_knows_what_came_before() -> None:
    whole = ranges(applied(), 4)
    del whole[1]
    left = kept_state.packed(b"snapshot", b"")
    told, states = judged(whole, {2: left})
    assert set(states) == {0} and set(told) == set(whole)
    assert not can_begin(left) and not can_begin(b"x")
    assert can_begin(kept_state.packed(b"snapshot", b"{}"))


def test_behind_a_range_that_is_not_whole_it_goes_on_from_what_was_kept() -> None:
    whole = ranges(applied(), 4)
    _, states = judged(whole, {})
    whole[1].told.after = ""
    _, kept = judged(whole, {2: states[1]})
    assert set(kept) == set(states) - {1}
    assert set(judged(whole, {})[1]) == {0}
