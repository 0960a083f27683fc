"""The answer to "how long could each set take messages?", from gold rows.

Responsible for adding days up and for words. Refuses to know where the rows come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_DOWN, Decimal
from typing import Any

from lakehouse import wording

Row = Mapping[str, Any]

ADDED = ("observed_ms", "masterless_ms", "unavailable_ms", "failovers", "unmeasured", "acting_ms")
ACTING_HEAD = "a slave acted for"
HEAD = (
    "day (UTC)",
    "available",
    "in service",
    "no master for",
    "unavailable for",
    "longest gap",
    "failovers",
)


def availability_model(rows: Sequence[Row], broker_name: str | None) -> dict[str, Any]:
    """Each set with its days and their sum; all sets when none is named. Times in ms."""
    by_set: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if broker_name in (None, row["broker_name"]):
            by_set.setdefault((row["cluster_id"], row["broker_name"]), []).append(row)
    sets = [
        {
            "cluster_id": key[0],
            "broker_name": key[1],
            "total": _total(by_set[key]),
            "days": _days(by_set[key]),
        }
        for key in sorted(by_set)
    ]
    return {
        "broker_name": broker_name,
        "sets": sets,
        "total": _total([row for found in by_set.values() for row in found]),
    }


def availability_text(model: Mapping[str, Any]) -> str:
    """A table for each set, one line a day."""
    if not model["sets"]:
        return "no set has had a master"
    blocks = [_set_text(one) for one in model["sets"]]
    if len(model["sets"]) > 1:
        blocks.append(
            f"all {len(model['sets'])} sets: {percent(model['total']['availability'])} available"
        )
    unmeasured = model["total"]["unmeasured"]
    notes = [
        (
            "unavailable: without a master, or between the last message of one and the first "
            "acknowledged of the next; at most so long, because time in which nobody sent is in it"
        )
    ]
    if model["total"]["acting_ms"]:
        notes.append(
            "while a slave acted, clients of a set without controllers could read: nobody could "
            "write, which is counted as unavailable, of a master that stood still from when a name "
            "server heard it last"
        )
    if unmeasured:
        notes.append(
            f"of {unmeasured} failovers brokers did not report the messages: they count by the "
            "time without a master alone"
        )
    return "\n\n".join([*blocks, "\n".join(notes)])


def percent(share: float | None) -> str:
    """A share as percent, rounded down: only what is whole is called 100 %."""
    if share is None:
        return "-"
    return f"{(Decimal(repr(share)) * 100).quantize(Decimal('0.0001'), ROUND_DOWN).normalize():f} %"


def _total(rows: Sequence[Row]) -> dict[str, Any]:
    total: dict[str, Any] = {name: sum(row[name] or 0 for row in rows) for name in ADDED}
    total["availability"] = (
        1 - total["unavailable_ms"] / total["observed_ms"] if total["observed_ms"] else None
    )
    total["longest_gap_ms"] = max((row["longest_gap_ms"] for row in rows), default=0)
    return total


def _days(rows: Sequence[Row]) -> list[dict[str, Any]]:
    names = ("day", "availability", "longest_gap_ms", *ADDED)
    return [{name: row[name] for name in names} for row in sorted(rows, key=lambda row: row["day"])]


def _set_text(one: Mapping[str, Any]) -> str:
    rows = [(str(day["day"]), *_cells(day)) for day in one["days"]]
    if len(rows) > 1:
        rows.append(("all days", *_cells(one["total"])))
    head = (*HEAD, ACTING_HEAD) if one["total"]["acting_ms"] else HEAD
    rows = [row[: len(head)] for row in rows]
    return (
        f"{one['broker_name']}: {percent(one['total']['availability'])} available\n"
    ) + wording.text_table(head, rows, "  ")


def _cells(row: Row) -> tuple[object, ...]:
    return (
        percent(row["availability"]),
        _long(row["observed_ms"]),
        wording.duration(row["masterless_ms"]),
        wording.duration(row["unavailable_ms"]),
        wording.duration(row["longest_gap_ms"]),
        row["failovers"],
        wording.duration(row["acting_ms"]),
    )


def _long(ms: int) -> str:
    seconds = ms // 1000
    return (
        (f"{seconds // 3600} h {seconds % 3600 // 60:02d} min")
        if seconds >= 3600
        else f"{seconds // 60} min {seconds % 60:02d} s"
    )
