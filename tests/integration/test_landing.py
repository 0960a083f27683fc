"""
The landing job as a process of its own, on a real Kafka, killed in mid-stream.

What it landed is then folded in Spark, as it is and with one byte changed.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from events.broker_events import BrokerEventHeader, HaLinkUp, RoleChanged
from events.codec import encode
from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC, TOPICS
from infra import jar_store
from infra.kafka_server import LocalKafka, create_topics
from lakehouse import delta_tables
from lakehouse.decisions import history, outcome_counts
from lakehouse.lake import Lake, open_lake
from lakehouse.log_probe import log_ends
from lakehouse.state_at import state_at
from lakehouse.status import LandingStatus, read_status, wait_for_landed
from lakehouse.tables import BRONZE, BY_NAME, DECISIONS, UNREADABLE
from lakehouse.verify import verify_in
from tests.support.control_history import NAME, History, seen, with_master
from tests.support.landed_log import flip_value_byte, outcome_records
from tests.support.spark_session import shared_session, stop_shared_session

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.processes, pytest.mark.timeout(600)]

WAIT_S = 240
ALTERATIONS = 150
EVENTS = 400
# Produced before the first job has landed anything; the rest comes while jobs die and start.
PRODUCED_AT_ONCE = 30
GARBAGE = b"not a record"


@dataclass
class Workload:
    """Everything that is produced, and the thread that goes on producing while jobs die."""

    bootstrap: str
    history: History = field(default_factory=lambda: long_history(ALTERATIONS))
    may_go_on: threading.Event = field(default_factory=threading.Event)
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap, "acks": "all"})
        outcomes = [value for *_, value in outcome_records(self.history.records)]
        producer.produce(OUTCOMES_TOPIC, GARBAGE)
        producer.produce(BROKER_EVENTS_TOPIC, GARBAGE, partition=3)
        for i in range(max(EVENTS, len(outcomes))):
            if i < len(outcomes):
                producer.produce(COMMANDS_TOPIC, self.history.records[i])
                producer.produce(OUTCOMES_TOPIC, outcomes[i])
            if i < EVENTS:
                producer.produce(BROKER_EVENTS_TOPIC, event(i), partition=i % 4)
            producer.poll(0)
            if i == PRODUCED_AT_ONCE:
                self.may_go_on.wait()
            if i > PRODUCED_AT_ONCE:
                # Spread over many batches; ends at once when the test does.
                self.stopped.wait(0.04)
        producer.flush()


def long_history(alterations: int) -> History:
    """A set whose slave leaves and comes back again and again."""
    history = with_master(1, 2, 3)
    for i in range(alterations):
        members = (1, 2) if i % 2 == 0 else (1, 2, 3)
        assert history.alter(members, seen(1), seen(2), seen(3)).accepted
    history.elect(-1, seen(1, alive=False), seen(2), seen(3), master_epoch=1)
    history.alter((1, 2, 3), seen(1), seen(2), seen(3), set_epoch=0)
    history.append(GARBAGE)
    return history


def event(number: int) -> bytes:
    header = BrokerEventHeader(number.to_bytes(16, "big"), "c", NAME, 1, "i1", number, number)
    if number % 2:
        return encode(HaLinkUp(header, 2, "out"))
    return encode(RoleChanged(header, "SLAVE", 1, 1, "notified"))


class Job:
    """One start of `regent land`."""

    def __init__(self, base: Path, bootstrap: str, name: str) -> None:
        self.tables, self.folder = base / "tables", base / "land"
        self.log = base / f"{name}.log"
        command = [
            sys.executable, "-m", "infra", "land", "--kafka", f"bootstrap.servers={bootstrap}",
            "--tables", str(self.tables), "--checkpoint-dir", str(self.folder / "checkpoints"), "--work-dir", str(self.folder),
            "--jars-dir", str(jar_store.check("spark")),
        ]  # fmt: skip
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)

    def wait_until(self, done: Callable[[LandingStatus], bool]) -> LandingStatus:
        """Wait for a status of this very start."""
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            status = read_status(self.folder)
            if status is not None and status.pid == self.process.pid and done(status):
                return status
            time.sleep(0.02)
        raise AssertionError(f"not within {WAIT_S} s: {self.log.read_text()[-3000:]}")

    def end(self, number: int) -> int:
        """Send a signal and wait for the end."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(120)


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lake, Workload, dict[str, int]]]:
    """Tables landed by a job that was killed in mid-stream and by its successor."""
    base = tmp_path_factory.mktemp("landing")
    with LocalKafka(base / "kafka") as kafka:
        topics = [NewTopic(t.name, t.partitions, 1, config=dict(t.created)) for t in TOPICS]
        create_topics(kafka.bootstrap, topics)
        workload = Workload(kafka.bootstrap)
        producing = threading.Thread(target=workload.run)
        producing.start()
        jobs = [Job(base, kafka.bootstrap, "first")]
        try:
            jobs[0].wait_until(lambda s: s.batches >= 1)
            workload.may_go_on.set()
            # Bronze is ahead of the other silver tables: this is in the middle of a batch.
            jobs[0].wait_until(
                lambda s: s.batches >= 3
                and s.landed.get("regent.commands-0", 0) > s.detailed.get("regent.commands-0", 0)
            )
            jobs[0].end(signal.SIGKILL)
            jobs.append(Job(base, kafka.bootstrap, "second"))
            producing.join()
            asked = {"bootstrap.servers": kafka.bootstrap}
            found = log_ends(asked, tuple(t.name for t in TOPICS))
            ends = {f"{topic}-{number}": ends.end for (topic, number), ends in found.items()}
            jobs[1].wait_until(lambda s: s.ready)
            wait_for_landed(jobs[1].folder, ends, WAIT_S * 1000)
            assert jobs[1].end(signal.SIGTERM) == 0, jobs[1].log.read_text()[-3000:]
            yield open_lake(jobs[1].tables), workload, ends
        finally:
            workload.stopped.set()
            workload.may_go_on.set()
            for job in jobs:
                job.end(signal.SIGKILL)
            producing.join()
            stop_shared_session()


