"""The kinds of outcomes that the demo's steps cause, and must be able to show in Delta.

Takes the counts that `lakehouse.answers.decisions.outcome_counts` reads; refuses to know how they
came there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Counts = Mapping[str, Any]

REPLICAS = 3
MASTERS_KILLED = 2


@dataclass(frozen=True, slots=True)
class Expectation:
    """One kind of outcome: how many there are and how many there must be at least."""

    name: str
    least: int
    count: Callable[[Counts], int]


def _elections_by(counts: Counts, *, broker: bool) -> int:
    return sum(
        n for cause, n in counts["elections"].items() if (cause == FIRST_ELECTION_CAUSE) == broker
    )


FIRST_ELECTION_CAUSE = "broker_request"

EXPECTED: tuple[Expectation, ...] = (
    Expectation("cluster formed", 1, lambda c: c["commands"].get("ClusterFormed", 0)),
    Expectation("leadership claims", 2, lambda c: c["changes"].get("LeadershipClaimed", 0)),
    Expectation(
        "broker ids applied", REPLICAS + 1, lambda c: c["changes"].get("BrokerIdApplied", 0)
    ),
    # every start registers: three at first, the killed masters again, the empty one
    Expectation(
        "registrations",
        REPLICAS + MASTERS_KILLED + 1,
        lambda c: c["changes"].get("BrokerRegistered", 0),
    ),
    Expectation(
        "first election, asked for by a broker", 1, lambda c: _elections_by(c, broker=True)
    ),
    Expectation(
        "elections because the master was gone",
        MASTERS_KILLED,
        lambda c: _elections_by(c, broker=False),
    ),
    Expectation(
        "elections in all", 1 + MASTERS_KILLED, lambda c: c["changes"].get("MasterElected", 0)
    ),
    Expectation("SyncStateSet shrinks", 1, lambda c: c["shrinks"]),
    Expectation("SyncStateSet expands", REPLICAS, lambda c: c["expands"]),
    Expectation("refusals", 1, lambda c: c["refused"]),
)


def check(counts: Counts) -> list[dict[str, Any]]:
    """Each expectation with what was found."""
    return [
        {
            "name": one.name,
            "found": one.count(counts),
            "least": one.least,
            "ok": one.count(counts) >= one.least,
        }
        for one in EXPECTED
    ]
