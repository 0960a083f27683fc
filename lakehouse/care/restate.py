"""Delta's log says again what the files of a table hold: the way out of false statistics.

Responsible for one commit that lists each such file anew with the numbers of its own footer; no row
and no file is changed, and whoever reads an older version sees what stood there. Refuses to judge
whether the rows are right: that is the proof's business.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakehouse.errors import LakehouseError
from lakehouse.tables.commit_lock import CommitLocks
from lakehouse.tables.lake import Lake, open_delta
from lakehouse.tables.listed_files import ListedFile, footer_of, listed_files
from lakehouse.tables.specs import TableSpec
from lakehouse.tables.statistics import FooterFacts, as_delta_says, contradictions

OPERATION = "COMPUTE STATS"
_IN_COMMIT_TIMES = "delta.enableInCommitTimestamps"


@dataclass(frozen=True, slots=True)
class Restated:
    """What was done to a table that had such files."""

    table: str
    files: int
    version: int


def restate(lake: Lake, locks: CommitLocks, tables: Sequence[TableSpec]) -> Iterator[Restated]:
    """One commit for each table of which a file's statistics are false.

    Raises `LakehouseError` for an object store, whose files a reader's tool must list anew, and for
    a table that cannot be read.
    """
    if lake.folder is None:
        raise LakehouseError(
            f"{lake.root} is an object store: statistics are written anew in folders only; Spark's "
            "ANALYZE TABLE … COMPUTE DELTA STATISTICS does it there"
        )
    for table in tables:
        locks.also(table.name)
        with locks.held(table.name):
            opened = open_delta(lake, table)
            false = [
                (file, facts)
                for file in listed_files(lake, table, opened)
                if file.said and (facts := footer_of(file)) is not None
                if any(contradictions(file.said, facts))
            ]
            if false:
                version = opened.version() + 1
                timed = opened.metadata().configuration.get(_IN_COMMIT_TIMES) == "true"
                _commit(Path(lake.uri(table)), version, _actions(false, timed=timed))
                yield Restated(table.name, len(false), version)


def _actions(
    false: Sequence[tuple[ListedFile, FooterFacts]], *, timed: bool
) -> list[dict[str, Any]]:
    now_ms = time.time_ns() // 1_000_000
    made: dict[str, Any] = {"timestamp": now_ms, "operation": OPERATION, "operationParameters": {}}
    if timed:
        made["inCommitTimestamp"] = now_ms
    return [{"commitInfo": made}, *({"add": _add(file, facts)} for file, facts in false)]


def _add(file: ListedFile, facts: FooterFacts) -> dict[str, Any]:
    return {
        "path": file.listed,
        "partitionValues": dict(file.partition),
        "size": file.size_bytes,
        "modificationTime": file.modified_ms,
        "dataChange": False,
        "stats": json.dumps(as_delta_says(facts)),
    }


def _commit(table: Path, version: int, actions: Sequence[dict[str, Any]]) -> None:
    """The commit is there whole or not at all, and never in the place of another one."""
    place = table / "_delta_log" / f"{version:020}.json"
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    with part.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(one)}\n" for one in actions)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(part, place)
    except FileExistsError as error:
        raise LakehouseError(f"somebody else committed {place.name} of {table}") from error
    finally:
        part.unlink()
