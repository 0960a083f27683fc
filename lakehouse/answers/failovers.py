"""The answer to "which failovers were there, and what did they cost?", from gold rows.

Responsible for the summary over failovers and for words. Refuses to know where the rows come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lakehouse import wording
from lakehouse.answers.majority.terms import change_models, changes_text

Row = Mapping[str, Any]


def failovers_model(
    rows: Sequence[Row], broker_name: str | None, terms: Sequence[Row] = ()
) -> dict[str, Any]:
    """The failovers of a set, or of all (None), by time, with what they have in common; `terms`:
    rows of `gold/majority_terms`, of which changes of leader are told. Times in ms, sizes in bytes.
    """
    found = [dict(row) for row in rows if broker_name in (None, row["broker_name"])]
    found.sort(key=lambda row: (row["at_ms"], row["offset"]))
    changes = [one for one in change_models(terms) if broker_name in (None, one["broker_name"])]
    return {
        "broker_name": broker_name,
        "failovers": found,
        "summary": _summary(found),
        "changes_of_leader": changes,
    }


def failovers_text(model: Mapping[str, Any]) -> str:
    """One line for each failover; the phases too when one set was asked for."""
    head = (
        "time (UTC)",
        "set",
        "epoch",
        "master",
        "cause",
        "no master for",
        "messages stopped for",
        "cut off",
        "remarks",
    )
    rows = [_cells(row) for row in model["failovers"]]
    changes = [changes_text(model["changes_of_leader"])] if model["changes_of_leader"] else []
    if not rows:
        return "\n".join(changes) or f"no failover{_of(model)}"
    lines = [wording.text_table(head, rows), _summary_line(model)]
    if model["broker_name"] is not None:
        lines += [_phase_line(row) for row in model["failovers"] if row["phases"]]
    return "\n".join([*lines, *changes])


def percentile(values: Sequence[int], percent: int) -> int | None:
    """The smallest value that at least `percent` of the values do not exceed; None without
    values.
    """
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)] if ordered else None


def _summary(rows: Sequence[Row]) -> dict[str, Any]:
    measured = [row["unavailable_ms"] for row in rows if row["unavailable_ms"] is not None]
    return {
        "failovers": len(rows),
        "measured": len(measured),
        "unavailable_median_ms": percentile(measured, 50),
        "unavailable_p95_ms": percentile(measured, 95),
        "unavailable_longest_ms": max(measured, default=None),
        "truncated_bytes": sum(row["truncated_bytes"] for row in rows),
        "at_risk": sum("AT_RISK" in row["labels"] for row in rows),
    }


def _cells(row: Row) -> tuple[object, ...]:
    return (
        wording.moment(row["at_ms"]),
        row["broker_name"],
        f"{row['old_epoch']} -> {row['new_epoch']}",
        f"{row['old_master']} -> {row['new_master']}",
        row["cause"] or "-",
        wording.duration(row["masterless_ms"]),
        wording.duration(row["unavailable_ms"]),
        f"{row['truncated_bytes']} B",
        wording.labels(row["labels"]),
    )


def _summary_line(model: Mapping[str, Any]) -> str:
    found = model["summary"]
    line = f"{found['failovers']} failovers{_of(model)}"
    if found["measured"]:
        line += (
            "; from the last message of the old to the first acknowledged of the new master, of "
            f"{found['measured']}: median {wording.duration(found['unavailable_median_ms'])}, p95 "
            f"{wording.duration(found['unavailable_p95_ms'])}, longest "
            f"{wording.duration(found['unavailable_longest_ms'])} (time in which nobody sent is in "
            "it)"
        )
    if found["measured"] < found["failovers"]:
        line += f"; brokers did not report the messages of {found['failovers'] - found['measured']}"
    return line


def _phase_line(row: Row) -> str:
    began_ms = row["phases"][0]["at_ms"]
    steps = ", ".join(f"{one['phase']} +{one['at_ms'] - began_ms} ms" for one in row["phases"])
    return f"  epoch {row['new_epoch']}: {steps}"


def _of(model: Mapping[str, Any]) -> str:
    return "" if model["broker_name"] is None else f" of {model['broker_name']}"
