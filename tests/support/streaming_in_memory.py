"""Streaming queries without Spark, over a log in memory: batches, checkpoints as Spark writes them,
and the end of a query that the log has overtaken.

Knows no rule of landing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehouse.landing.config import LandConfig
from lakehouse.landing.log_probe import LogEnds
from tests.support.landed_log import Record
from tests.support.landing_in_memory import Batch, DataLoss, Place


@dataclass
class StreamedLog:
    """A log that drops its beginning, and what is to happen before a query reads from it."""

    records: Sequence[Record]
    begins: dict[Place, int] = field(default_factory=dict)
    before_reading: list[Callable[[], None]] = field(default_factory=list)
    """Each is done once, in this order, before a query reads a batch."""
    started: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Each query that was started, and where it would begin without a checkpoint."""

    @property
    def ends(self) -> dict[Place, LogEnds]:
        """As Kafka tells them."""
        places = {record[:2]: record[2] + 1 for record in self.records}
        return {place: LogEnds(self.begins.get(place, 0), end) for place, end in places.items()}

    def query(
        self, spark: Any, config: LandConfig, name: str, take: Any, trigger_ms: int, at: str
    ) -> Query:
        """As `landing.job.start_query`."""
        self.started.append((name, json.loads(at)))
        return Query(self, Path(config.checkpoint_of(name).removeprefix("file:")), take, at)


@dataclass
class Query:
    """One query; it works while somebody waits for it to catch up."""

    log: StreamedLog
    checkpoint: Path
    take: Callable[[Any, int], None]
    at: str
    isActive: bool = True
    failure: Exception | None = None

    def processAllAvailable(self) -> None:
        """Raises what ended the query."""
        try:
            while self._batch():
                pass
        except Exception as error:
            self.failure, self.isActive = error, False
            raise

    def exception(self) -> Exception | None:
        return self.failure

    def stop(self) -> None:
        self.isActive = False

    def _batch(self) -> bool:
        if self.log.before_reading:
            self.log.before_reading.pop(0)()
        done = sorted(int(one.name) for one in self.checkpoint.glob("commits/*"))
        number = done[-1] + 1 if done else 0
        ends = json.loads(
            self._file("offsets", number - 1).read_text().splitlines()[-1] if done else self.at
        )
        batch = [one for one in self.log.records if one[2] >= ends[one[0]][str(one[1])]]
        for (topic, partition), one in self.log.ends.items():
            if ends[topic][str(partition)] < one.first:
                raise DataLoss(f"{topic}-{partition} at {ends[topic][str(partition)]}")
            ends[topic][str(partition)] = one.end
        self._file("offsets", number).write_text(f"v1\n{{}}\n{json.dumps(ends)}")
        self.take(Batch(batch), number)
        self._file("commits", number).write_text("v1\n{}")
        return bool(batch)

    def _file(self, kind: str, number: int) -> Path:
        (self.checkpoint / kind).mkdir(parents=True, exist_ok=True)
        return self.checkpoint / kind / str(number)
