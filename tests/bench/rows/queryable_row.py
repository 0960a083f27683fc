"""From a command to rows in Delta that can be queried, in bronze and in decisions, with the landing
job at work.

The reader is a plain Delta reader: it follows the tables' own logs and opens the files they name.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from brokers.remoting.client import RemotingClient
from lakehouse.landing.config import LandConfig
from lakehouse.tables.delta import OpenTables, ensure_table, open_table
from lakehouse.tables.lake import Lake, lake_at, open_lake
from lakehouse.tables.specs import BRONZE, DECISIONS, TableSpec
from tests.bench import asker
from tests.bench.apart import apart
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure, at_most
from tests.bench.run_context import Bench
from tests.bench.samples import median, percentile

COMMANDS, WARM_UP = 40, 5
PAUSE_S = (0.3, 1.1)
POLL_S = 0.02
LIMIT_S = 60.0
CALL_MS = 5_000
APPENDS, APPENDS_WARM_UP = 24, 6
SEED = 7


class TableTail:
    """The rows that a table gains, one column of them."""

    def __init__(self, lake: Lake, table: TableSpec, column: str) -> None:
        self._table = open_table(lake, table)
        self._column = column
        self._seen = set(self._table.file_uris())

    def news(self) -> list[object]:
        """What was committed since the last look."""
        self._table.update_incremental()
        fresh = [path for path in self._table.file_uris() if path not in self._seen]
        self._seen.update(fresh)
        return [
            value
            for path in fresh
            for value in pq.read_table(path, columns=[self._column], partitioning=None)[
                self._column
            ].to_pylist()
        ]


async def watch(lake: Lake, controllers: list[str], count: int) -> list[float]:
    """Seconds from each command's request until both tables have it."""
    begun: dict[bytes, float] = {}
    seen: dict[bytes, set[str]] = {}
    done: dict[bytes, float] = {}
    bronze, decisions = TableTail(lake, BRONZE, "value"), TableTail(lake, DECISIONS, "command_id")
    client = RemotingClient()
    issuing = asyncio.create_task(_issue(client, controllers, count, begun))
    deadline = time.monotonic() + LIMIT_S + count * max(PAUSE_S)
    try:
        while len(done) < count:
            if time.monotonic() > deadline:
                raise BenchFailed(
                    f"{count - len(done)} of {count} commands did not become rows in time"
                )
            values = [bytes(value) for value in bronze.news() if value is not None]  # type: ignore[arg-type]
            ids = set(decisions.news())
            for command_id in [one for one in begun if one not in done]:
                places = seen.setdefault(command_id, set())
                if any(command_id in value for value in values):
                    places.add("bronze")
                if command_id.hex() in ids:
                    places.add("decisions")
                if len(places) == 2:
                    done[command_id] = time.monotonic() - begun[command_id]
            await asyncio.sleep(POLL_S)
        await issuing
    finally:
        issuing.cancel()
        await client.close()
    return [done[command_id] for command_id in begun]


async def _issue(
    client: RemotingClient, controllers: list[str], count: int, begun: dict[bytes, float]
) -> None:
    chance, me = random.Random(SEED), asker.applicant()
    for number in range(count):
        command_id = uuid.uuid4().bytes
        request = asker.question(me, number, command_id.hex())
        begun[command_id] = time.monotonic()
        answer = await client.call(controllers[number % len(controllers)], request, CALL_MS)
        if answer.code:
            raise BenchFailed(f"a decision was refused: {answer.code} {answer.remark}")
        await asyncio.sleep(chance.uniform(*PAUSE_S))


def bare_appends(home: Path) -> list[float]:
    """Seconds of single appends of one row, with nothing else at work."""
    lake = lake_at(home)
    ensure_table(lake, DECISIONS)
    opened, rows = OpenTables(lake), pa.Table.from_pylist([_row()], schema=DECISIONS.schema)
    times = []
    for _ in range(APPENDS):
        began = time.perf_counter()
        opened.append(DECISIONS, rows)
        times.append(time.perf_counter() - began)
    return times[APPENDS_WARM_UP:]


def _row() -> dict[str, object]:
    """A row with every column that must have a value."""
    values: dict[str, object] = {}
    for field in DECISIONS.schema:
        if not field.nullable:
            values[field.name] = (
                []
                if pa.types.is_list(field.type) or pa.types.is_map(field.type)
                else _filled(field.type)
            )
    return values


def _filled(kind: pa.DataType) -> object:
    if pa.types.is_boolean(kind):
        return True
    if pa.types.is_string(kind):
        return "bench"
    return b"bench" if pa.types.is_binary(kind) else 1


def measure(bench: Bench) -> list[Figure]:
    cluster = bench.cluster("landing", "--replicas", "2", "--controllers", "1")
    controllers, tables = cluster.controllers, open_lake(cluster.folder.tables)
    config = LandConfig.load(cluster.folder.config_of("land"))
    asyncio.run(watch(tables, controllers, WARM_UP))
    bench.say(f"{COMMANDS} commands, each awaited in bronze and in decisions")
    times = [round(one, 3) for one in asyncio.run(watch(tables, controllers, COMMANDS))]
    bench.quiet()
    bench.say("bare appends of one row, alone")
    bare = [round(one, 3) for one in apart(bare_appends, bench.folder("bare-append"))]
    note = (
        f"{len(times)} commands at random pauses of {PAUSE_S[0]} to {PAUSE_S[1]} s, request to the "
        "row being visible to a Delta reader in both tables, reader looks every "
        f"{POLL_S * 1000:.0f} ms; trigger {config.decisions_trigger_ms} ms; the peer is one append "
        "of one row, without Kafka, Spark, trigger and other tables"
    )
    common = {"samples": times, "details": {"peer_samples": bare}}
    return [
        Figure(
            "queryable-row",
            "command to queryable row, p50",
            "s",
            median(times),
            "one bare append, p50",
            median(bare),
            **common,
        ),
        Figure(
            "queryable-row",
            "command to queryable row, p95",
            "s",
            percentile(times, 0.95),
            "one bare append, p95",
            percentile(bare, 0.95),
            floor=at_most(5.0),
            goal=at_most(2.0),
            note=note,
            **common,
        ),
    ]
