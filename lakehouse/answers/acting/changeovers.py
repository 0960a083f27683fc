"""When controllers adopted a set with fixed ids, and when they released it, as its brokers tell
(PROTOCOL 7.8).

Responsible for one entry for each changeover and its words. Refuses to know how a set changes over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lakehouse import wording
from lakehouse.gold.acting_periods import FIXED, changeovers
from lakehouse.gold.acting_story import Told

Row = Mapping[str, Any]
ADOPTED, RELEASED = "adopted", "released"


def changeover_models(told: Iterable[Told]) -> list[dict[str, Any]]:
    """Of one set, ascending. Times in ms since 1970-01-01 UTC; `replicas`: who told that it began
    anew, by id, with the time since the moment that counts.
    """
    told = list(told)
    return [_model(one.row, told) for one in changeovers(told)]


def _model(row: Row, told: Sequence[Told]) -> dict[str, Any]:
    own = [one.row for one in told if one.row.get("change") == row["change"]]
    replicas = [
        {
            "broker_id": each["broker_id"],
            "address": each["address"],
            "after_ms": each["at_ms"] - row["at_ms"],
        }
        for each in sorted(own, key=lambda each: int(each["broker_id"]))
    ]
    return {
        "at_ms": row["at_ms"],
        "what": RELEASED if row["kind"] == FIXED else ADOPTED,
        "change": row["change"],
        "leader": row["leader"],
        "epoch": row["epoch"] or None,
        "copies": row["copies"],
        "replicas": replicas,
    }


def headline(one: Row) -> str:
    """What it was, without the set's name."""
    if one["what"] == ADOPTED:
        return f"adopted by controllers: {one['leader']} gave up as master with a fixed id"
    return f"released by controllers: {one['leader']} leads with broker_id 0"


def changeover_text(broker_name: str, one: Row) -> str:
    """One of them, some lines."""
    places = ", ".join(f"{each['broker_id']} ({each['address']})" for each in one["replicas"])
    last_ms = max((each["after_ms"] for each in one["replicas"]), default=0)
    lines = [
        f"{broker_name}: {wording.moment(one['at_ms'])}: {headline(one)}",
        f"  ids:     {places}; the last one began anew {wording.duration(max(0, last_ms))} later",
        f"  copies:  {one['copies']} replicas hold what is acknowledged",
    ]
    if one["epoch"] is not None:
        lines.append(f"  epochs:  {one['epoch']} labels every byte of before")
    return "\n".join(lines)
