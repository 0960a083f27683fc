"""A real Kafka drops records before they land: while the job is away, while it runs, and of a topic
that is kept for ever.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from infra.kafka.server import LocalKafka
from lakehouse.tables import delta
from lakehouse.tables.lake import open_lake
from lakehouse.tables.losses import read_losses
from lakehouse.tables.specs import ACCEPTED, BRONZE, RETENTION
from tests.support.kafka_topics import delete_records
from tests.support.landed_log import outcome_records
from tests.support.landing_stage import WAIT_S, Job, ends_of, event, long_history, make_topics
from tests.support.local_cluster import ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.processes,
    pytest.mark.timeout(1_800),
]
EVENTS = f"{BROKER_EVENTS_TOPIC}-0"


class Log:
    """What is produced, and what is dropped before anybody has read it."""

    def __init__(self, kafka: LocalKafka) -> None:
        self.bootstrap = kafka.bootstrap
        settings = {"bootstrap.servers": kafka.bootstrap, "log_level": 0}
        self._admin, self._producer = AdminClient(settings), Producer(settings)
        self._events = 0

    def put(self, topic: str, *values: bytes) -> None:
        for value in values:
            self._producer.produce(topic, value, partition=0)
        self._producer.flush()

    def events(self, count: int) -> None:
        self.put(BROKER_EVENTS_TOPIC, *(event(self._events + number) for number in range(count)))
        self._events += count

    def drop(self, topic: str, below: int) -> None:
        delete_records(self._admin, topic, below)


@pytest.fixture
def jobs() -> Iterator[list[Job]]:
    """Each of them ends with the test."""
    found: list[Job] = []
    yield found
    for job in found:
        job.end(signal.SIGKILL)


def noted(tables: Path) -> list[tuple[str, int, int, str]]:
    return [
        (one.topic, one.from_offset, one.to_offset, one.why)
        for one in read_losses(open_lake(tables)).noted
    ]


def landed(tables: Path, topic: str) -> list[int]:
    rows = delta.read(
        open_lake(tables), BRONZE, columns=["offset"], filters=[("topic", "=", topic)]
    )
    return rows["offset"].to_pylist()


def checked(job: Job) -> tuple[int, str]:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "infra", "lake", "check"),
            *("--tables", str(job.tables), "--work-dir", str(job.folder)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    return done.returncode, done.stdout


def test_what_kafka_drops_before_it_lands_is_noted_or_stops_the_job(
    tmp_path: Path, own_kafka: LocalKafka, jobs: list[Job]
) -> None:
    make_topics(own_kafka.bootstrap)
    log, history = Log(own_kafka), long_history(8).records
    outcomes = [value or b"" for *_, value in outcome_records(history)]

    def started(name: str, *flags: str) -> Job:
        jobs.append(Job(tmp_path, own_kafka.bootstrap, name, gold_every_s=0, more=flags))
        return jobs[-1]

    log.put(COMMANDS_TOPIC, *history[:6])
    log.put(OUTCOMES_TOPIC, *outcomes[:6])
    log.events(5)
    started("first").finish(own_kafka.bootstrap)

    # While no job runs.
    log.events(10)
    log.drop(BROKER_EVENTS_TOPIC, 9)
    job = started("second")
    job.wait_until(lambda status: status.ready)
    assert noted(job.tables) == [(BROKER_EVENTS_TOPIC, 5, 8, RETENTION)]

    # While it runs, and is held up.
    java = job.java_pid()
    job.process.send_signal(signal.SIGSTOP)
    os.kill(java, signal.SIGSTOP)
    log.events(10)
    log.drop(BROKER_EVENTS_TOPIC, 20)
    os.kill(java, signal.SIGCONT)
    job.process.send_signal(signal.SIGCONT)
    job.wait_until(lambda status: status.lost_records.get(EVENTS) == 9 and status.ready)
    log.events(1)
    job.finish(own_kafka.bootstrap)
    assert landed(job.tables, BROKER_EVENTS_TOPIC) == [*range(5), *range(9, 15), *range(20, 26)]
    assert noted(job.tables)[1:] == [(BROKER_EVENTS_TOPIC, 15, 19, RETENTION)]
    assert "\tat " not in job.log.read_text(), "Java's stack is in a file of its own"
    code, said = checked(job)
    assert code == 0 and f"noted loss: {EVENTS} offsets 5 to 8 never landed" in said
    assert "nothing lands: the landing job" in said and "its last stage: stopped" in said

    # Of what is kept for ever.
    log.put(COMMANDS_TOPIC, *history[6:])
    log.put(OUTCOMES_TOPIC, *outcomes[6:])
    log.drop(OUTCOMES_TOPIC, 8)
    job = started("third", "--accept-loss", f"{OUTCOMES_TOPIC}/0:6-8")
    assert job.process.wait(WAIT_S) == 1
    assert f"{OUTCOMES_TOPIC}-0: records 6 to 7 have not landed" in job.said
    assert f"--accept-loss {OUTCOMES_TOPIC}/0:6-8 is another gap" in job.said
    job = started("fourth", "--accept-loss", f"{OUTCOMES_TOPIC}/0:6-7")
    job.wait_until(lambda status: status.ready)
    job.finish(own_kafka.bootstrap)
    assert landed(job.tables, OUTCOMES_TOPIC) == [*range(6), *range(8, len(history))]
    assert landed(job.tables, COMMANDS_TOPIC) == [*range(len(history))]
    assert noted(job.tables)[2:] == [(OUTCOMES_TOPIC, 6, 7, ACCEPTED)]
    assert ends_of(own_kafka.bootstrap)[EVENTS] == 26
