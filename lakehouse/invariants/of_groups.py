"""What must hold in groups that replicate by majority, by what their members say, each as a pure
step.

Responsible for leaders, votes, and cuts of what was committed. Refuses to compare the clocks of two
machines or the order in which two members' words landed, and to take a missing event for a breach.

An entry is known by term and index: a term has one leader, which writes its entries one behind the
other. So of two entries of one term the one with the smaller index was there first, and is
committed when the other one is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from events.majority_events import (
    MajorityCommitCrossedTerm,
    MajorityLeaderElected,
    MajorityLeaderOver,
    MajorityLogCut,
    MajorityVoteCast,
)
from lakehouse.invariants.rows import Breach, Reported, Row

TERMS_KEPT = 1_000
"""Terms of one group that are remembered; what is said of older ones is not judged."""
CUTS_KEPT = 1_000
"""Runs of dropped entries of one group that are remembered for commits that are told later."""

_TELLS_COMMITTED = (
    MajorityVoteCast,
    MajorityLeaderElected,
    MajorityLeaderOver,
    MajorityCommitCrossedTerm,
)
Kept = TypeVar("Kept")


class Leaders(Struct, frozen=True):
    """By term: who leads it, by which start of it where it says so itself, and who said it."""

    leaders: dict[int, tuple[str, str, str]] = {}


class Votes(Struct, frozen=True):
    """By term: what each member voted."""

    votes: dict[int, dict[str, str]] = {}


class Dropped(Struct, frozen=True):
    """Entries of one term that one cut took away, from `index` on; `term`: in which it was made."""

    entry_term: int
    index: int
    term: int
    member_id: str
    at: tuple[int, int]


class Committed(Struct, frozen=True):
    """`known`: by term of the entry, then by the term in which it was known committed: its index
    and who said so.
    """

    known: dict[int, dict[int, tuple[int, str]]] = {}
    dropped: tuple[Dropped, ...] = ()


def one_leader_per_term(known: Leaders, subject: str, row: Row) -> tuple[Leaders, list[Breach]]:
    """Who leads by its own word is the one that the others follow, and one start of it."""
    event = row.event if isinstance(row, Reported) else None
    match event:
        case MajorityLeaderElected() | MajorityLeaderOver():
            claim = (event.member_id, event.header.incarnation, event.member_id)
        case MajorityCommitCrossedTerm() | MajorityLogCut() if event.leader_id:
            own = event.leader_id == event.member_id
            start = event.header.incarnation if own else ""
            claim = (event.leader_id, start, event.member_id)
        case _:
            return known, []
    before = known.leaders.get(event.term)
    found = [] if before is None else list(_two_leaders(event.term, before, claim))
    if before is None or (not found and not before[1]):
        known = replace(known, leaders=_with(known.leaders, event.term, claim))
    return known, found


def _two_leaders(
    term: int, before: tuple[str, str, str], claim: tuple[str, str, str]
) -> Iterator[Breach]:
    if before[0] != claim[0]:
        yield Breach(
            f"term {term} has leaders {before[0]} (by the word of {before[2]}) and {claim[0]} (by "
            f"that of {claim[2]})"
        )
    elif before[1] and claim[1] and before[1] != claim[1]:
        yield Breach(f"{claim[0]} leads term {term} in two of its starts")


def one_vote_per_term(known: Votes, subject: str, row: Row) -> tuple[Votes, list[Breach]]:
    """A member votes for one candidate in a term."""
    event = row.event if isinstance(row, Reported) else None
    if not isinstance(event, MajorityVoteCast):
        return known, []
    given = known.votes.get(event.term, {})
    before = given.get(event.member_id)
    if before is None:
        given = {**given, event.member_id: event.candidate_id}
        return replace(known, votes=_with(known.votes, event.term, given)), []
    if before == event.candidate_id:
        return known, []
    said = f"{event.member_id} voted for {before} and for {event.candidate_id} in term {event.term}"
    return known, [Breach(said)]


def committed_is_never_cut(
    known: Committed, subject: str, row: Row
) -> tuple[Committed, list[Breach]]:
    """No member drops an entry that it knows committed, nor one that anybody knew committed by the
    term in which it drops it: every later leader has it.
    """
    event = row.event if isinstance(row, Reported) else None
    if isinstance(event, MajorityLogCut):
        assert isinstance(row, Reported)
        return _cut(known, event, (row.partition, row.offset))
    if not isinstance(event, _TELLS_COMMITTED):
        return known, []
    places = [(event.committed_term, event.committed_index)]
    if isinstance(event, MajorityCommitCrossedTerm):
        places.append((event.entry_term, event.index))
    found: list[Breach] = []
    for entry_term, index in places:
        if entry_term >= 0 and index >= 0:
            learned = _learned(known, entry_term, event.term, index, event.member_id)
            if learned is not known:
                known, more = _judged(learned, entry_term, event.term, index, event.member_id)
                found += more
    return known, found


def _cut(
    known: Committed, event: MajorityLogCut, at: tuple[int, int]
) -> tuple[Committed, list[Breach]]:
    found: list[Breach] = []
    if event.to_index < event.committed_index:
        found.append(
            Breach(
                f"{event.member_id} cut its log from entry {event.from_index} to {event.to_index}, "
                f"and knew entries up to {event.committed_index} committed"
            )
        )
    # What a log that begins anew lacks is committed: its leader has it no more.
    runs = () if event.restarted else zip(event.dropped_terms, event.dropped_from, strict=False)
    for entry_term, index in runs:
        one = Dropped(entry_term, index, event.term, event.member_id, at)
        known_of = sorted(known.known.get(entry_term, {}).items())
        broken = (
            Breach(_said(one, committed, term, who))
            for term, (committed, who) in known_of
            if term <= event.term and index <= committed
        )
        breach = next(broken, None)
        if breach is not None:
            found = found or [breach]
        else:
            known = replace(known, dropped=(*known.dropped, one)[-CUTS_KEPT:])
    return known, found


def _judged(
    known: Committed, entry_term: int, term: int, index: int, who: str
) -> tuple[Committed, list[Breach]]:
    """Cuts whose word landed before that of the commit; each is told once."""
    broken = [
        one
        for one in known.dropped
        if one.entry_term == entry_term and term <= one.term and one.index <= index
    ]
    left = tuple(one for one in known.dropped if one not in broken)
    found = [Breach(_said(one, index, term, who), one.at) for one in broken]
    return replace(known, dropped=left), found


def _said(one: Dropped, committed: int, term: int, who: str) -> str:
    return (
        f"{one.member_id} cut entry {one.index} of term {one.entry_term} in term {one.term}, and "
        f"{who} knew entry {committed} of that term committed in term {term}"
    )


def _learned(known: Committed, entry_term: int, term: int, index: int, who: str) -> Committed:
    """Of one term of entries only what says more is kept: a higher index, or an earlier term."""
    of_term = known.known.get(entry_term, {})
    if any(seen <= term and high >= index for seen, (high, _) in of_term.items()):
        return known
    kept = {seen: one for seen, one in of_term.items() if seen < term or one[0] > index}
    return replace(known, known=_with(known.known, entry_term, {**kept, term: (index, who)}))


def _with(terms: Mapping[int, Kept], term: int, value: Kept) -> dict[int, Kept]:
    """The oldest terms are forgotten."""
    found = {**terms, term: value}
    while len(found) > TERMS_KEPT:
        del found[min(found)]
    return found
