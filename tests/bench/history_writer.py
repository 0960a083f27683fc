"""A long history on a real log: commands that change the state, and the newest outcome, as a
cluster that lived long has them.

Each command is a registration with another end offset, over many sets of three. Everything is
folded while it is written, so that the outcome at its end has the right digest and the time of
folding is known. Refuses to know what reads it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from events import topics
from events.codec import COMMAND_FINGERPRINTS, encode
from events.commands import ApplyBrokerId, ClaimLeadership, ClusterFormed, Command, RegisterBroker
from events.envelope import Envelope
from events.outcomes import Outcome
from events.producer import PRODUCER_SETTINGS
from infra.kafka import server
from processors.fold.folder import Folder
from processors.fold.rules import RULES_VERSION

CLUSTER_ID = "bench-history"
SETS, MEMBERS = 300, (1, 2, 3)
QUEUE_RECORDS = 200_000
WRITTEN_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Written:
    """What the log holds now. Times in seconds, sizes in bytes."""

    records: int
    fold_s: float
    record_bytes: float


def write(kafka: Mapping[str, str], records: int) -> Written:
    """Create the topics and fill `regent.commands` with that many records."""
    server.create_topics(
        kafka["bootstrap.servers"],
        [
            NewTopic(
                spec.name,
                num_partitions=spec.partitions,
                replication_factor=1,
                config=dict(spec.created),
            )
            for spec in (topics.COMMANDS, topics.OUTCOMES)
        ],
        {key: value for key, value in kafka.items() if key != "bootstrap.servers"},
    )
    producer = Producer(
        {
            **PRODUCER_SETTINGS,
            **kafka,
            "linger.ms": 20,
            ("queue.buffering.max.messages"): QUEUE_RECORDS,
        }
    )
    folder, fold_s, size = Folder(), 0.0, 0
    last: Outcome | None = None
    commands = _commands(folder)
    for offset in range(records):
        data = encode(next(commands))
        size += len(data)
        began = time.perf_counter()
        last = folder.apply(offset, data).outcome
        fold_s += time.perf_counter() - began
        _produce(producer, topics.COMMANDS_TOPIC, data)
    assert last is not None and last.accepted, last
    _produce(producer, topics.OUTCOMES_TOPIC, encode(last))
    if producer.flush(WRITTEN_WITHIN_S):
        raise RuntimeError(f"Kafka did not take the history within {WRITTEN_WITHIN_S:.0f} s")
    return Written(records, fold_s, size / records)


def _produce(producer: Producer, topic: str, data: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value=data, partition=0)
            producer.poll(0)
            return
        except BufferError:
            producer.poll(0.1)


def _commands(folder: Folder) -> Iterator[Command]:
    number = 0

    def envelope() -> Envelope:
        nonlocal number
        number += 1
        return Envelope(
            command_id=number.to_bytes(16, "big"),
            cluster_id=CLUSTER_ID,
            term=folder.state.term,
            issuer="bench-writer",
            issued_at_ms=1_700_000_000_000 + number,
            cause="broker_request",
            requested_by="10.0.0.7:53122",
            applied_offset=folder.offset,
            applied_digest=folder.digest if folder.offset >= 0 else b"",
        )

    names = [f"history-{number:03d}" for number in range(SETS)]
    yield ClusterFormed(envelope(), RULES_VERSION, {}, COMMAND_FINGERPRINTS)
    yield ClaimLeadership(envelope(), 0, "bench-writer", "127.0.0.1:1", "0.1.0")
    for name in names:
        for member in MEMBERS:
            yield ApplyBrokerId(envelope(), "regent", name, member, f"10.0.1.{member}:10911;secret")
    turn = 0
    while True:
        turn += 1
        for name in names:
            for member in MEMBERS:
                address = f"10.0.1.{member}"
                yield RegisterBroker(
                    envelope(),
                    "regent",
                    name,
                    member,
                    f"{address}:10911",
                    f"{address}:10912",
                    f"i{member}",
                    True,
                    -1,
                    turn,
                )
