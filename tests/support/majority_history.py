"""What members of a group that replicates by majority tell history, as broker events and as tables
hold them.

Responsible for headers, lives and times. Knows no rule: who tells what is the product's
(`brokers/majority/quorum/history.py`), or the page that a test writes by hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import asdict

from events.broker_events import BROKER_EVENTS, BrokerEvent
from events.codec import encode
from events.event_header import BrokerEventHeader
from lakehouse.invariants.invariants import OF_GROUPS, judge
from lakehouse.invariants.rows import CounterExample, Reported
from lakehouse.tables.specs import snake_case
from tests.support.control_history import CLUSTER_ID
from tests.support.landed_log import BEGAN_MS, Record, event_records

GROUP = "RaftNode00"
_RECORDS = {record.__name__: record for record in BROKER_EVENTS}


class Told(NamedTuple):
    """A fact, as the process of a member tells it: its start, and when by its clock, ms."""

    member: str
    life: int
    at_ms: int
    kind: str
    fields: dict[str, Any]


def events_of(told: Iterable[Told], name: str = GROUP, began_ms: int = 0) -> list[BrokerEvent]:
    """With the headers that the program gives them. `began_ms`: added to all times."""
    sequences: Counter[str] = Counter()
    found: list[BrokerEvent] = []
    for number, one in enumerate(told):
        start = f"{one.member}-{one.life}"
        sequences[start] += 1
        header = BrokerEventHeader(
            number.to_bytes(8, "big") + f"{name:8.8}".encode(), "C", name,
            int(one.member.lstrip("mn")) + 1, start, began_ms + one.at_ms, sequences[start],
        )  # fmt: skip
        found.append(_RECORDS[one.kind](header=header, **one.fields))
    return found


def breaches(told: Sequence[Told]) -> list[CounterExample]:
    """What the lake's check finds in it."""
    rows = [Reported(0, at, event) for at, event in enumerate(events_of(told))]
    return judge(rows, invariants=OF_GROUPS)[1]


class GroupHistory:
    """Of one group, written by hand: `at(s)` says when the next things happen, s seconds after the
    beginning.
    """

    def __init__(self, name: str = GROUP, members: Sequence[str] = ("n0", "n1", "n2")) -> None:
        self.name, self.members = name, tuple(members)
        self.now_ms = 0
        self.told: list[Told] = []
        self.lives: Counter[str] = Counter()
        self.committed: dict[str, tuple[int, int]] = dict.fromkeys(self.members, (-1, -1))

    def at(self, seconds: float) -> GroupHistory:
        """What follows happens then."""
        self.now_ms = round(1_000 * seconds)
        return self

    def tell(self, member: str, kind: str, **fields: Any) -> None:
        """A member reports."""
        self.told.append(Told(member, self.lives[member], self.now_ms, kind, fields))

    def says(self, member: str, kind: str, term: int, **fields: Any) -> None:
        """The same, with what all facts have."""
        index, of_term = self.committed[member]
        known = {"committed_index": index, "committed_term": of_term}
        self.tell(member, kind, **{"member_id": member, "term": term, **known, **fields})

    def starts(self, *members: str) -> None:
        for member in members or self.members:
            self.lives[member] += 1
            self.tell(member, "BrokerStarted", clean=True, recovered_end_offset=0, cut_bytes=0)

    def stops(self, member: str) -> None:
        self.tell(member, "BrokerStopped", reason="asked to")

    def votes(self, member: str, candidate: str, term: int) -> None:
        self.says(member, "MajorityVoteCast", term, candidate_id=candidate, end_index=0, end_term=0)

    def elected(self, leader: str, term: int, voters: Sequence[str], silent_ms: int) -> None:
        for voter in voters:
            self.votes(voter, leader, term)
        self.says(
            leader, "MajorityLeaderElected", term, members=self.members, silent_ms=silent_ms,
            end_index=0, end_term=0,
        )  # fmt: skip

    def crosses(
        self, member: str, leader: str, term: int, index: int, entry_term: int | None = None
    ) -> None:
        """It knows an entry committed, of the present term unless it is said."""
        of_term = term if entry_term is None else entry_term
        self.committed[member] = index, of_term
        self.says(
            member, "MajorityCommitCrossedTerm", term, leader_id=leader, leads=member == leader,
            index=index, entry_term=of_term, took_ms=20 if member == leader else -1,
        )  # fmt: skip

    def over(self, leader: str, term: int, why: str) -> None:
        self.says(leader, "MajorityLeaderOver", term, why=why, was_ready=True, lasted_ms=1_000)

    def cuts(
        self, member: str, leader: str, term: int, ends: tuple[int, int],
        runs: Mapping[int, int], restarted: bool = False,
    ) -> None:  # fmt: skip
        """`ends`: last entry before and after; `runs`: first index by term of what was dropped."""
        self.says(
            member, "MajorityLogCut", term, leader_id=leader, from_index=ends[0],
            to_index=ends[1], restarted=restarted, why=f"these entries are not those of {leader}",
            dropped_terms=tuple(runs), dropped_from=tuple(runs.values()),
        )  # fmt: skip

    # -- as tables hold it -------------------------------------------------------------------------

    def records(self, partition: int = 0) -> list[Record]:
        """As one partition of the broker events."""
        events = events_of(self.told, self.name, BEGAN_MS)
        return event_records([encode(one) for one in events], partition)

    def events(self) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """As rows of silver tables, by cluster and kind."""
        return rows_of_events(events_of(self.told, self.name, BEGAN_MS))


def rows_of_events(events: Iterable[BrokerEvent]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """As rows of silver tables, by cluster and kind."""
    found: dict[str, list[dict[str, Any]]] = {}
    for one in events:
        row = asdict(one)
        header = asdict(row.pop("header"))
        header["event_id"] = header["event_id"].hex()
        found.setdefault(snake_case(type(one).__name__), []).append({**header, **row})
    return {CLUSTER_ID: found}


def killed_leader() -> GroupHistory:
    """n0 leads from the third second on, is killed after a minute; n1 leads 2.6 s later, and n0
    comes back with entries that nobody else had.
    """
    past = GroupHistory()
    past.starts()
    past.at(3).elected("n0", 1, ("n0", "n2"), 3_000)
    past.at(3.1).crosses("n0", "n0", 1, 0)
    past.at(3.2).crosses("n1", "n0", 1, 0)
    past.at(3.3).crosses("n2", "n0", 1, 0)
    past.committed = dict.fromkeys(past.members, (40, 1))
    past.at(62.5).elected("n1", 2, ("n1", "n2"), 2_500)
    past.at(62.6).crosses("n1", "n1", 2, 41)
    past.at(62.7).crosses("n2", "n1", 2, 41)
    past.at(70).starts("n0")
    past.at(71).cuts("n0", "n1", 2, (43, 40), {1: 41})
    past.at(71.1).crosses("n0", "n1", 2, 41)
    return past


def at(seconds: float) -> int:
    """So long after the beginning, ms since 1970-01-01 UTC."""
    return BEGAN_MS + round(1_000 * seconds)
