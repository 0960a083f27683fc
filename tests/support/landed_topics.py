"""The topics of a running cluster as Delta tables, landed at once and without Spark.

Refuses to know what is in them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from events.codec import decode
from events.commands import ClusterFormed
from events.topics import COMMANDS_TOPIC, TOPICS
from lakehouse.landing.log_probe import log_ends
from lakehouse.tables import delta
from lakehouse.tables.lake import Lake, lake_at
from tests.support.generated_history import TimedRecord
from tests.support.generated_lake import batch_of, land_batch

WAIT_S = 60.0


def land_records(root: Path, records: Sequence[TimedRecord], cluster_id: str | None = None) -> Lake:
    """All of these, by topic, partition and offset, in a new lake at `root`. `cluster_id`: where no
    controller has formed the cluster.
    """
    lake = lake_at(root, cluster_id or _formed(records))
    delta.ensure_tables(lake)
    for number, (_, batch) in enumerate(groupby(records, key=lambda one: one[:2])):
        land_batch(lake, batch_of(list(batch)), number)
    return lake


def _formed(records: Sequence[TimedRecord]) -> str:
    """The cluster that record 0 of the commands forms."""
    first = (COMMANDS_TOPIC, 0)
    formed = decode(
        next(value for topic, _, offset, _, value in records if (topic, offset) == first)
    )
    assert isinstance(formed, ClusterFormed)
    return formed.envelope.cluster_id


def whole_topics(bootstrap: str) -> list[TimedRecord]:
    """Every record that the log holds now, by topic, partition and offset."""
    ends = log_ends({"bootstrap.servers": bootstrap}, [spec.name for spec in TOPICS])
    left, found = sum(one.end - one.first for one in ends.values()), []
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "regent-test", ("enable.auto.commit"): False}
    )
    try:
        consumer.assign(
            [TopicPartition(topic, number, one.first) for (topic, number), one in ends.items()]
        )
        until = time.monotonic() + WAIT_S
        while len(found) < left:
            assert time.monotonic() < until, f"{left - len(found)} records of the log did not come"
            for one in consumer.consume(10_000, 0.5):
                assert one.error() is None, one.error()
                found.append(
                    (one.topic(), one.partition(), one.offset(), one.timestamp()[1], one.value())
                )
                until = time.monotonic() + WAIT_S
    finally:
        consumer.close()
    return sorted(found, key=lambda one: one[:3])
