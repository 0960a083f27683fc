"""Landing a long history: records a second against reading the topics alone, rows made against
decoding alone, bytes a command against the topics', and how long a command takes to be a row that
can be queried, at one a second and at a thousand.

One Kafka and one landing job serve all figures: first the job meets a backlog, then the same
history goes on live.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from events.codec import decode
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from infra.kafka.server import LocalKafka
from lakehouse.landing.log_probe import log_ends
from lakehouse.landing.silver_columns import typed_batch
from lakehouse.tables.delta import open_table
from lakehouse.tables.lake import Lake, lake_at
from lakehouse.tables.specs import BRONZE, COMMAND_TABLES, DECISIONS
from tests.bench.apart import apart
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure, at_most
from tests.bench.history_log import HistoryLog
from tests.bench.rows.queryable_row import TableTail
from tests.bench.run_context import Bench
from tests.bench.samples import percentile
from tests.support.generated_history import CLUSTER_ID, GeneratedHistory, generate
from tests.support.landing_stage import TOPIC_NAMES, Job, ends_of, make_topics

BACKLOG, SETS = 40_000, 50
RATES = ((1.0, 30), (1_000.0, 15_000))
"""Commands a second, and how many of them."""
SAMPLE = 60_000
"""Records of which rows are made without Kafka and tables."""
LIMIT_S = 900.0
POLL_S = 0.05
ORDERLY = 15


def read_alone(kafka: Mapping[str, str]) -> tuple[int, float]:
    """Records of the three topics, and seconds for one consumer to read them all and do nothing
    with them.
    """
    ends = log_ends(dict(kafka), TOPIC_NAMES)
    left = total = sum(one.end - one.first for one in ends.values())
    consumer = Consumer(
        {**kafka, "group.id": "bench-read", ("enable.auto.commit"): False, "log_level": 2}
    )
    try:
        consumer.assign(
            [TopicPartition(topic, number, one.first) for (topic, number), one in ends.items()]
        )
        began = time.monotonic()
        while left and time.monotonic() - began < LIMIT_S:
            left -= sum(message.error() is None for message in consumer.consume(10_000, 1.0))
        return total, time.monotonic() - began
    finally:
        consumer.close()


def rows_alone(records: Sequence[tuple[str, bytes]]) -> tuple[float, float]:
    """Seconds of one core to make the columns of these records (topic, value), and to decode them
    alone. The first time fills what is made when first needed.
    """
    batch = pa.table(
        {
            "topic": pa.array([topic for topic, _ in records], pa.string()),
            "value": pa.array([value for _, value in records], pa.binary()),
        }
    )
    typed_batch(batch)
    began = time.process_time()
    typed_batch(batch)
    made_s, began = time.process_time() - began, time.process_time()
    for _, value in records:
        decode(value)
    return made_s, time.process_time() - began


def _rows_rate(history: GeneratedHistory) -> Figure:
    step = max(1, sum(1 for _ in history.records()) // SAMPLE)
    sample = [(topic, value) for topic, *_, value in islice(history.records(), 0, None, step)]
    made_s, decoded_s = apart(rows_alone, sample)
    return Figure(
        "landing-rate",
        "rows of every silver table, one core",
        "records/s",
        len(sample) / made_s,
        "decoding alone",
        len(sample) / decoded_s,
        note=f"{len(sample)} records of all three topics, made by column; processor time",
    )


def measure(bench: Bench) -> list[Figure]:
    bench.quiet()
    home = bench.folder("landing-rate")
    bench.say(f"a history of {BACKLOG:,} commands and more")
    history = generate(BACKLOG + sum(count for _, count in RATES), SETS)
    with LocalKafka(home / "kafka", 1) as kafka:
        settings = {"bootstrap.servers": kafka.bootstrap}
        make_topics(kafka.bootstrap)
        log = HistoryLog(settings, history)
        log.write(BACKLOG)
        records, alone_s = apart(read_alone, settings)
        bench.say(f"{records:,} records, read alone in {alone_s:.1f} s; the landing job starts")
        job = Job(home, kafka.bootstrap, "land")
        try:
            took = _caught_up(job, kafka.bootstrap)
            lake = lake_at(job.tables, CLUSTER_ID)
            found = [_rows_rate(history), *_rates(records, *took, alone_s), *_sizes(home, lake)]
            for rate, count in RATES:
                bench.say(f"{count} commands at {rate:g}/s")
                found += _queryable(lake, log, rate, count)
        finally:
            job.end(ORDERLY)
    return found


def _caught_up(job: Job, bootstrap: str) -> tuple[float, float]:
    """Seconds from the first row until all of the log is in bronze and decisions, and until it is
    in all tables: Spark's start is not in it.
    """
    ends = ends_of(bootstrap)
    job.wait_until(lambda status: any(status.landed.values()), LIMIT_S)
    began = time.monotonic()
    job.wait_until(
        lambda status: all(status.landed.get(name, 0) >= end for name, end in ends.items()), LIMIT_S
    )
    first_s = time.monotonic() - began
    job.wait_until(
        lambda status: all(status.detailed.get(name, 0) >= end for name, end in ends.items()),
        LIMIT_S,
    )
    return first_s, time.monotonic() - began


def _rates(records: int, first_s: float, all_s: float, alone_s: float) -> list[Figure]:
    note = (
        f"{records} records of a generated history of {SETS} sets as a backlog, from the first "
        "batch to the last, Spark already up, gold made beside every second; the peer is one "
        "consumer that reads the same topics and does nothing"
    )
    peer = ("reading alone", records / alone_s)
    return [
        Figure(
            "landing-rate",
            "landing a backlog, bronze and decisions",
            "records/s",
            records / first_s,
            *peer,
            note=note,
        ),
        Figure(
            "landing-rate",
            "landing a backlog, every silver table",
            "records/s",
            records / all_s,
            *peer,
            note=note,
        ),
    ]


def _sizes(home: Path, lake: Lake) -> list[Figure]:
    note = (
        f"files as they stand after landing {BACKLOG} commands, compressed, not yet merged; the "
        "topic's segments as Kafka keeps them"
    )
    commands, outcomes, events = (
        _topic_bytes(home, topic) / BACKLOG
        for topic in (COMMANDS_TOPIC, OUTCOMES_TOPIC, BROKER_EVENTS_TOPIC)
    )
    silver = sum(_table_bytes(lake, table) for table in (*COMMAND_TABLES, DECISIONS)) / BACKLOG
    return [
        Figure(
            "landing-rate",
            "bronze, bytes a command",
            "B",
            _table_bytes(lake, BRONZE) / BACKLOG,
            "topics, events included",
            commands + outcomes + events,
            note=note,
        ),
        Figure(
            "landing-rate",
            "silver of commands and decisions, bytes a command",
            "B",
            silver,
            "topics of both",
            commands + outcomes,
            note=note,
        ),
    ]


def _topic_bytes(home: Path, topic: str) -> int:
    return sum(
        path.stat().st_size
        for path in (home / "kafka").rglob("*.log")
        if path.parent.name.rpartition("-")[0] == topic
    )


def _table_bytes(lake: Lake, table: object) -> int:
    sizes = open_table(lake, table).get_add_actions(flatten=True)  # type: ignore[arg-type]
    return int(sum(row for row in sizes["size_bytes"].to_pylist()))


def _queryable(lake: Lake, log: HistoryLog, rate: float, count: int) -> list[Figure]:
    tails = {
        "bronze": TableTail(lake, BRONZE, "value"),
        "decisions": TableTail(lake, DECISIONS, "command_offset"),
    }
    first = log.written
    handed: dict[int, float] = {}
    places: dict[bytes, list[int]] = {}
    for offset in range(first, first + count):  # A repeated command stands at several offsets.
        places.setdefault(log.history.commands[offset], []).append(offset)
    writing = threading.Thread(target=lambda: handed.update(log.write_at(rate, count)))
    seen: dict[str, dict[int, float]] = {name: {} for name in tails}
    writing.start()
    limit = time.monotonic() + count / rate + LIMIT_S
    while any(len(found) < count for found in seen.values()):
        if time.monotonic() > limit:
            raise BenchFailed(
                f"of {count} commands at {rate:g}/s so many became rows: "
                f"{ {name: len(found) for name, found in seen.items()} }"
            )
        for name, tail in tails.items():
            news, now = tail.news(), time.monotonic()
            offsets = (
                news
                if name == "decisions"
                else [at for one in news if one is not None for at in places.get(bytes(one), ())]
            )  # type: ignore[arg-type]
            for offset in offsets:
                if isinstance(offset, int) and first <= offset < first + count:
                    seen[name].setdefault(offset, now)
        time.sleep(POLL_S)
    writing.join()
    both = [
        max(found[offset] for found in seen.values()) - handed[offset] for offset in sorted(handed)
    ]
    note = (
        f"{count} commands and their outcomes appended to Kafka at {rate:g}/s, handed to the "
        f"producer until a Delta reader that looks every {POLL_S * 1000:.0f} ms sees the row in "
        "bronze and in decisions; gold, checks and care of the tables run beside as always"
    )
    return [
        Figure(
            "landing-rate",
            f"command to queryable row at {rate:g}/s, {name}",
            "s",
            round(percentile(both, share), 3),
            floor=at_most(5.0),
            goal=at_most(2.0),
            note=note,
        )
        for name, share in (("p50", 0.5), ("p95", 0.95))
    ]
