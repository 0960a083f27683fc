"""The answer to "what if the leader died this second?" of a group that replicates by majority: who
may lead, how soon that was before, when nobody could.

Responsible for that model and its words. Refuses to know the rows' tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse import wording
from lakehouse.answers.majority.groups import KnownGroup
from lakehouse.answers.majority.terms import MEMBERS_ELECT
from lakehouse.gold.majority_terms import changes_of_leader

Row = Mapping[str, Any]
LIMITS = (
    (
        "Who wins cannot be said: members vote for one whose log is not behind theirs, and who "
        "stands first is chance, by the pauses of vote_pause_min_ms to vote_pause_max_ms."
    ),
    (
        "Who lives is not told by events of this group: a member that told nothing for long may "
        "be whole, and have nothing to tell."
    ),
    (
        "Nothing that was committed is lost while a majority of the members comes back with its "
        "disks; what the leader alone has is lost with it, and nobody was told that it is safe."
    ),
    (
        "How long it takes is what it took before; a leader's silence is waited for first, "
        "heartbeat_ms times heartbeats_missed_max of the members."
    ),
)
"""What the answer cannot know; it is part of the answer."""


def outlook(broker_name: str, known: KnownGroup, rows: Sequence[Row]) -> dict[str, Any]:
    """`rows`: of `gold/majority_terms` of the group. Times in ms."""
    ordered = sorted(rows, key=lambda row: int(row["term"]))
    leads = next((row for row in reversed(ordered) if row["leader_id"] is not None), None)
    if leads is not None and leads["until_ms"] is not None:
        leads = None
    count = len(known.members)
    others = [one for one in known.members if leads is None or one != leads["leader_id"]]
    return {
        "broker_name": broker_name,
        "by_majority": True,
        "at_ms": known.until_ms,
        "members": list(known.members),
        "heard_ms": known.heard_ms,
        "leader": None if leads is None else leads["leader_id"],
        "term": None if leads is None else leads["term"],
        "since_ms": None if leads is None else leads["since_ms"],
        "may_lead": others,
        "majority": count // 2 + 1,
        "more_may_die": count - (count // 2 + 1),
        "before": _before(rows),
        "limits": list(LIMITS),
    }


def _before(rows: Sequence[Row]) -> dict[str, Any]:
    lengths = sorted(one["unled_ms"] for one in changes_of_leader(rows))
    return {
        "changes": len(lengths),
        "median_ms": lengths[(len(lengths) - 1) // 2] if lengths else None,
        "longest_ms": lengths[-1] if lengths else None,
        "entries_cut": sum(row["entries_cut"] for row in rows),
    }


def outlook_text(model: Row) -> str:
    """For people."""
    who = (
        "nobody leads, as far as was told"
        if model["leader"] is None
        else (
            f"{model['leader']} leads term {model['term']} since "
            f"{wording.moment(model['since_ms'])}"
        )
    )
    return "\n".join(
        [
            f"{model['broker_name']} {MEMBERS_ELECT}",
            (
                f"members {', '.join(model['members'])}, as told up to "
                f"{wording.moment(model['at_ms'])} UTC: {who}"
            ),
            "",
            _if_it_died(model),
            *_before_lines(model["before"]),
            "",
            *(f"* {one}" for one in model["limits"]),
        ]
    )


def _if_it_died(model: Row) -> str:
    if not model["more_may_die"]:
        return "if a member died: nobody could lead, all of them are the majority"
    who = model["leader"] or "another member"
    more = model["more_may_die"]
    return (
        f"if {who} died: one of {', '.join(model['may_lead'])} would lead; with more than {more} "
        f"of {len(model['members'])} members away nobody does"
    )


def _before_lines(before: Row) -> list[str]:
    if not before["changes"]:
        return ["no change of leader of this group was told yet"]
    return [
        (
            f"before: {before['changes']} changes of leader; without one: median "
            f"{wording.duration(before['median_ms'])}, longest "
            f"{wording.duration(before['longest_ms'])}; {before['entries_cut']} entries were cut, "
            "each log by itself"
        )
    ]
