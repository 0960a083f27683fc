"""Who in a lake remembers how far history reached: the check, gold, proofs, and silver.

Responsible for asking each of them. Refuses to judge (`invariants.lengths`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow.compute as pc
from deltalake import DeltaTable

from events.topics import COMMANDS_TOPIC
from lakehouse.errors import LakehouseError
from lakehouse.gold.progress import GOLD_PROGRESS, read_mark
from lakehouse.invariants import kept as kept_check
from lakehouse.invariants.check import check
from lakehouse.invariants.kept import CHECKED
from lakehouse.invariants.lengths import Witness
from lakehouse.invariants.report import Report
from lakehouse.proof.kept import PROVEN
from lakehouse.proof.known_names import KNOWN
from lakehouse.tables.delta import open_table, read
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import listed_files
from lakehouse.tables.specs import BRONZE, DECISIONS, TABLES, TableSpec

TABLES_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class LakeWitnesses:
    """See `lengths.Witnesses`; made before bronze is opened."""

    lake: Lake
    remembered: Sequence[Witness]

    def beyond(self, ends: Mapping[Partition, int]) -> list[Witness]:
        """Silver rows of records behind these ends. A table that cannot be read says nothing:
        whoever reads it is told.
        """
        silver = [table for table in TABLES if table is not BRONZE]
        with ThreadPoolExecutor(TABLES_AT_ONCE) as pool:
            found = list(pool.map(lambda table: _beyond(self.lake, table, ends), silver))
        return [one for witnesses in found for one in witnesses]


def witnesses(lake: Lake) -> LakeWitnesses:
    """What is remembered now."""
    return LakeWitnesses(lake, [*_of_check(lake), *_of_gold(lake), *_of_proofs(lake)])


def checked(lake: Lake, *, from_start: bool = False) -> Report:
    """The check of all that has landed, beside everybody who remembers how much that was. Raises
    `NotLanded`, `LakehouseError`.
    """
    return check(lake, from_start=from_start, witnesses=witnesses(lake))


def _of_check(lake: Lake) -> list[Witness]:
    return [
        Witness(*_place(name), end, CHECKED.name)
        for name, end in kept_check.reached(lake).items()
        if name.rpartition("-")[2].isdigit()
    ]


def _place(name: str) -> Partition:
    topic, _, partition = name.rpartition("-")
    return topic, int(partition)


def _of_gold(lake: Lake) -> list[Witness]:
    try:
        mark = read_mark(lake)
    except LakehouseError:
        return []
    if mark is None or not isinstance(mark.offset, int):
        return []
    return [Witness(COMMANDS_TOPIC, 0, mark.offset + 1, GOLD_PROGRESS.name)]


def _of_proofs(lake: Lake) -> list[Witness]:
    found = []
    for table, columns in (
        (KNOWN, ["topic", "partition", "end"]),
        (PROVEN, ["topic", "number", "size"]),
    ):
        try:
            rows = read(lake, table, columns=columns).drop_null().to_pylist()
        except LakehouseError:
            continue
        found += [
            Witness(
                row["topic"],
                row.get("partition", 0),
                row["end"] if "end" in row else (row["number"] + 1) * row["size"],
                table.name,
            )
            for row in rows
        ]
    return found


def _beyond(lake: Lake, table: TableSpec, ends: Mapping[Partition, int]) -> list[Witness]:
    try:
        opened = open_table(lake, table)
        found = _last(lake, table, opened, ends)
        if table is DECISIONS:
            found |= _last_decided(lake, opened, ends.get((COMMANDS_TOPIC, 0), 0))
        ahead = {place: end for place, end in found.items() if end > ends.get(place, 0)}
        if not ahead:
            return []
        written_ms = max((f.modified_ms for f in listed_files(lake, table, opened)), default=0)
    except LakehouseError:
        return []
    return [Witness(*place, end, table.name, written_ms) for place, end in ahead.items()]


def _last(
    lake: Lake, table: TableSpec, opened: DeltaTable, ends: Mapping[Partition, int]
) -> dict[Partition, int]:
    """Offsets behind the last records that rows are of, of partitions with rows behind the end of
    one.
    """
    lowest = min(
        (end for (topic, _), end in ends.items() if table.topic in (None, topic)), default=0
    )
    names = [table.partition_column, table.offset_column]
    columns = names if table.topic else ["topic", *names]
    behind = [(table.offset_column, ">=", lowest)]
    rows = read(lake, table, columns=columns, filters=behind, opened=opened)
    last = rows.group_by(columns[:-1]).aggregate([(names[-1], "max")]).to_pylist()
    return {
        (str(table.topic or row["topic"]), row[names[0]]): row[f"{names[-1]}_max"] + 1
        for row in last
    }


def _last_decided(lake: Lake, opened: DeltaTable, end: int) -> dict[Partition, int]:
    behind = [("command_offset", ">=", end)]
    rows = read(lake, DECISIONS, columns=["command_offset"], filters=behind, opened=opened)
    last = pc.max(rows["command_offset"]).as_py()
    return {} if last is None else {(COMMANDS_TOPIC, 0): int(last) + 1}
