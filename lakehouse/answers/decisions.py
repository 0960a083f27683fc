"""Decisions as rows of Delta, read without Spark.

Responsible for one row per command (repeats after a change of leader are dropped), for their
history as text, and for counting what happened. Refuses to know elections in detail (`explain`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow.compute as pc

from events.topics import COMMANDS_TOPIC
from lakehouse import wording
from lakehouse.answers.acting.sets import is_acting_set, sets_without_controllers
from lakehouse.answers.majority.groups import group_names, is_group
from lakehouse.errors import NotLanded
from lakehouse.tables.delta import Filters, milliseconds, read
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, DECISIONS, TableSpec

Row = dict[str, Any]


def first_by_command(rows: Iterable[Row]) -> list[Row]:
    """One row per command offset, ascending: the first that was published."""
    found: dict[int, Row] = {}
    for row in rows:
        found.setdefault(row["command_offset"], row)
    return [found[offset] for offset in sorted(found)]


def decision_rows(
    lake: Lake,
    filters: Filters = (),
    table: TableSpec = DECISIONS,
    columns: Sequence[str] | None = None,
) -> list[Row]:
    """The decisions that match, one per command; of `columns`, if named, `command_offset` must be
    one.
    """
    return first_by_command(read(lake, table, columns=columns, filters=filters).to_pylist())


def broker_sets(lake: Lake) -> list[str]:
    """Names of all broker sets that a decision was ever made about."""
    names = read(lake, DECISIONS, columns=["broker_name"])["broker_name"]
    return sorted(name for name in pc.unique(names).to_pylist() if name is not None)


def require_set(lake: Lake, broker_name: str) -> None:
    """Raise `NotLanded` with the known names when no decision names the set, and no broker event
    of sets without controllers or of groups that replicate by majority.
    """
    named = [("broker_name", "=", broker_name)]
    decided = read(lake, DECISIONS, columns=["command_offset"], filters=named).num_rows
    if not decided and not is_acting_set(lake, broker_name) and not is_group(lake, broker_name):
        raise unknown_set(lake, broker_name)


def unknown_set(lake: Lake, broker_name: str) -> NotLanded:
    """The error when no decision about a set was found: it names the known sets."""
    without = sets_without_controllers(lake)
    if broker_name in without:
        return NotLanded(
            f"nobody decides about {broker_name}, it has no controllers: 'regent explain "
            f"{broker_name}' tells when slaves acted for its master"
        )
    groups = group_names(lake)
    if broker_name in groups:
        return NotLanded(
            f"no controller decides about {broker_name}, it replicates by majority: 'regent "
            f"explain {broker_name}' tells whom its members elected"
        )
    beside = f"; without controllers: {', '.join(without)}" if without else ""
    beside += f"; by majority: {', '.join(groups)}" if groups else ""
    return NotLanded(
        f"no decision about broker set {broker_name} has landed; "
        f"known sets: {', '.join(broker_sets(lake)) or 'none'}{beside}"
    )


def command_times(lake: Lake, rows: Iterable[Row]) -> Mapping[int, int]:
    """When the log took the commands of these decisions, ms since 1970-01-01 UTC by the log's
    timestamp.
    """
    offsets = [row["command_offset"] for row in rows]
    if not offsets:
        return {}
    filters = [("topic", "=", COMMANDS_TOPIC), ("partition", "=", 0), ("offset", "in", offsets)]
    found = read(lake, BRONZE, columns=["offset", "timestamp"], filters=filters)
    times = zip(found["offset"].to_pylist(), milliseconds(found["timestamp"]), strict=True)
    return {offset: at_ms for offset, at_ms in times if at_ms is not None}


def history(lake: Lake, broker_name: str | None = None) -> dict[str, Any]:
    """Every decision about a set, refusals included; about everything when no set is named.

    Raises `NotLanded` for a set that is not known.
    """
    filters = [] if broker_name is None else [("broker_name", "=", broker_name)]
    rows = decision_rows(lake, filters)
    if broker_name is not None and not rows:
        raise unknown_set(lake, broker_name)
    times = command_times(lake, rows)
    return {"broker_name": broker_name, "decisions": [_entry(row, times) for row in rows]}


def history_text(model: Mapping[str, Any]) -> str:
    """One line per decision."""
    head = ("offset", "time (UTC)", "term", "command", "cause", "result", "what changed")
    rows = []
    for entry in model["decisions"]:
        result = f"{result_text(entry)} {wording.labels(entry['labels'])}".rstrip()
        changed = "; ".join(wording.change_line(change) for change in entry["changes"]) or "-"
        named = "" if model["broker_name"] or not entry["broker_name"] else entry["broker_name"]
        rows.append(
            (
                entry["offset"],
                wording.moment(entry["at_ms"]),
                entry["term"],
                f"{entry['kind']} {named}".strip(),
                entry["cause"] or "-",
                result,
                changed,
            )
        )
    refused = sum(not entry["accepted"] for entry in model["decisions"])
    about = f"about {model['broker_name']} " if model["broker_name"] else ""
    return f"{wording.text_table(head, rows)}\n{len(rows)} decisions {about}({refused} refused)"


def result_text(entry: Mapping[str, Any]) -> str:
    """`accepted`, or the refusal with its RocketMQ code."""
    return "accepted" if entry["accepted"] else f"refused: {entry['refusal']} ({entry['code']})"


def outcome_counts(lake: Lake) -> dict[str, Any]:
    """How often each kind of outcome stands in Delta.

    `commands`: kind -> accepted; `refusals`: refusal -> count; `changes`: kind -> count;
    `elections`: cause -> won; `shrinks`, `expands`: alterations that a member left, joined.
    """
    rows = decision_rows(lake)
    accepted = [row for row in rows if row["accepted"]]
    changes = [change for row in rows for change in wording.changes_of(row["changes"])]
    won = (
        row["cause"]
        for row in rows
        if any(c["kind"] == "MasterElected" for c in wording.changes_of(row["changes"]))
    )
    altered = [change for change in changes if change["kind"] == "SyncStateSetAltered"]
    return {
        "decisions": len(rows),
        "accepted": len(accepted),
        "refused": len(rows) - len(accepted),
        "commands": _counted(row["kind"] for row in accepted),
        "refusals": _counted(row["refusal"] for row in rows if not row["accepted"]),
        "changes": _counted(change["kind"] for change in changes),
        "elections": _counted(won),
        "shrinks": sum(bool(change["left"]) for change in altered),
        "expands": sum(bool(change["joined"]) for change in altered),
        "labels": _counted(label for row in rows for label in row["labels"]),
    }


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _entry(row: Row, times: Mapping[int, int]) -> dict[str, Any]:
    return {
        "offset": row["command_offset"],
        "at_ms": times.get(row["command_offset"], row["published_at_ms"]),
        "term": row["term"],
        "kind": row["kind"],
        "broker_name": row["broker_name"],
        "cause": row["cause"],
        "accepted": row["accepted"],
        "refusal": row["refusal"],
        "code": row["code"],
        "labels": row["labels"],
        "changes": wording.changes_of(row["changes"]),
        "digest": row["digest"],
        "published_by": row["publisher"],
    }
