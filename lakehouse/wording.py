"""How times, changes and tables of text are written for people.

Responsible for words only; refuses to know where rows come from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from events.outcomes import (
    LABEL_AT_RISK,
    LABEL_DESIGNATED,
    LABEL_REMEMBERED,
    LABEL_REPEAT,
    LABEL_UNCLEAN,
)

Change = Mapping[str, Any]

LABEL_WORDS: Mapping[str, str] = {
    LABEL_AT_RISK: "messages may be missing",
    LABEL_DESIGNATED: "named by an operator",
    LABEL_REMEMBERED: "was left out, holds everything",
    LABEL_REPEAT: "told again",
    LABEL_UNCLEAN: "outside the set, as the settings allow",
}


def moment(at_ms: int | None) -> str:
    """A wall clock time with milliseconds, UTC; `-` when unknown, the number where no calendar has
    it.
    """
    if at_ms is None or at_ms <= 0:
        return "-"
    try:
        text = datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return f"{at_ms} ms"
    return f"{text}.{at_ms % 1000:03d}"


def duration(ms: int | None) -> str:
    """A duration; `-` when unknown."""
    if ms is None:
        return "-"
    return f"{ms} ms" if abs(ms) < 10_000 else f"{ms / 1000:.1f} s"


def lasted(since_ms: int, until_ms: int | None) -> str:
    """For how long; `until_ms` None: it is not over."""
    return "lasts" if until_ms is None else f"lasted {duration(max(0, until_ms - since_ms))}"


def phase_lines(phases: Iterable[tuple[int | None, int | None, str]]) -> list[str]:
    """The phases of a story: ms since it began, ms it took, what it was. No line without any."""
    rows = [
        (f"{'' if (since_ms or 0) < 0 else '+'}{duration(since_ms)}", duration(took_ms), phase)
        for since_ms, took_ms, phase in phases
    ]
    return ["  time:", text_table(("at", "took", "phase"), rows, "    ")] if rows else []


def members(ids: Sequence[int] | None) -> str:
    """A SyncStateSet."""
    return "{" + ",".join(map(str, ids or ())) + "}"


def brokers(ids: Iterable[int]) -> str:
    """`broker 2`, or `each of the brokers 2, 3`; empty without any."""
    named = [str(one) for one in ids]
    return (
        (f"each of the brokers {', '.join(named)}")
        if len(named) > 1
        else f"broker {named[0]}"
        if named
        else ""
    )


def labels(names: Sequence[str]) -> str:
    """The labels of a decision, in brackets and in words; empty without any."""
    return f"[{', '.join(LABEL_WORDS.get(name, name) for name in names)}]" if names else ""


def changes_of(text: str) -> list[dict[str, Any]]:
    """The changes of a decision, from the JSON in its row."""
    found = json.loads(text)
    return found if isinstance(found, list) else []


def change_line(change: Change) -> str:
    """One change in a few words."""
    match change["kind"]:
        case "ClusterStarted":
            return f"cluster {change['cluster_id']}, rules {change['rules_version']}"
        case "LeadershipClaimed":
            return f"{change['controller_id']} leads in term {change['term']}"
        case "BrokerIdApplied":
            return f"id {change['broker_id']} given away"
        case "BrokerRegistered":
            return _registered(change)
        case "MasterElected":
            return (
                f"master {change['master_broker_id']} in epoch {change['master_epoch']}, "
                f"set {members(change['sync_state_set'])} epoch {change['sync_state_set_epoch']}"
            )
        case "MasterCleared":
            return f"no master (was {change['previous_master']}): {change['reason']}"
        case "SyncStateSetAltered":
            return _altered(change)
        case "BrokersCleaned":
            whole = "whole set" if change["whole_set"] else members(change["broker_ids"])
            return f"cleaned {whole}"
        case "MasterAtRisk":
            return f"epoch {change['master_epoch']} may lack acknowledged messages"
        case "MembersRemembered":
            holders = (
                (f"{members(change['remembered'])} may be elected too")
                if change["remembered"]
                else "nobody else"
            )
            return f"remembered: {holders}; ever members {members(change['former'])}"
        case "MinimumTold":
            return (
                f"broker {change['broker_id']} acknowledges with {change['min_in_sync']} members "
                "or more"
            )
        case "PositionsShown":
            shown = (
                (f"{p['broker_id']} epoch {p['epoch']} to {p['end_offset']}")
                for p in change["positions"]
            )
            return f"shown to hold: {', '.join(shown) or 'nothing'}"
        case "SetDoubted":
            return (
                f"uncertain: {members(change['uncertain'])} have to report what they hold, epoch "
                f"{change['master_epoch']} has no master"
            )
        case "BrokerSetImported":
            return _imported(change)
        case "SettingsChanged":
            return "settings " + ", ".join(f"{k}={v}" for k, v in change["settings"].items())
        case "RulesActivated":
            return f"rules {change['rules_version']}"
    return str(change["kind"])


def text_table(head: Sequence[str], rows: Sequence[Sequence[object]], indent: str = "") -> str:
    """Rows under a head in columns of even width; the last column is not padded."""
    texts = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(head))]
    return "\n".join(
        indent + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
        for row in texts
    )


def _registered(change: Change) -> str:
    notes = [] if change["clean"] else ["unclean"]
    if change["restarted_master"]:
        notes.append("restarted master")
    return f"{change['broker_id']} at {change['broker_address']}" + (
        f" ({', '.join(notes)})" if notes else ""
    )


def _imported(change: Change) -> str:
    ids = members([replica["broker_id"] for replica in change["replicas"]])
    return (
        f"imported from {change['source']}: replicas {ids}, master "
        f"{change['master_broker_id'] or '-'} in epoch {change['master_epoch']}, "
        f"set {members(change['sync_state_set'])} epoch {change['sync_state_set_epoch']}, "
        f"next id {change['next_broker_id']}"
    )


def _altered(change: Change) -> str:
    moved = [f"+{member}" for member in change["joined"]]
    moved += [f"-{member}" for member in change["left"]]
    why = f", {change['reason']}" if change["reason"] else ""
    return (
        f"set {members(change['sync_state_set'])} epoch {change['sync_state_set_epoch']}"
        f" ({' '.join(moved)}{why})"
    )
