"""What changed between two moments of the controllers' state.

Responsible for comparing the two states part by part, and for the decisions that led from one to
the other.
Refuses to know where the states come from, and to show check codes: readers of states need not see
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import asdict

from events.envelope import MemberPosition
from lakehouse import wording
from lakehouse.gold.fold import SetChange
from lakehouse.tables.columns import record_json
from processors.fold.state import BrokerSet, ControllerState, Replica

Row = dict[str, Any]

CLUSTER_FIELDS = (
    "cluster_id",
    "term",
    "leader_id",
    "leader_address",
    "leader_release",
    "rules_version",
)
NOT_TOLD = ("replicas", "register_check_code")
ADDED, CLEANED, CHANGED = "added", "cleaned", "changed"


@dataclass(frozen=True, slots=True)
class StateAt:
    """The state after one command; `at_ms` is when the log took it, ms since 1970-01-01 UTC."""

    offset: int
    at_ms: int
    digest: bytes
    state: ControllerState


def difference(before: StateAt, after: StateAt, between: Iterable[SetChange]) -> Row:
    """The parts that differ, and what was decided behind `before` up to `after`.

    What changed and changed back stands in no part, but in the decisions.
    """
    steps = list(between)
    names = sorted({*before.state.sets, *after.state.sets})
    found = (
        _set_difference(before.state.sets.get(name), after.state.sets.get(name), steps)
        for name in names
    )
    return {
        "from": _place(before),
        "to": _place(after),
        "commands": after.offset - before.offset,
        "refused": len({step.offset for step in steps if not step.outcome.accepted}),
        "cluster": _fields(before.state, after.state, CLUSTER_FIELDS),
        "settings": _settings(before.state.settings, after.state.settings),
        "cluster_decisions": [
            _decision(step) for step in steps if step.after is None and step.outcome.changes
        ],
        "sets": [one for one in found if one is not None],
    }


def diff_text(model: Mapping[str, Any]) -> str:
    """The difference for people."""
    first, last = model["from"], model["to"]
    lines = [
        (
            f"from command {first['offset']} of {wording.moment(first['at_ms'])} to command "
            f"{last['offset']} of {wording.moment(last['at_ms'])} UTC: {model['commands']} "
            f"commands, {model['refused']} refused"
        )
    ]
    lines += [f"  {line}" for line in _field_lines(model["cluster"])]
    lines += [f"  setting {line}" for line in _field_lines(model["settings"])]
    lines += _decision_lines(model["cluster_decisions"])
    for one in model["sets"]:
        lines += ["", *_set_lines(one)]
    if len(lines) == 1:
        lines.append("  nothing is different, and nothing changed in between")
    return "\n".join(lines)


def _place(at: StateAt) -> Row:
    return {"offset": at.offset, "at_ms": at.at_ms, "digest": at.digest.hex()}


def _fields(before: object, after: object, names: Iterable[str]) -> list[Row]:
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in names)
    return [
        {"field": name, "before": _plain(old), "after": _plain(new)}
        for name, old, new in pairs
        if old != new
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, MemberPosition):
        return asdict(value)
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _settings(before: Mapping[str, str], after: Mapping[str, str]) -> list[Row]:
    names = sorted({*before, *after})
    pairs = ((name, before.get(name), after.get(name)) for name in names)
    return [{"field": name, "before": old, "after": new} for name, old, new in pairs if old != new]


def _set_difference(
    before: BrokerSet | None, after: BrokerSet | None, steps: Sequence[SetChange]
) -> Row | None:
    assert after is not None, "a set never goes: cleaned, it leaves a tombstone"
    changed = [
        step
        for step in steps
        if step.after is not None and step.after.broker_name == after.broker_name
    ]
    decisions = [_decision(step) for step in changed if step.is_changed]
    if before == after and not decisions:
        return None
    empty = BrokerSet(after.cluster_name, after.broker_name)
    old = empty if before is None else before
    names = [name for name in BrokerSet.__struct_fields__ if name not in NOT_TOLD]
    return {
        "broker_name": after.broker_name,
        "is": ADDED
        if before is None
        else CLEANED
        if after.tombstone and not old.tombstone
        else CHANGED,
        "fields": _fields(old, after, names),
        "replicas": _replicas(old, after),
        "decisions": decisions,
    }


def _replicas(before: BrokerSet, after: BrokerSet) -> list[Row]:
    ids = sorted({replica.broker_id for one in (before, after) for replica in one.replicas})
    found = (_replica(one, before.replica(one), after.replica(one)) for one in ids)
    return [row for row in found if row["fields"]]


def _replica(broker_id: int, old: Replica | None, new: Replica | None) -> Row:
    was, now = (_row(one) for one in (old, new))
    names = [name for name in Replica.__struct_fields__ if name not in (*NOT_TOLD, "broker_id")]
    fields = [
        {"field": name, "before": was.get(name), "after": now.get(name)}
        for name in names
        if was.get(name) != now.get(name)
    ]
    return {
        "broker_id": broker_id,
        "is": ADDED if old is None else CLEANED if new is None else CHANGED,
        "fields": fields,
    }


def _row(replica: Replica | None) -> Row:
    return {} if replica is None else asdict(replica)


def _decision(step: SetChange) -> Row:
    outcome = step.outcome
    return {
        "offset": step.offset,
        "at_ms": step.at_ms,
        "kind": outcome.kind,
        "cause": outcome.cause,
        "accepted": outcome.accepted,
        "refusal": outcome.refusal,
        "labels": list(outcome.labels),
        "changes": wording.changes_of(record_json(outcome.changes)),
    }


def _set_lines(one: Mapping[str, Any]) -> list[str]:
    lines = [f"{one['broker_name']}{'' if one['is'] == CHANGED else ' ' + one['is']}:"]
    lines += [f"  {line}" for line in _field_lines(one["fields"])]
    for replica in one["replicas"]:
        what = (
            "; ".join(_field_lines(replica["fields"]))
            if replica["is"] == CHANGED
            else replica["is"]
        )
        lines.append(f"  replica {replica['broker_id']}: {what}")
    if not one["fields"] and not one["replicas"]:
        lines.append("  as it was, after these decisions:")
    return [*lines, *_decision_lines(one["decisions"])]


def _decision_lines(decisions: Sequence[Mapping[str, Any]]) -> list[str]:
    rows = [
        (
            one["offset"],
            wording.moment(one["at_ms"]),
            one["kind"],
            one["cause"] or "-",
            "; ".join(wording.change_line(change) for change in one["changes"]) or "-",
        )
        for one in decisions
    ]
    head = ("offset", "time (UTC)", "command", "cause", "what changed")
    return [wording.text_table(head, rows, "    ")] if rows else []


def _field_lines(fields: Iterable[Mapping[str, Any]]) -> list[str]:
    return [f"{one['field']}: {_shown(one['before'])} -> {_shown(one['after'])}" for one in fields]


def _shown(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return ", ".join(
            (f"{one['broker_id']} up to {one['end_offset']} in epoch {one['epoch']}")
            for one in value
        )
    if isinstance(value, list):
        return wording.members(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)
