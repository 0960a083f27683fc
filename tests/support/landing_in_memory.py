"""The landing job's two queries without Spark and Kafka: batches of a log in memory, and what their
checkpoints would say.

Responsible for where each query is, also after a process that was killed or a checkpoint that was
lost. Knows no rule of landing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from lakehouse.landing import appends
from lakehouse.landing.appends import Lander
from lakehouse.landing.finished import DETAILS, FIRST, Finished
from lakehouse.landing.late_schemas import LateSchemas
from lakehouse.landing.log_losses import Gap
from lakehouse.landing.source import must_begin_anew
from lakehouse.landing.status import StatusFile
from lakehouse.tables import delta
from lakehouse.tables.commit_lock import CommitLocks
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import TableSpec
from tests.support.landed_log import Record, batch_of

Place = tuple[str, int]


class Killed(Exception):
    """The process is gone."""


class DataLoss(Exception):
    """What Spark says of a query that the log has overtaken."""


class Batch:
    """What Spark hands to `foreachBatch`."""

    sparkSession = None

    def __init__(self, records: Sequence[Record]) -> None:
        self._rows = batch_of(records)

    def selectExpr(self, *_: str) -> Any:
        """All of its records are small."""
        sizes = pa.array([0] * self._rows.num_rows, pa.int32())
        return SimpleNamespace(toArrow=lambda: self._rows.append_column("record_bytes", sizes))


@dataclass
class Landing:
    """One cluster's landing over several lives of its job."""

    lake: Lake
    schemas: Path
    log: list[Record]
    patch: pytest.MonkeyPatch
    first_held: dict[Place, int] = field(default_factory=dict)
    """Where the log begins: what is below was taken by retention."""
    checkpoints: dict[str, dict[Place, int]] = field(default_factory=dict)
    """By query: next offset of each partition."""
    accepted: Collection[Gap] = ()
    """What the flag names."""
    meanwhile: Callable[[Landing], None] | None = None
    """Happens when losses are noted and nothing has begun yet."""
    start_at: dict[str, dict[Place, int]] = field(default_factory=dict)
    """By query: where it begins without a checkpoint."""
    appends_left: int | None = None
    """So many appends from now on the process is killed."""
    job: Lander = field(init=False)

    def __post_init__(self) -> None:
        plain = appends.append

        def append(
            spark: Any, lake: Lake, table: TableSpec, rows: pa.Table, tables: delta.OpenTables
        ) -> None:
            if self.appends_left is not None:
                if self.appends_left <= 0:
                    raise Killed
                self.appends_left -= 1
            plain(spark, lake, table, rows, tables)

        self.patch.setattr(appends, "append", append)
        self.begin()

    @property
    def places(self) -> list[Place]:
        return sorted({record[:2] for record in self.log})

    def begin(self) -> None:
        """A job starts, by what its predecessor left. Raises `Killed`."""
        told = {
            query: {f"{topic}-{number}": end for (topic, number), end in ends.items()}
            for query, ends in self.checkpoints.items()
        }
        self.job = Lander(
            self.lake,
            StatusFile(Path(self.lake.root)),
            CommitLocks(self.lake.folder, ()),
            LateSchemas((self.schemas,)),
            Finished(told),
        )
        self.job.prepare()
        begins = self.begins()
        self.job.note_losses(None, begins, self.accepted)
        if self.meanwhile is not None:
            self.meanwhile(self)
        self.job.refill(None, begins)
        self.start_at = {query: self.job.stands_at(query, begins) for query in (FIRST, DETAILS)}
        for query in (FIRST, DETAILS):
            if must_begin_anew(told.get(query, {}), begins):
                self.checkpoints.pop(query, None)
        self.job.read_again(None)

    def begins(self) -> dict[Place, int]:
        """Where the log begins now."""
        return {place: self.first_held.get(place, 0) for place in self.places}

    def end(self) -> None:
        self.job.close()

    def take(self, query: str, count: int) -> int:
        """Give the query up to `count` more records of each partition, and keep its checkpoint; how
        many records it were. Raises what it raises.
        """
        ends = dict(self.checkpoints.get(query, self.start_at[query]))
        batch: list[Record] = []
        for place in self.places:
            start = ends.get(place, 0)
            if start < self.first_held.get(place, 0):
                raise DataLoss(f"{place} at {start}")
            mine = [one for one in self.log if one[:2] == place and one[2] >= start][:count]
            ends[place] = mine[-1][2] + 1 if mine else start
            batch += mine
        landed = self.job.land_first if query == FIRST else self.job.land_details
        landed(Batch(batch), 0)
        self.checkpoints[query] = ends
        return len(batch)

    def catch_up(self) -> None:
        """Both queries, until nothing is left, and once more what can be read by now."""
        for query in (FIRST, DETAILS):
            while self.take(query, len(self.log)):
                pass
        self.job.read_again_if_learned(None)
        self.job.read_again(None)
