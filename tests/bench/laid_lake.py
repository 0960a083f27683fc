"""A long control log as Delta tables, without Kafka: what proofs and questions are measured on.

Refuses to know what is measured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import deltalake
from msgspec.structs import replace

from events.codec import encode
from events.topics import COMMANDS_TOPIC, OUTCOMES_TOPIC
from lakehouse.landing import batches
from lakehouse.tables import delta, left_states
from lakehouse.tables.high_water import HighWater
from lakehouse.tables.lake import lake_at
from lakehouse.tables.left_states import LEFT_STATES
from lakehouse.tables.specs import BRONZE
from processors.fold import snapshot_codec
from processors.fold.folder import Folder
from processors.log.start import RECORDS_TOGETHER
from tests.bench.control_log import ControlLog
from tests.support.generated_lake import batch_of, land_batch

CLUSTER_ID, SETS = "cluster-1", 300
BEGAN_MS, EVERY_MS = 1_767_225_600_000, 100
AT_ONCE = 50_000
"""States are left where a batch ends: a whole number of batches lies between two."""


@dataclass(frozen=True, slots=True)
class Laid:
    """What lies there now; `fold_s`: folding the same bytes in memory, in bulk, on one core."""

    root: str
    commands: int
    fold_s: float


def lay(root: Path, commands: int, silver: bool, states: bool = False) -> Laid:
    """Commands and outcomes of so many commands; without silver only what a proof reads. With
    states also what the gold job leaves for proofs.
    """
    log, folder = ControlLog(), Folder()
    log.grow(commands, SETS)
    lake = lake_at(root, CLUSTER_ID)
    delta.ensure_tables(lake)
    delta.ensure_tables(lake, (LEFT_STATES,))
    for first in range(0, commands, AT_ONCE):
        values = log.records[first : first + AT_ONCE]
        outcomes = [_published(folder, offset, value) for offset, value in enumerate(values, first)]
        for topic, records in ((COMMANDS_TOPIC, values), (OUTCOMES_TOPIC, outcomes)):
            batch = batch_of(
                [
                    (topic, 0, at, BEGAN_MS + EVERY_MS * at, value)
                    for at, value in enumerate(records, first)
                ]
            )
            if silver:
                land_batch(lake, batch, first // AT_ONCE)
            else:
                mark = HighWater({(topic, 0): first - 1})
                rows = batches.bronze_rows(
                    CLUSTER_ID, batch, mark, first // AT_ONCE, datetime.now(UTC)
                )
                deltalake.write_deltalake(lake.uri(BRONZE), rows, mode="append")
        number, beyond = divmod(folder.next_offset, left_states.EVERY_COMMANDS)
        if states and not beyond:
            snapshot = snapshot_codec.dump(folder)
            left_states.leave(
                lake, left_states.EVERY_COMMANDS, {number - 1: snapshot}, datetime.now(UTC)
            )
    return Laid(str(root), commands, _folding(log.records))


def _published(folder: Folder, offset: int, value: bytes) -> bytes:
    at_ms = BEGAN_MS + EVERY_MS * offset
    outcome = folder.apply(offset, value).outcome
    return encode(
        replace(
            outcome,
            publisher="controller-1",
            published_at_ms=at_ms + 4,
            phases={"received": at_ms, "applied": at_ms + 3},
        )
    )


def _folding(records: Sequence[bytes]) -> float:
    folder, began = Folder(), time.perf_counter()
    for first in range(0, len(records), RECORDS_TOGETHER):
        folder.apply_many(first, records[first : first + RECORDS_TOGETHER])
    return time.perf_counter() - began
