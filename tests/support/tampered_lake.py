"""What a person with an editor does to the files of bronze: Delta's log knows nothing of it. Knows
no rule.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from events.topics import COMMANDS_TOPIC
from lakehouse.tables import delta
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import BRONZE, TableSpec
from lakehouse.tables.statistics import as_delta_says, facts_of

Row = dict[str, Any]


def tamper(
    lake: Lake,
    topic: str,
    offset: int,
    change: Callable[[list[Row]], list[Row]],
    partition: int = 0,
    *,
    is_loose: bool = False,
) -> None:
    """Write the file that holds this record anew, with other rows of its partition; a loose file
    may lack values anywhere.
    """
    for file in delta.active_files(lake, BRONZE, "topic", (topic,))[topic]:
        path = file.removeprefix("file://")
        rows = pq.ParquetFile(path).read()
        mine = [row for row in rows.to_pylist() if row["partition"] == partition]
        if any(row["offset"] == offset for row in mine):
            others = [row for row in rows.to_pylist() if row["partition"] != partition]
            new = [*change(sorted(mine, key=lambda row: int(row["offset"]))), *others]
            fields = [one.with_nullable(True) if is_loose else one for one in rows.schema]
            pq.write_table(pa.Table.from_pylist(new, schema=pa.schema(fields)), path)
            return
    raise AssertionError(f"offset {offset} of {topic} is not in bronze")


def with_sizes_put_right(lake: Lake, table: TableSpec = BRONZE) -> None:
    """What Delta's log says of the files, sizes and statistics, is made what they are, as somebody
    does who knows Delta.
    """
    root = Path(lake.uri(table))
    for commit in (root / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
        for action in actions:
            path = root / unquote(action.get("add", {}).get("path", ""))
            if "add" in action and path.exists():
                action["add"]["size"] = path.stat().st_size
                stats = as_delta_says(facts_of(pq.read_metadata(path)))
                action["add"]["stats"] = json.dumps(stats)
        commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions), "utf-8")


def with_statistics(lake: Lake, table: TableSpec, stats: dict[str, Any]) -> None:
    """Delta's log says something else of the rows of each file."""
    for commit in (Path(lake.uri(table)) / "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
        for action in actions:
            if "add" in action:
                said = json.loads(action["add"]["stats"])
                for name, value in stats.items():
                    said[name] = said[name] | value if isinstance(value, dict) else value
                action["add"]["stats"] = json.dumps(said)
        commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions), "utf-8")


def with_times_moved(lake: Lake, by_ms: int) -> None:
    """Every file of every table was written at another time, by Delta's log."""
    for commit in Path(lake.root).glob("*/*/_delta_log/*.json"):
        actions = [json.loads(line) for line in commit.read_text("utf-8").splitlines()]
        for action in actions:
            if "add" in action:
                action["add"]["modificationTime"] += by_ms
        commit.write_text("".join(f"{json.dumps(action)}\n" for action in actions), "utf-8")


def renumbered(rows: list[Row]) -> list[Row]:
    """The rows as if they had landed one behind the other from offset 0 on."""
    return [row | {"offset": place} for place, row in enumerate(rows)]


def with_changed_byte(lake: Lake, at: int) -> None:
    """One bit of the last byte of a command."""

    def change(rows: list[Row]) -> list[Row]:
        value = rows[at]["value"]
        return [
            *rows[:at],
            rows[at] | {"value": value[:-1] + bytes([value[-1] ^ 1])},
            *rows[at + 1 :],
        ]

    tamper(lake, COMMANDS_TOPIC, at, change)


def with_missing_record(lake: Lake, at: int) -> None:
    """A command is gone, those behind it move up."""
    tamper(lake, COMMANDS_TOPIC, at, lambda rows: renumbered([*rows[:at], *rows[at + 1 :]]))


def with_inserted_record(lake: Lake, at: int) -> None:
    """A copy of the command before it stands at its place, the rest moves down."""
    tamper(
        lake, COMMANDS_TOPIC, at, lambda rows: renumbered([*rows[:at], rows[at - 1], *rows[at:]])
    )


def with_reordered_pair(lake: Lake, at: int) -> None:
    """A command and the next one change places."""
    tamper(
        lake,
        COMMANDS_TOPIC,
        at,
        lambda rows: renumbered([*rows[:at], rows[at + 1], rows[at], *rows[at + 2 :]]),
    )
