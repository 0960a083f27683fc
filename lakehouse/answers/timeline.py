"""A broker set over time, from gold rows: roles, SyncStateSets, elections, gaps.

Responsible for the model that `timeline_svg` draws, for the window of it that is asked for, and for
the same as text.
Refuses to know pixels, and where the rows come from. Times are ms since 1970-01-01 UTC; a stretch
reaches up to, not including, its `to_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lakehouse import wording
from lakehouse.answers.acting.changeovers import headline
from lakehouse.answers.acting.periods import span_of
from lakehouse.answers.majority.terms import term_line, term_models
from lakehouse.answers.replica_roles import acting_lanes, leader_lanes, replica_lanes, span
from lakehouse.gold.acting_periods import ActingSet, masterless
from lakehouse.gold.majority_terms import led_group
from lakehouse.gold.spans import Stretch as Span
from lakehouse.gold.spans import union, within, without

Row = Mapping[str, Any]
Stretch = dict[str, Any]


class Acting(NamedTuple):
    """Of a set without controllers."""

    periods: Sequence[Row] = ()
    """Rows of `gold/acting_periods`, by time."""
    over_time: ActingSet | None = None
    """None: it is no such set, or nobody told of its master."""
    changeovers: Sequence[Row] = ()
    """When controllers adopted and released it, as `changeover_models` has them."""


NOBODY_ACTED = Acting()
NO_MASTER, NO_MESSAGE = "no master", "no message acknowledged"


_OF_FAILOVERS = (
    "at_ms",
    "old_epoch",
    "new_epoch",
    "old_master",
    "new_master",
    "cause",
    "last_message_ms",
    "first_acknowledged_ms",
    "unavailable_ms",
    "phases",
)


def timeline_model(
    broker_name: str,
    history: Sequence[Row],
    sets: Sequence[Row],
    elections: Sequence[Row],
    failovers: Sequence[Row],
    until_ms: int,
    acting: Acting = NOBODY_ACTED,
    terms: Sequence[Row] = (),
) -> dict[str, Any]:
    """All that gold knows of one set; each argument holds rows of that set alone, in any order.

    `until_ms` is how far history reaches: what still holds is drawn up to there. `acting`: of a set
    without controllers. `terms`: rows of `gold/majority_terms` of a group that replicates by
    majority.
    """
    states = sorted(history, key=lambda row: row["from_offset"])
    asked = sorted(elections, key=lambda row: row["offset"])
    led_from_ms = int(states[0]["from_ms"]) if states else until_ms
    fixed, away = _without_controllers(states, acting, until_ms)
    led_from_ms = min([led_from_ms, *(int(row["since_ms"]) for row in terms)])
    return {
        "broker_name": broker_name,
        "from_ms": min(led_from_ms, until_ms, *(from_ms for from_ms, _ in fixed)),
        "to_ms": until_ms,
        "replicas": [
            *acting_lanes(acting.periods, fixed, away, until_ms),
            *replica_lanes(states, asked, until_ms),
            *leader_lanes(terms, until_ms),
        ],
        "terms": term_models(terms),
        "acting": [span_of(row, until_ms) for row in acting.periods],
        "changeovers": [dict(one) for one in acting.changeovers],
        "sync_state_sets": [
            _set(row, until_ms) for row in sorted(sets, key=lambda row: row["from_offset"])
        ],
        "elections": [_election(row) for row in asked],
        "gaps": sorted(
            (
                *_apart(_masterless(states, until_ms), fixed),
                *_silent(failovers),
                *(
                    {"from_ms": low, "to_ms": high, "kind": NO_MASTER}
                    for low, high in (*away, *_unled(terms, until_ms))
                ),
            ),
            key=lambda gap: gap["from_ms"],
        ),
        "failovers": [
            {name: row[name] for name in _OF_FAILOVERS}
            for row in sorted(failovers, key=lambda row: row["offset"])
        ],
    }


def window(model: Mapping[str, Any], from_ms: int | None, to_ms: int | None) -> dict[str, Any]:
    """The part of it between two moments; None leaves an end as it is. Nothing is in it when they
    lie outside.
    """
    first = model["from_ms"] if from_ms is None else max(from_ms, model["from_ms"])
    last = model["to_ms"] if to_ms is None else min(to_ms, model["to_ms"])
    replicas = [
        {**one, "stretches": _cut(one["stretches"], first, last)} for one in model["replicas"]
    ]
    return {
        **model,
        "from_ms": first,
        "to_ms": max(first, last),
        "replicas": [one for one in replicas if one["stretches"]],
        "sync_state_sets": _cut(model["sync_state_sets"], first, last),
        "gaps": _cut(model["gaps"], first, last),
        "acting": _cut(model["acting"], first, last),
        "terms": [one for one in model["terms"] if _is_in(one, first, last)],
        **{
            name: [one for one in model[name] if first <= one["at_ms"] <= last]
            for name in ("elections", "failovers", "changeovers")
        },
    }


def timeline_text(model: Mapping[str, Any]) -> str:
    """What changed, one line each, by time."""
    told = [
        *map(_election_line, model["elections"]),
        *map(_set_line, model["sync_state_sets"]),
        *map(_gap_line, model["gaps"]),
        *map(_acting_line, model["acting"]),
        *map(term_line, model["terms"]),
        *((one["at_ms"], one["what"], headline(one)) for one in model["changeovers"]),
    ]
    rows = [
        (wording.moment(at_ms), what, text)
        for at_ms, what, text in sorted(told, key=lambda line: line[0])
    ]
    reach = f"{wording.moment(model['from_ms'])} to {wording.moment(model['to_ms'])} UTC"
    if not rows:
        return f"{model['broker_name']}: nothing from {reach}"
    return (f"{model['broker_name']}, {reach}\n") + wording.text_table(
        ("time (UTC)", "what", "how"), rows, "  "
    )


def _without_controllers(
    states: Sequence[Row], acting: Acting, until_ms: int
) -> tuple[list[Span], list[Span]]:
    """When the set had fixed ids, until controllers tell roles, and when it had no master then. Of
    one whose master was never heard of nothing but the latter is known.
    """
    if acting.over_time is None:
        away = union(masterless(row, until_ms) for row in acting.periods)
        return away, away
    fixed = []
    for begin, told_end in acting.over_time.fixed:
        led = (int(row["from_ms"]) for row in states if int(row["from_ms"]) > begin)
        end = next((from_ms for from_ms in led), until_ms) if told_end is None else told_end
        fixed.append((begin, end))
    return fixed, within(acting.over_time.masterless, fixed)


def _unled(terms: Sequence[Row], until_ms: int) -> tuple[Span, ...]:
    """When nobody took appends, of a group that replicates by majority."""
    group = led_group(terms, until_ms)
    return () if group is None else group.unled


def _is_in(term: Row, first: int, last: int) -> bool:
    until_ms = last if term["until_ms"] is None else term["until_ms"]
    return bool(term["since_ms"] <= last and first <= until_ms)


def _apart(gaps: Iterable[Stretch], fixed: Sequence[Span]) -> list[Stretch]:
    """What controllers knew of the set while it was not theirs any more does not count."""
    return [
        {**gap, "from_ms": from_ms, "to_ms": to_ms}
        for gap in gaps
        for from_ms, to_ms in without([(gap["from_ms"], gap["to_ms"])], fixed)
    ]


def _acting_line(one: Stretch) -> tuple[int, str, str]:
    lasted = wording.duration(one["to_ms"] - one["from_ms"])
    over = one["why_over"] or "it lasts"
    return (
        one["from_ms"],
        "acting",
        (
            f"broker {one['broker_id']} acts for the master for {lasted}: {one['why_begun']}; "
            f"{one['messages']} messages left; {over}"
        ),
    )


def _set(row: Row, until_ms: int) -> Stretch:
    return {
        **span(row, until_ms),
        "epoch": row["sync_state_set_epoch"],
        "members": list(row["sync_state_set"]),
        "joined": list(row["joined"]),
        "left": list(row["left"]),
        "reason": row["reason"],
        "offset": row["from_offset"],
    }


def _election(row: Row) -> dict[str, Any]:
    names = (
        "at_ms",
        "offset",
        "accepted",
        "refusal",
        "winner",
        "master_epoch",
        "cause",
        "reason",
        "labels",
    )
    return {name: row[name] for name in names}


def _masterless(states: Iterable[Row], until_ms: int) -> list[Stretch]:
    found: list[Stretch] = []
    for row in states:
        if row["master_broker_id"] is not None or not row["has_had_master"] or row["tombstone"]:
            continue
        lasts = span(row, until_ms)
        if found and found[-1]["to_ms"] == lasts["from_ms"]:
            found[-1]["to_ms"] = lasts["to_ms"]
        else:
            found.append({**lasts, "kind": NO_MASTER})
    return found


def _silent(failovers: Iterable[Row]) -> list[Stretch]:
    return [
        {
            "from_ms": row["last_message_ms"],
            "to_ms": row["first_acknowledged_ms"],
            "kind": NO_MESSAGE,
        }
        for row in failovers
        if row["unavailable_ms"]
    ]


def _cut(stretches: Iterable[Stretch], first: int, last: int) -> list[Stretch]:
    clipped = (
        {**one, "from_ms": max(first, one["from_ms"]), "to_ms": min(last, one["to_ms"])}
        for one in stretches
    )
    return [one for one in clipped if one["from_ms"] <= one["to_ms"]]


def _election_line(one: Row) -> tuple[int, str, str]:
    if one["winner"] is None:
        return (
            one["at_ms"],
            "election",
            (f"{one['reason']} ({one['cause'] or 'no cause given'}), offset {one['offset']}"),
        )
    won = f"epoch {one['master_epoch']}: master {one['winner']}"
    return (
        one["at_ms"],
        "election",
        (
            f"{won} ({one['cause'] or 'no cause given'}), offset {one['offset']} "
            f"{wording.labels(one['labels'])}"
        ).rstrip(),
    )


def _set_line(one: Stretch) -> tuple[int, str, str]:
    moved = " ".join((*(f"+{i}" for i in one["joined"]), *(f"-{i}" for i in one["left"])))
    members = f"{wording.members(one['members'])} epoch {one['epoch']}"
    return one["from_ms"], "set", f"{members} ({', '.join(filter(None, (moved, one['reason'])))})"


def _gap_line(one: Stretch) -> tuple[int, str, str]:
    return (
        one["from_ms"],
        "gap",
        (f"{one['kind']} for {wording.duration(one['to_ms'] - one['from_ms'])}"),
    )
