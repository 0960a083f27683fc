"""A group's own history, told by the product's members, folded and judged by the lake's own code:
what happened stands in it, and a rule that is broken is found in it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from brokers.majority.entry import Place
from brokers.majority.wire.codes import PushType
from lakehouse.answers.majority.terms import term_models, term_text
from lakehouse.gold.majority_terms import changes_of_leader, term_rows_of_groups
from tests.simulation.majority.group import Group, Shape
from tests.simulation.majority.replica import Replica
from tests.simulation.majority.sim_log import SimulatedTerms
from tests.simulation.world import World
from tests.support.landed_log import BEGAN_MS
from tests.support.majority_history import GROUP, Told, breaches, events_of, rows_of_events
from tests.support.majority_member import OneMember, entry

APPEND = PushType.APPEND
LIMIT_MS = 60_000


def wait(group: Group, done: Callable[[], bool]) -> None:
    """Time passes until it is so."""
    world = group.world
    while not done():
        assert world.now_ms < LIMIT_MS, "it never came to it"
        world.step()


def leader_of(group: Group) -> Replica:
    wait(group, lambda: bool(group.leaders()))
    return group.leaders()[0]


def test_a_killed_leader_and_its_successor_stand_in_the_history() -> None:
    group = Group(World(7), Shape(readers=0))
    group.start()
    old = leader_of(group)
    old_term = old.core.standing.term if old.core is not None else 0
    killed_ms = group.world.now_ms
    old.stop(power=False)
    new = leader_of(group)
    ready_ms = group.world.now_ms
    old.start()
    group.settled = True
    wait(group, lambda: group.promises.whole() is None)
    rows = term_rows_of_groups(rows_of_events(events_of(group.told, GROUP, BEGAN_MS)))
    (change,) = changes_of_leader(rows)
    assert (change["old_leader"], change["new_leader"]) == (old.name, new.name)
    assert change["old_term"] == old_term < change["new_term"]
    assert change["unled_ms"] >= ready_ms - killed_ms, "it was heard last before it was killed"
    texts = [term_text(GROUP, one) for one in term_models(rows)]
    told = next(text for text in texts if f"{new.name} leads term {change['new_term']}" in text)
    assert f"{old.name} leads no more" in told and f"{new.name} takes appends" in told
    assert breaches(group.told) == []


# -- what is broken is found in what members tell --------------------------------------------------


def told_of(*members: OneMember) -> list[Told]:
    return [
        Told(one.config.self_id, 1, 0, fact.kind, fact.fields)
        for one in members
        for fact in one.facts
    ]


def a_vote_is_given_twice(patch: pytest.MonkeyPatch) -> list[Told]:
    patch.setattr("brokers.majority.quorum.votes._spent", lambda voter, candidate, term: None)
    patch.setattr(SimulatedTerms, "save", lambda terms, state: setattr(terms, "state", state))
    member = OneMember()
    member.vote("m1", 3, Place(2, 5))
    member.vote("m2", 3, Place(2, 5))
    return told_of(member)


def a_term_is_led_by_two(patch: pytest.MonkeyPatch) -> list[Told]:
    """As where a member votes for both."""
    one, other = OneMember(), OneMember(self_id="m1")
    one.lead()
    other.lead()
    assert one.core.standing.term == other.core.standing.term
    return told_of(one, other)


def a_leader_lacks_what_was_committed(patch: pytest.MonkeyPatch) -> list[Told]:
    """m0 knows entries of term 5 committed; m2 cuts the same ones for a leader of term 6."""
    knows, cuts = OneMember(term=5), OneMember(term=5, self_id="m2")
    entries = [entry(0, 5), entry(1, 5)]
    for member in (knows, cuts):
        member.push(APPEND, *entries)
        member.facts.clear()
    knows.push(APPEND, *entries, commit=1)
    cuts.push(APPEND, entry(1, 6), term=6, previous=Place(5, 0))
    return told_of(knows, cuts)


FOUND = {
    "one_vote_per_term": a_vote_is_given_twice,
    "one_leader_per_term": a_term_is_led_by_two,
    "committed_is_never_cut": a_leader_lacks_what_was_committed,
}


@pytest.mark.parametrize("name", FOUND)
def test_a_broken_rule_is_found_by_the_check(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = breaches(FOUND[name](monkeypatch))
    assert [one.invariant for one in found] == [name]
