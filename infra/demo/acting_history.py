"""What the tables know of the times that slaves acted, from the facts that brokers reported.

Responsible for: reading these facts, pairing begin and end, whether the demo's own steps are among
them. Refuses to know: how facts land.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import lakehouse
from infra.cluster.data_folder import DataFolder
from infra.cluster.plan import MASTER_ID
from infra.problems import Problem
from lakehouse.errors import LakehouseError

KINDS = ("acting_began", "acting_over", "pre_online_over", "master_expelled")
"""Tables of the silver layer."""
BEGINS_WITHIN_MS = 15_000
"""Of a kill: a slave finds out within seconds (PROTOCOL 7.2)."""

Row = Mapping[str, Any]
Events = Mapping[str, Sequence[Row]]


def read_events(folder: DataFolder) -> Events:
    """The rows of each kind, by time. Problem when they cannot be read."""
    try:
        lake = lakehouse.open(folder.root)
        return {
            kind: lake.sql(f"SELECT * FROM silver.{kind} ORDER BY at_ms").to_arrow().to_pylist()
            for kind in KINDS
        }
    except LakehouseError as error:
        raise Problem(f"what brokers reported cannot be read: {error}", "") from error


def periods(events: Events) -> list[dict[str, Any]]:
    """Each time that a slave acted: who, from when, for how long, and when the master was online
    after it began; None for what is not known.
    """
    return [
        {
            "broker_name": row["broker_name"],
            "broker_id": row["broker_id"],
            "began_ms": row["at_ms"],
            "for_ms": _after(row, events["acting_over"], row["broker_id"]),
            "online_ms": _after(row, events["pre_online_over"], MASTER_ID),
        }
        for row in events["acting_began"]
    ]


def _after(began: Row, rows: Iterable[Row], broker_id: int) -> int | None:
    """The ms from a begin to the first such fact of that broker behind it."""
    own = (
        row["at_ms"] - began["at_ms"]
        for row in rows
        if (row["broker_name"], row["broker_id"]) == (began["broker_name"], broker_id)
    )
    return min((ms for ms in own if ms >= 0), default=None)


def missing(found: Sequence[Row], steps: Iterable[Row]) -> list[str]:
    """What the steps did and the tables do not know, in words."""
    wrong = []
    for step in steps:
        if step["kind"] != "away":
            continue
        own = [
            one
            for one in found
            if one["broker_name"] == step["set"]
            and 0 <= one["began_ms"] - step["at_ms"] <= BEGINS_WITHIN_MS
        ]
        if not own:
            wrong.append(f"no slave of {step['set']} is known to have acted")
        elif own[0]["for_ms"] is None:
            wrong.append(f"nothing says that the slave of {step['set']} acts no more")
        elif own[0]["online_ms"] is None:
            wrong.append(f"nothing says that the master of {step['set']} went online again")
    return wrong
