"""What must hold in groups that replicate by majority (`lakehouse.invariants.of_groups`): what is
right says nothing, and each breach is told in words.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakehouse.invariants import of_groups
from lakehouse.invariants.invariants import OF_GROUPS, carried_from_json, carried_to_json, judge
from lakehouse.invariants.rows import Reported
from tests.support.majority_history import GroupHistory, breaches, events_of, killed_leader

LEADER, VOTE, CUT = (one.name for one in OF_GROUPS)


def begun() -> GroupHistory:
    past = killed_leader()
    past.at(100)
    return past


def two_are_elected(past: GroupHistory) -> str:
    past.elected("n2", 2, (), 100)
    return "term 2 has leaders n1 (by the word of n1) and n2 (by that of n2)"


def another_one_is_followed(past: GroupHistory) -> str:
    past.crosses("n0", "n2", 2, 50)
    return "term 2 has leaders n1 (by the word of n1) and n2 (by that of n0)"


def it_leads_again_after_a_start(past: GroupHistory) -> str:
    past.starts("n1")
    past.elected("n1", 2, (), 100)
    return "n1 leads term 2 in two of its starts"


def it_cuts_for_another_one(past: GroupHistory) -> str:
    past.cuts("n0", "n2", 2, (60, 58), {1: 59})
    return "term 2 has leaders n1 (by the word of n1) and n2 (by that of n0)"


def it_votes_twice(past: GroupHistory) -> str:
    past.votes("n2", "n0", 2)
    return "n2 voted for n1 and for n0 in term 2"


def it_cuts_what_it_knew_committed(past: GroupHistory) -> str:
    past.cuts("n2", "n1", 2, (45, 39), {3: 40})
    return "n2 cut its log from entry 45 to 39, and knew entries up to 41 committed"


def it_cuts_what_another_one_knew_committed(past: GroupHistory) -> str:
    past.committed["n0"] = 3, 1
    past.cuts("n0", "n1", 2, (43, 30), {1: 31})
    return (
        "n0 cut entry 31 of term 1 in term 2, and n1 knew entry 40 of that term committed in term 2"
    )


def it_cuts_the_first_entry_of_the_term(past: GroupHistory) -> str:
    past.committed["n0"] = 3, 1
    past.cuts("n0", "n2", 5, (60, 40), {2: 41})
    return (
        "n0 cut entry 41 of term 2 in term 5, and n1 knew entry 41 of that term committed in term 2"
    )


def the_commit_is_told_later(past: GroupHistory) -> str:
    past.elected("n2", 6, (), 100)
    past.cuts("n0", "n2", 6, (60, 50), {4: 51})
    past.crosses("n1", "n0", 4, 55)
    return (
        "n0 cut entry 51 of term 4 in term 6, and n1 knew entry 55 of that term committed in term 4"
    )


BROKEN: list[tuple[str, Callable[[GroupHistory], str]]] = [
    (LEADER, two_are_elected),
    (LEADER, another_one_is_followed),
    (LEADER, it_leads_again_after_a_start),
    (LEADER, it_cuts_for_another_one),
    (VOTE, it_votes_twice),
    (CUT, it_cuts_what_it_knew_committed),
    (CUT, it_cuts_what_another_one_knew_committed),
    (CUT, it_cuts_the_first_entry_of_the_term),
    (CUT, the_commit_is_told_later),
]


@pytest.mark.parametrize(("name", "breaks"), BROKEN)
def test_each_breach_is_found_and_told(name: str, breaks: Callable[[GroupHistory], str]) -> None:
    past = begun()
    before = len(past.told)
    said = breaks(past)
    found = [one for one in breaches(past.told) if one.invariant == name]
    assert [one.said for one in found] == [said]
    assert found[0].offset >= before


def a_killed_leader(past: GroupHistory) -> None: ...


def a_vote_is_told_twice(past: GroupHistory) -> None:
    past.votes("n2", "n1", 2)


def entries_that_nobody_knew_committed_are_cut(past: GroupHistory) -> None:
    """Of an old leader, at the very places where others committed their own."""
    past.cuts("n0", "n2", 5, (60, 41), {2: 42, 3: 50})


def they_are_committed_by_a_later_leader(past: GroupHistory) -> None:
    """Cut in term 4; a leader of term 6 had them still, and committed them with its own."""
    past.cuts("n0", "n2", 4, (60, 50), {3: 51})
    past.crosses("n1", "n1", 6, 60, entry_term=3)


def a_log_begins_anew(past: GroupHistory) -> None:
    past.committed["n0"] = 3, 1
    past.cuts("n0", "n1", 2, (30, 40), {1: 4}, restarted=True)


RIGHT = [
    a_killed_leader,
    a_vote_is_told_twice,
    entries_that_nobody_knew_committed_are_cut,
    they_are_committed_by_a_later_leader,
    a_log_begins_anew,
]


@pytest.mark.parametrize("goes_on", RIGHT)
def test_what_is_right_is_no_breach(goes_on: Callable[[GroupHistory], None]) -> None:
    past = begun()
    goes_on(past)
    assert breaches(past.told) == []


def test_in_pieces_and_from_json_it_is_judged_the_same() -> None:
    past = begun()
    it_cuts_what_another_one_knew_committed(past)
    two_are_elected(past)
    rows = [Reported(0, at, event) for at, event in enumerate(events_of(past.told))]
    whole = judge(rows, invariants=OF_GROUPS)
    carried, found = {}, []
    for row in rows:
        carried, more = judge([row], carried, OF_GROUPS)
        carried = carried_from_json(carried_to_json(carried))
        found += more
    assert (carried, found) == whole and len(found) == 2


def test_what_is_remembered_is_bounded() -> None:
    past = GroupHistory()
    past.starts()
    for term in range(1, of_groups.TERMS_KEPT + 50):
        past.elected("n0", term, ("n0",), 0)
        past.crosses("n0", "n0", term, term)
        past.cuts("n1", "n0", term, (term + 5, term + 1), {term: term + 2})
    rows = [Reported(0, at, event) for at, event in enumerate(events_of(past.told))]
    carried, found = judge(rows, invariants=OF_GROUPS)
    assert found == []
    (leaders,), (votes,), (committed,) = (carried[name].values() for name in (LEADER, VOTE, CUT))
    assert len(leaders.leaders) == len(votes.votes) == of_groups.TERMS_KEPT
    assert len(committed.known) <= of_groups.TERMS_KEPT
    assert len(committed.dropped) == of_groups.CUTS_KEPT
