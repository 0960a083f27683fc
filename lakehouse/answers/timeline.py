"""A broker set over time, from gold rows: roles, SyncStateSets, elections, gaps.

Responsible for the model that `timeline_svg` draws, for the window of it that is asked for, and for
the same as text.
Refuses to know pixels, and where the rows come from. Times are ms since 1970-01-01 UTC; a stretch
reaches up to, not including, its `to_ms`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakehouse import wording

Row = Mapping[str, Any]
Stretch = dict[str, Any]

MASTER, IN_SET, OUT_OF_SET, UNREGISTERED = (
    "master",
    "in the set",
    "not in the set",
    "not registered",
)
ROLES = (MASTER, IN_SET, OUT_OF_SET, UNREGISTERED)
NO_MASTER, NO_MESSAGE = "no master", "no message acknowledged"


def timeline_model(
    broker_name: str,
    history: Sequence[Row],
    sets: Sequence[Row],
    elections: Sequence[Row],
    failovers: Sequence[Row],
    until_ms: int,
) -> dict[str, Any]:
    """All that gold knows of one set; each argument holds rows of that set alone, in any order.

    `until_ms` is how far history reaches: what still holds is drawn up to there.
    """
    states = sorted(history, key=lambda row: row["from_offset"])
    return {
        "broker_name": broker_name,
        "from_ms": states[0]["from_ms"] if states else until_ms,
        "to_ms": until_ms,
        "replicas": _replicas(states, until_ms),
        "sync_state_sets": [
            {
                **_span(row, until_ms),
                "epoch": row["sync_state_set_epoch"],
                "members": list(row["sync_state_set"]),
                "joined": list(row["joined"]),
                "left": list(row["left"]),
                "reason": row["reason"],
                "offset": row["from_offset"],
            }
            for row in sorted(sets, key=lambda row: row["from_offset"])
        ],
        "elections": [_election(row) for row in sorted(elections, key=lambda row: row["offset"])],
        "gaps": sorted(
            (*_masterless(states, until_ms), *_silent(failovers)), key=lambda gap: gap["from_ms"]
        ),
        "failovers": [
            {
                name: row[name]
                for name in (
                    "at_ms",
                    "old_epoch",
                    "new_epoch",
                    "old_master",
                    "new_master",
                    "cause",
                    "phases",
                )
            }
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
        **{
            name: [one for one in model[name] if first <= one["at_ms"] <= last]
            for name in ("elections", "failovers")
        },
    }


def timeline_text(model: Mapping[str, Any]) -> str:
    """What changed, one line each, by time."""
    told = [
        *map(_election_line, model["elections"]),
        *map(_set_line, model["sync_state_sets"]),
        *map(_gap_line, model["gaps"]),
    ]
    rows = [
        (wording.moment(at_ms), what, text)
        for at_ms, what, text in sorted(told, key=lambda line: line[0])
    ]
    span = f"{wording.moment(model['from_ms'])} to {wording.moment(model['to_ms'])} UTC"
    if not rows:
        return f"{model['broker_name']}: nothing from {span}"
    return (f"{model['broker_name']}, {span}\n") + wording.text_table(
        ("time (UTC)", "what", "how"), rows, "  "
    )


def _span(row: Row, until_ms: int) -> Stretch:
    return {"from_ms": row["from_ms"], "to_ms": until_ms if row["to_ms"] is None else row["to_ms"]}


def _replicas(states: Iterable[Row], until_ms: int) -> list[dict[str, Any]]:
    lanes: dict[int, dict[str, Any]] = {}
    for row in states:
        span = _span(row, until_ms)
        for replica in row["replicas"]:
            lane = lanes.setdefault(
                replica["broker_id"],
                {"broker_id": replica["broker_id"], "address": "", "stretches": []},
            )
            lane["address"] = replica["address"]
            _extend(
                lane["stretches"],
                {**span, "role": _role(row, replica), "epoch": row["master_epoch"]},
            )
    return [lanes[broker_id] for broker_id in sorted(lanes)]


def _role(row: Row, replica: Row) -> str:
    if replica["broker_id"] == row["master_broker_id"]:
        return MASTER
    if replica["broker_id"] in row["sync_state_set"]:
        return IN_SET
    return OUT_OF_SET if replica["is_registered"] else UNREGISTERED


def _extend(stretches: list[Stretch], new: Stretch) -> None:
    """The last stretch goes on when the new one says the same of the same mastership, else the new
    one begins.
    """
    last = stretches[-1] if stretches else None
    same = last is not None and last["to_ms"] == new["from_ms"] and last["role"] == new["role"]
    if last is not None and same and (new["role"] != MASTER or last["epoch"] == new["epoch"]):
        last["to_ms"] = new["to_ms"]
    else:
        stretches.append(new)


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
        span = _span(row, until_ms)
        if found and found[-1]["to_ms"] == span["from_ms"]:
            found[-1]["to_ms"] = span["to_ms"]
        else:
            found.append({**span, "kind": NO_MASTER})
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