def test_every_record_is_in_bronze_exactly_once(
    landed: tuple[Lake, Workload, dict[str, int]],
) -> None:
    lake, workload, ends = landed
    rows = delta_tables.read(lake, BRONZE).to_pylist()
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(f"{row['topic']}-{row['partition']}", []).append(row["offset"])
    assert found == {name: list(range(end)) for name, end in ends.items()}
    commands = [row["value"] for row in rows if row["topic"] == COMMANDS_TOPIC]
    assert commands == workload.history.records


def test_every_record_is_in_silver_exactly_once(
    landed: tuple[Lake, Workload, dict[str, int]],
) -> None:
    lake, workload, ends = landed
    decided = delta_tables.read(lake, DECISIONS, columns=["command_offset"])
    assert decided["command_offset"].to_pylist() == list(range(len(workload.history.records)))
    altered = delta_tables.read(lake, BY_NAME["silver/alter_sync_state_set"])
    assert altered.num_rows == ALTERATIONS + 2
    for kind in ("role_changed", "ha_link_up"):
        rows = delta_tables.read(lake, BY_NAME[f"silver/{kind}"]).to_pylist()
        assert len({row["event_id"] for row in rows}) == len(rows) == EVENTS // 2


def test_unreadable_records_stand_in_their_own_table(
    landed: tuple[Lake, Workload, dict[str, int]],
) -> None:
    lake, workload, _ = landed
    rows = delta_tables.read(lake, UNREADABLE).to_pylist()
    assert [(row["topic"], row["log_partition"], row["log_offset"]) for row in rows] == [
        (BROKER_EVENTS_TOPIC, 3, 0),
        (COMMANDS_TOPIC, 0, len(workload.history.records) - 1),
        (OUTCOMES_TOPIC, 0, 0),
    ]
    assert {row["value"] for row in rows} == {GARBAGE}


def test_questions_get_the_answers_of_the_log(
    landed: tuple[Lake, Workload, dict[str, int]],
) -> None:
    lake, workload, _ = landed
    folder = workload.history.folder
    assert state_at(lake)["digest"] == folder.digest.hex()
    counts = outcome_counts(lake)
    assert counts["decisions"] == len(workload.history.records)
    assert counts["refusals"] == {"SET_EPOCH_FENCED": 1, "UNREADABLE": 1}
    assert len(history(lake, NAME)["decisions"]) == counts["decisions"] - 3


def test_what_landed_is_proven_and_a_flipped_byte_is_named(
    landed: tuple[Lake, Workload, dict[str, int]],
) -> None:
    """Last in this module: it damages the tables."""
    lake, workload, _ = landed
    verdict = verify_in(shared_session(), lake)
    # The outcome that is no outcome is told; all others agree.
    assert verdict.verified_up_to == len(workload.history.records) - 1
    assert verdict.problems == [
        "regent.outcomes offset 0: unreadable: MalformedRecord: no single-object marker and fingerprint"
    ]
    flip_value_byte(lake, 77)
    verdict = verify_in(shared_session(), lake)
    assert (verdict.exit_code, verdict.first_mismatch, verdict.verified_up_to) == (1, 77, 76)
