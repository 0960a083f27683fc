"""A real Kafka in which no controller ever wrote: what brokers and name servers of sets without
controllers told lands and is explained, and lands on when controllers come.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from infra.kafka.server import LocalKafka
from lakehouse.gold.specs import ACTING_PERIODS, ELECTIONS
from lakehouse.tables.lake import open_lake
from tests.support.acting_history import SET, one_period
from tests.support.control_history import CLUSTER_ID, NAME
from tests.support.landed_log import outcome_records
from tests.support.landing_stage import WAIT_S, Job, long_history, make_topics
from tests.support.local_cluster import regent
from tests.support.made_gold import bring_up, job_of, rows_of

pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.processes,
    pytest.mark.timeout(1_800),
]
NAMED = ("--cluster-id", CLUSTER_ID, "--without-controllers")


@pytest.fixture
def jobs() -> Iterator[list[Job]]:
    """Each of them ends with the test."""
    found: list[Job] = []
    yield found
    for job in found:
        job.end(signal.SIGKILL)


def put(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value, partition=0)
    producer.flush()


def asked(*words: str) -> str:
    done = regent(*words, limit_s=WAIT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_events_land_without_controllers_and_go_on_when_they_come(
    tmp_path: Path, own_kafka: LocalKafka, jobs: list[Job]
) -> None:
    bootstrap = own_kafka.bootstrap
    make_topics(bootstrap)
    put(bootstrap, BROKER_EVENTS_TOPIC, [value or b"" for *_, value in one_period().records()])
    jobs.append(Job(tmp_path, bootstrap, "first", more=NAMED))
    jobs[0].finish(bootstrap)
    tables = ("--tables", str(jobs[0].tables))
    told = asked("explain", SET, *tables)
    assert "broker 1 (127.0.0.1:10921) acted for the master" in told
    for verb in ("availability", "timeline", "forecast"):
        assert SET in asked(verb, SET, *tables)
    assert "sound: 0 decisions" in asked("lake", "check", *tables)
    assert "1" in asked("sql", "SELECT count(*) FROM acting_periods", *tables)

    history = long_history(8).records
    put(bootstrap, COMMANDS_TOPIC, history)
    put(bootstrap, OUTCOMES_TOPIC, [value or b"" for *_, value in outcome_records(history)])
    jobs.append(Job(tmp_path, bootstrap, "second"))
    jobs[1].finish(bootstrap)
    lake = open_lake(jobs[1].tables)
    assert lake.cluster_id == CLUSTER_ID
    bring_up(job_of(lake))
    rows = rows_of(lake)
    assert len(rows[ACTING_PERIODS.name]) == 1 and rows[ELECTIONS.name]
    assert asked("explain", SET, *tables) == told
    assert "epoch 1 began" in asked("explain", NAME, *tables)
