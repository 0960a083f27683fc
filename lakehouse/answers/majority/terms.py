"""A term of a group that replicates by majority as a person reads it, as an election is told: why
it began, who voted, what it cost.

Responsible for words and layout. Refuses to know where the rows come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakehouse import wording
from lakehouse.gold.majority_terms import changes_of_leader, cut_words

Row = Mapping[str, Any]

MEMBERS_ELECT = (
    "replicates by majority: no controller elects its leader, its members vote, and a leader takes "
    "appends once the first entry of its term is committed"
)


def term_models(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows of `gold/majority_terms` of one group for `--json`, with what clients saw; by term."""
    unled_ms = {one["new_term"]: one["unled_ms"] for one in changes_of_leader(rows)}
    return [
        {
            **{k: value for k, value in row.items() if k not in ("cluster_id", "broker_name")},
            "at_ms": row["since_ms"],
            "clients": {
                "took_appends_after_ms": _after(row["since_ms"], row["ready_ms"]),
                "nobody_took_appends_ms": unled_ms.get(row["term"]),
            },
        }
        for row in sorted(rows, key=lambda row: int(row["term"]))
    ]


def _after(from_ms: int, to_ms: int | None) -> int | None:
    return None if to_ms is None else max(0, to_ms - from_ms)


def term_text(broker_name: str, one: Row) -> str:
    """One term, some lines."""
    votes = _votes(one["votes"])
    if one["leader_id"] is None:
        when = wording.moment(one["since_ms"])
        return f"{broker_name}: term {one['term']} had no leader, {when}\n  votes:   {votes}"
    lasts = wording.lasted(one["since_ms"], one["until_ms"])
    lines = [
        (
            f"{broker_name}: {one['leader_id']} leads term {one['term']} from "
            f"{wording.moment(one['since_ms'])}, {lasts}"
        ),
        f"  cause:   {one['why_begun']}",
        f"  votes:   {votes}{_of_members(one['members'])}",
        f"  over:    {one['why_over'] or 'not yet, as far as was told'}",
    ]
    lines += [f"  cut:     {cut_words(cut)}: {cut['why']}" for cut in one["cuts"]]
    return "\n".join([*lines, *_phase_lines(one), _client_line(one["clients"])])


def _votes(votes: Iterable[Row]) -> str:
    of: dict[str, list[str]] = {}
    for one in votes:
        of.setdefault(one["candidate_id"], []).append(one["member_id"])
    told = [f"{candidate} by {', '.join(sorted(of[candidate]))}" for candidate in sorted(of)]
    return "; ".join(told) or "nobody told of one"


def _of_members(members: Sequence[str]) -> str:
    return f" (members: {', '.join(members)})" if members else ""


def _phase_lines(one: Row) -> list[str]:
    began_ms = one["since_ms"]
    return wording.phase_lines(
        (phase["at_ms"] - began_ms, phase["took_ms"], phase["phase"]) for phase in one["phases"]
    )


def _client_line(clients: Row) -> str:
    took, nobody = clients["took_appends_after_ms"], clients["nobody_took_appends_ms"]
    told = [
        "it never took appends, as far as was told"
        if took is None
        else f"it took appends {wording.duration(took)} after its election"
    ]
    if nobody is not None:
        told.append(f"nobody took appends for {wording.duration(nobody)} before")
    return f"  clients: {', '.join(told)}"


def term_line(one: Row) -> tuple[int, str, str]:
    """When, what and how, for a timeline in text."""
    if one["leader_id"] is None:
        text = f"term {one['term']}: no leader; votes: {_votes(one['votes'])}"
    else:
        lasts = wording.lasted(one["since_ms"], one["until_ms"])
        cuts = "".join(f"; {cut_words(cut)}" for cut in one["cuts"])
        text = (
            f"term {one['term']}: {one['leader_id']} leads, {lasts}: {one['why_begun']}"
            f"{cuts}; {one['why_over'] or 'it lasts'}"
        )
    return one["since_ms"], "term", text


# -- changes of leader, beside failovers -----------------------------------------------------------


def change_models(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Of rows of any groups, ascending by time: each change of leader with its group."""
    by_group: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_group.setdefault((row["cluster_id"], row["broker_name"]), []).append(row)
    found = [
        {"cluster_id": key[0], "broker_name": key[1], **one}
        for key, own in by_group.items()
        for one in changes_of_leader(own)
    ]
    return sorted(found, key=lambda one: (one["at_ms"], one["broker_name"]))


def changes_text(changes: Sequence[Row]) -> str:
    """One line each, and what they have in common."""
    head = ("time (UTC)", "group", "term", "leader", "why", "no leader for", "entries cut")
    rows = [
        (
            wording.moment(one["at_ms"]),
            one["broker_name"],
            f"{one['old_term']} -> {one['new_term']}",
            f"{one['old_leader']} -> {one['new_leader']}",
            one["cause"] or "-",
            wording.duration(one["unled_ms"]),
            one["entries_cut"],
        )
        for one in changes
    ]
    longest = max(one["unled_ms"] for one in changes)
    return "\n".join(
        [
            wording.text_table(head, rows),
            (
                f"{len(rows)} changes of leader by majority, the longest without one "
                f"{wording.duration(longest)}, by when members heard a leader last"
            ),
        ]
    )
