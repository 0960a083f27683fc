"""Durable decisions per second through Kafka and Faust, against a bare idempotent producer and
consumer on that Kafka.

A decision here is a registration that changes the state (1003): request on a real socket, command
in the log, fold, digest, answer, published outcome.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from brokers.membership import controller_messages
from brokers.remoting import codec
from events import topics
from events.producer import PRODUCER_SETTINGS
from infra.kafka import server
from infra.processes.ports import split_address
from tests.bench import pipelined
from tests.bench.apart import apart
from tests.bench.cluster import BenchFailed
from tests.bench.control_log import ControlLog
from tests.bench.figure import Figure, at_least, at_most
from tests.bench.own_set import call
from tests.bench.run_context import Bench
from tests.bench.samples import median

DECISIONS, ALONE, WINDOW, TURNS, SETS = 10_000, 300, 512, 2, 256
"""So many sets that none comes near its rate (`commandsPerSetPerSecond`)."""
TOPIC = "bench.bare"
POLL_S = 0.5
STALL_S = 30.0


def introduction(number: int) -> controller_messages.Introduction:
    return controller_messages.Introduction(
        "regent", f"bench-{number:02d}", "127.0.0.1:1", "127.0.0.1:2", "bench"
    )


def registrations(count: int, first: int) -> list[bytes]:
    """Frames of 1003, each with another end offset and command id, so that each changes the
    state.
    """
    frames = []
    for number in range(first, first + count):
        position = controller_messages.LogPosition(-1, number + 1, 0)
        me = introduction(number % SETS)
        request = controller_messages.register_broker(
            me, 1, position, True, uuid.uuid4().hex, 1_700_000_000_000
        )
        frames.append(codec.encode(request, opaque=pipelined.FIRST_OPAQUE + number))
    return frames


def decide_many(address: tuple[str, int], count: int, first: int) -> pipelined.Load:
    return pipelined.run(address, registrations(count, first), WINDOW)


def decide_alone(address: tuple[str, int], count: int, first: int) -> list[float]:
    return pipelined.one_by_one(address, registrations(count, first))


class BareLog:
    """One producer, one consumer, one partition: a record counts when it was read back."""

    def __init__(self, kafka: Mapping[str, str]) -> None:
        self._producer = Producer({**PRODUCER_SETTINGS, **kafka, "log_level": 0})
        reading = {
            "group.id": "bench-bare",
            ("enable.auto.commit"): "false",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        self._consumer = Consumer({**reading, **kafka})
        end = self._consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10)[1]
        self._consumer.assign([TopicPartition(TOPIC, 0, end)])

    def run(self, record: bytes, count: int, window: int) -> float:
        """Records/s with `window` under way."""
        began = heard = time.perf_counter()
        sent = read = 0
        while read < count:
            while sent < min(count, read + window):
                self._producer.produce(TOPIC, value=record, partition=0)
                sent += 1
            self._producer.poll(0)
            got = self._read(window)
            read += got
            heard = time.perf_counter() if got else heard
            if time.perf_counter() - heard > STALL_S:
                raise RuntimeError(f"nothing came back from the log for {STALL_S:.0f} s")
        return count / (time.perf_counter() - began)

    def _read(self, most: int) -> int:
        # One at a time is what the Python client is quickest in giving when few are there.
        messages = self._consumer.consume(
            1 if most == 1 else min(most, 64), POLL_S if most == 1 else 0.001
        )
        for message in messages:
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise RuntimeError(str(error))
        return sum(message.error() is None for message in messages)

    def close(self) -> None:
        self._consumer.close()


def bare(
    kafka: Mapping[str, str], record: bytes, count: int, alone: int
) -> tuple[list[float], list[float]]:
    """(records/s of each turn with the same window, ms of single records one after the other)."""
    log = BareLog(kafka)
    try:
        log.run(record, 100, 1)
        rates = [log.run(record, count, WINDOW) for _ in range(TURNS)]
        times = [1000 / log.run(record, 1, 1) for _ in range(alone)]
        return rates, times
    finally:
        log.close()


def _prepare(address: str) -> None:
    """The sets and ids that are then registered again and again."""
    for number in range(SETS):
        request = controller_messages.apply_broker_id(
            introduction(number), 1, "127.0.0.1:1;bench", uuid.uuid4().hex
        )
        answer = asyncio.run(call(address, request))
        if answer.code:
            raise BenchFailed(f"no broker id from the controller: {answer.code} {answer.remark}")


def _run_decisions(address: tuple[str, int]) -> tuple[list[float], list[float], int]:
    """(decisions/s of each turn, ms of single ones, answers that were no decision: the outcome was
    unknown in time).
    """
    times = apart(decide_alone, address, ALONE, 0)
    loads = [
        apart(decide_many, address, DECISIONS, turn * 1_000_000) for turn in range(1, TURNS + 1)
    ]
    return [load.good_per_s for load in loads], times, sum(sum(load.bad.values()) for load in loads)


def measure(bench: Bench) -> list[Figure]:
    cluster = bench.plain_cluster()
    cluster.wait_whole()
    address = cluster.active_controller()
    _prepare(address)
    bench.say(f"{TURNS} x {DECISIONS} decisions at {address}, {WINDOW} under way; {ALONE} alone")
    rates, times, unknown = _run_decisions(split_address(address))
    bench.say("the same number of records through a bare producer and consumer")
    spec = topics.COMMANDS
    made = NewTopic(TOPIC, num_partitions=1, replication_factor=1, config=dict(spec.created))
    server.create_topics(cluster.kafka["bootstrap.servers"], [made])
    bare_rates, bare_times = apart(bare, cluster.kafka, _record(), DECISIONS, ALONE)
    return figures(rates, times, bare_rates, bare_times, unknown)


def _record() -> bytes:
    """A command of usual size."""
    log = ControlLog()
    log.grow(64, 8)
    return sorted(log.records, key=len)[len(log.records) // 2]


def figures(
    rates: Sequence[float],
    times: Sequence[float],
    bare_rates: Sequence[float],
    bare_times: Sequence[float],
    unknown: int,
) -> list[Figure]:
    """The figures of the row from what was measured."""
    note = (
        f"median of {TURNS} turns of {DECISIONS}; one connection to the active controller, "
        f"{WINDOW} under way, one Kafka node; each changes the state and its outcome is published; "
        "the peer writes and reads records of that size, idempotent, acks=all, same window"
    )
    if unknown:
        note += (
            f"; {unknown} requests were answered with 'unknown' after the deadline and do not count"
        )
    return [
        Figure(
            "decisions",
            "durable decisions",
            "decisions/s",
            median(rates),
            "bare producer + consumer",
            median(bare_rates),
            floor=at_least(1_000),
            goal=at_least(5_000),
            note=note,
            samples=[round(one) for one in rates],
            details={"peer_samples": [round(one) for one in bare_rates]},
        ),
        Figure(
            "decisions",
            "one decision, unloaded, p50",
            "ms",
            median(times),
            "bare record, p50",
            median(bare_times),
            goal=at_most(5.0),
            note=(f"{len(times)} one after the other"),
            samples=[round(one, 2) for one in times],
        ),
    ]
