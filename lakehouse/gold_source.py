"""
What gold is made from, piece by piece: landed commands with what was published of them, and broker events.

Responsible for where a piece ends. A command counts once its outcome has landed too, so that it never
depends on the moment of a run what its rows say. Refuses to know what rows are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc

from events.topics import COMMANDS_TOPIC
from lakehouse.delta_tables import count_rows, milliseconds, open_table, read
from lakehouse.errors import LakehouseError
from lakehouse.gold_failovers import EVENT_KINDS, Events
from lakehouse.gold_fold import Published, Record, published_of
from lakehouse.lake import Lake
from lakehouse.tables import BRONZE, BY_NAME, DECISIONS

EVENT_TABLES = tuple(BY_NAME[f"silver/{kind}"] for kind in EVENT_KINDS)
PUBLISHED_COLUMNS = ("command_offset", "digest", "publisher", "published_at_ms", "phases")


@dataclass(frozen=True, slots=True)
class Piece:
    """Some commands in the order of the log, without a hole, each with what was published of it."""

    records: list[Record]
    published: Mapping[int, Published]


def next_piece(lake: Lake, after: int, count_max: int) -> Piece:
    """
    The commands behind offset `after`, at most `count_max`; none when nothing more is there yet.

    Raises `LakehouseError` when the very next command is missing although later ones have landed.
    """
    until = after + count_max
    window = [("command_offset", ">", after), ("command_offset", "<=", until)]
    rows = read(lake, DECISIONS, columns=PUBLISHED_COLUMNS, filters=window).to_pylist()
    published = published_of(rows)
    if not published and last_published(lake, after) is None:
        return Piece([], {})
    last = max(published, default=until)
    records = _without_hole(_commands(lake, after, last), after)
    return Piece(records, {offset: published[offset] for offset, _, _ in records if offset in published})


def last_published(lake: Lake, after: int) -> int | None:
    """Highest command offset above `after` whose outcome has landed, None without one."""
    found = read(lake, DECISIONS, columns=["command_offset"], filters=[("command_offset", ">", after)])
    last = pc.max(found["command_offset"]).as_py()
    return None if last is None else int(last)


def last_landed(lake: Lake, after: int) -> int | None:
    """Highest offset above `after` of a landed command, None without one."""
    filters = [("topic", "=", COMMANDS_TOPIC), ("offset", ">", after)]
    last = pc.max(read(lake, BRONZE, columns=["offset"], filters=filters)["offset"]).as_py()
    return None if last is None else int(last)


def failover_events(lake: Lake) -> dict[str, Events]:
    """All broker events that failovers rest on, as `failover_rows` wants them."""
    found = {kind: _rows(lake, kind) for kind in EVENT_KINDS}
    return {str(lake.cluster_id): found}


def count_events(lake: Lake) -> int:
    """How many broker events of these kinds have landed; these tables only grow."""
    return sum(count_rows(lake, table) for table in EVENT_TABLES)


def versions(lake: Lake) -> tuple[int, ...]:
    """Which commits of the tables read here are the last ones: while they stay, nothing is new."""
    return tuple(open_table(lake, table).version() for table in (BRONZE, DECISIONS, *EVENT_TABLES))


def _rows(lake: Lake, kind: str) -> list[dict[str, Any]]:
    return read(lake, BY_NAME[f"silver/{kind}"]).to_pylist()


def _commands(lake: Lake, after: int, last: int) -> list[Record]:
    filters = [("topic", "=", COMMANDS_TOPIC), ("partition", "=", 0), ("offset", ">", after), ("offset", "<=", last)]
    rows = read(lake, BRONZE, columns=["offset", "timestamp", "value"], filters=filters)
    columns = (rows["offset"].to_pylist(), milliseconds(rows["timestamp"]), rows["value"].to_pylist())
    return list(zip(*columns, strict=True))


def _without_hole(records: list[Record], after: int) -> list[Record]:
    found: list[Record] = []
    for record in records:
        expected = after + 1 + len(found)
        if record[0] == expected:
            found.append(record)
        elif record[0] > expected:
            if not found:
                raise LakehouseError(f"command {expected} never landed: gold ends before it, see 'regent lake check'")
            break
    return found
