"""Whether the tables know what the steps of the demo did: when slaves acted, and what left their
sets meanwhile.

Refuses to know: how that is told from facts (`lakehouse.gold.acting_periods`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import lakehouse
from infra.cluster.data_folder import DataFolder
from infra.problems import Problem
from lakehouse.errors import LakehouseError

BEGINS_WITHIN_MS = 15_000
"""Of a kill: a slave finds out within seconds (PROTOCOL 7.2)."""
PERIODS = """
SELECT broker_name, broker_id, since_ms, until_ms, master_back_ms, messages, why_begun, why_over
FROM gold.acting_periods ORDER BY since_ms
"""

Row = Mapping[str, Any]


def read_periods(folder: DataFolder) -> list[dict[str, Any]]:
    """Each time that a slave acted, as the tables have it. Problem when they cannot be read."""
    try:
        rows: list[dict[str, Any]] = lakehouse.open(folder.root).sql(PERIODS).to_arrow().to_pylist()
        return rows
    except LakehouseError as error:
        raise Problem(f"acting periods cannot be read: {error}", "") from error


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
            and 0 <= one["since_ms"] - step["at_ms"] <= BEGINS_WITHIN_MS
        ]
        if not own:
            wrong.append(f"no slave of {step['set']} is known to have acted")
        elif own[0]["until_ms"] is None:
            wrong.append(f"nothing says that the slave of {step['set']} acts no more")
        elif own[0]["master_back_ms"] is None:
            wrong.append(f"nothing says that the master of {step['set']} went online again")
        elif not own[0]["messages"]:
            wrong.append(f"nothing says that messages left {step['set']}")
    return wrong
