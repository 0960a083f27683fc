"""Start of a controller on a long history: without a snapshot (everything is folded), and with the
one of its last end.

The peers of the same run: a bare consumer that only reads those records, and the fold of the same
bytes in memory.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, TopicPartition

from events.topics import COMMANDS_TOPIC
from infra.kafka.server import LocalKafka
from tests.bench import history_writer
from tests.bench.apart import apart
from tests.bench.figure import Figure
from tests.bench.lone_controller import LoneController
from tests.bench.run_context import Bench

ROW = "controller-start"
READ_BATCH = 10_000
LIMIT_S = 1_800.0


def read_bare(kafka: Mapping[str, str], records: int) -> float:
    """Seconds for one consumer to read that many records and do nothing with them."""
    consumer = Consumer(
        {**kafka, "group.id": "bench-read", ("enable.auto.commit"): False, "log_level": 2}
    )
    try:
        consumer.assign([TopicPartition(COMMANDS_TOPIC, 0, 0)])
        began, read = time.monotonic(), 0
        while read < records:
            read += sum(message.error() is None for message in consumer.consume(READ_BATCH, 1.0))
            if time.monotonic() - began > LIMIT_S:
                raise RuntimeError(f"only {read} of {records} records within {LIMIT_S:.0f} s")
        return time.monotonic() - began
    finally:
        consumer.close()


def measure_one(bench: Bench, records: int) -> list[Figure]:
    """The two starts on a history of that many commands, on a Kafka of their own."""
    home = bench.folder(f"start-{records}")
    with LocalKafka(home / "kafka", 1) as kafka:
        settings = {"bootstrap.servers": kafka.bootstrap}
        bench.say(f"writing a history of {records:,} commands")
        written = apart(history_writer.write, settings, records)
        bench.say(
            f"written ({written.record_bytes:.0f} bytes each, folded in {written.fold_s:.1f} s); "
            "reading it bare"
        )
        bare_s = apart(read_bare, settings, records)
        controller = LoneController(home / "c1", settings, history_writer.CLUSTER_ID)
        times = []
        for what in ("without", "with"):
            with controller:
                times.append(controller.wait_applied(records - 1, LIMIT_S))
                bench.say(f"{what} a snapshot: {times[-1]:.2f} s")
    return figures(records, times[0], times[1], bare_s, written)


def figures(
    records: int, whole_s: float, snapshot_s: float, bare_s: float, written: history_writer.Written
) -> list[Figure]:
    """The figures of one length of history."""
    name = f"{records / 1_000_000:g} M commands"
    note = (
        f"process start to serving with all applied; {written.record_bytes:.0f} bytes a command, "
        f"{history_writer.SETS} sets of 3; folding the same bytes in memory took "
        f"{written.fold_s:.1f} s"
    )
    return [
        Figure(
            ROW, f"start, {name}, no snapshot", "s", whole_s, "reading alone", bare_s, note=note
        ),
        Figure(
            ROW,
            f"start, {name}, own snapshot",
            "s",
            snapshot_s,
            "the same without snapshot",
            whole_s,
            note="the snapshot was written at the orderly end; only what came after it is read",
        ),
    ]


def measure(bench: Bench) -> list[Figure]:
    bench.quiet()
    return measure_one(bench, 100_000)


def measure_long(bench: Bench) -> list[Figure]:
    bench.quiet()
    return [*measure_one(bench, 1_000_000), *measure_one(bench, 10_000_000)]
