"""The landing job as a process of its own, on a real Kafka: killed in mid-stream, between a write
and its commit with the checkpoint then lost and the tables vacuumed, and at a moment of chance.

What it landed is then folded in Spark, as it is and with one byte changed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC, OUTCOMES_TOPIC
from infra.kafka.server import LocalKafka
from lakehouse.answers.decisions import history, outcome_counts
from lakehouse.answers.state_at import state_at
from lakehouse.care.maintain import lake_locks, maintain
from lakehouse.gold.progress import read_mark
from lakehouse.landing.silver_rows import LogRecord
from lakehouse.landing.status import LandingStatus
from lakehouse.proof.verify import verify_in
from lakehouse.tables import delta
from lakehouse.tables.lake import Lake, lake_at, open_lake
from lakehouse.tables.specs import BRONZE, BY_NAME, DECISIONS, UNREADABLE
from tests.support.control_history import NAME, History
from tests.support.landed_log import flip_value_byte
from tests.support.landing_points import AFTER_WRITE
from tests.support.landing_stage import (
    CARE_EVERY_S,
    GARBAGE,
    Job,
    Load,
    differences,
    long_history,
    make_topics,
    whole_log,
)
from tests.support.made_gold import bring_up, job_of, rows_of

pytestmark = [
    pytest.mark.spark,
    pytest.mark.kafka,
    pytest.mark.processes,
    pytest.mark.timeout(1_800),
]

ALTERATIONS = 150
# So many of each kind may come while each of the jobs runs, the first one in two portions; the last
# one gets the rest.
PORTIONS = (30, 40, 20, 30)
FEED = 5
"""And so many more whenever a job waits for a batch that nothing is left for."""


@dataclass(frozen=True)
class Landed:
    """Tables, and what stood in the log that they were landed from."""

    tables: Path
    history: History
    log: list[LogRecord]

    @property
    def lake(self) -> Lake:
        return open_lake(self.tables)


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory, own_kafka: LocalKafka) -> Iterator[Landed]:
    """Tables landed by three jobs that were killed and by their successor."""
    base = tmp_path_factory.mktemp("landing")
    make_topics(own_kafka.bootstrap)
    jobs: list[Job] = []
    made = long_history(ALTERATIONS)
    with Load(own_kafka.bootstrap, made) as load:
        try:
            _three_die(base, own_kafka.bootstrap, load, jobs)
            load.all_of_it()
            jobs.append(Job(base, own_kafka.bootstrap, "last", care_every_s=CARE_EVERY_S))
            # Gold is made beside landing, at its own pace.
            jobs[-1].wait_until(lambda _: _gold_is_at(jobs[-1].tables) > PORTIONS[0])
            jobs[-1].finish(own_kafka.bootstrap)
            yield Landed(jobs[-1].tables, made, whole_log(own_kafka.bootstrap))
        finally:
            for job in jobs:
                job.end(signal.SIGKILL)


def _gold_is_at(tables: Path) -> int:
    mark = read_mark(open_lake(tables))
    return -1 if mark is None else mark.offset


def _three_die(base: Path, bootstrap: str, load: Load, jobs: list[Job]) -> None:
    load.more(PORTIONS[0])
    jobs.append(Job(base, bootstrap, "first", care_every_s=CARE_EVERY_S))
    jobs[-1].wait_until(lambda s: s.batches >= 1)
    for pid in (jobs[-1].process.pid, jobs[-1].java_pid()):
        assert os.getpriority(os.PRIO_PROCESS, pid) == min(
            19, os.getpriority(os.PRIO_PROCESS, 0) + 10
        )
    load.more(PORTIONS[1])

    def in_the_middle(status: LandingStatus) -> bool:
        """Bronze is ahead of the other silver tables."""
        load.feed(jobs[-1], FEED)
        return status.batches >= 3 and status.landed.get(
            "regent.commands-0", 0
        ) > status.detailed.get("regent.commands-0", 0)

    jobs[-1].wait_until(in_the_middle)
    jobs[-1].end(signal.SIGKILL)

    load.more(PORTIONS[2])
    jobs.append(Job(base, bootstrap, "second", dies_at=(AFTER_WRITE, BRONZE.name, 1)))
    # A chance that it misses comes again with the next append, if there is one.
    jobs[-1].wait_dead_at(AFTER_WRITE, lambda: load.feed(jobs[-1], FEED))
    shutil.rmtree(jobs[-1].folder / "checkpoints")
    vacuumed = _cared_for(jobs[-1].tables)
    assert vacuumed[BRONZE.name] > 0, "the file that was written and not committed is still there"

    jobs.append(Job(base, bootstrap, "third", care_every_s=CARE_EVERY_S))
    jobs[-1].wait_until(lambda s: s.batches >= 1)
    load.more(PORTIONS[3])
    time.sleep(random.SystemRandom().random())
    jobs[-1].end(signal.SIGKILL)


def _cared_for(tables: Path) -> dict[str, int]:
    """Merge files and remove at once whatever no table names; the number of removed files by
    table.
    """
    lake = lake_at(tables)
    locks = lake_locks(lake)
    done = list(maintain(lake, locks, window_days=0))
    locks.close()
    assert not [one.problem for one in done if one.problem]
    return {one.table: one.files_vacuumed for one in done}


def test_every_record_is_in_bronze_and_in_its_silver_tables_exactly_once(landed: Landed) -> None:
    assert not differences(landed.tables, landed.log)
    assert [
        one.value for one in landed.log if one.topic == COMMANDS_TOPIC
    ] == landed.history.records
    decided = delta.read(landed.lake, DECISIONS, columns=["command_offset"])
    assert decided["command_offset"].to_pylist() == list(range(len(landed.history.records)))
    altered = delta.read(landed.lake, BY_NAME["silver/alter_sync_state_set"])
    assert altered.num_rows == ALTERATIONS + 2


def test_unreadable_records_stand_in_their_own_table(landed: Landed) -> None:
    lake = landed.lake
    rows = delta.read(lake, UNREADABLE).to_pylist()
    assert [(row["topic"], row["log_partition"], row["log_offset"]) for row in rows] == [
        (BROKER_EVENTS_TOPIC, 3, 0),
        (COMMANDS_TOPIC, 0, len(landed.history.records) - 1),
        (OUTCOMES_TOPIC, 0, 0),
    ]
    assert {row["value"] for row in rows} == {GARBAGE}


def test_questions_get_the_answers_of_the_log(landed: Landed) -> None:
    lake = landed.lake
    folder = landed.history.folder
    assert state_at(lake)["digest"] == folder.digest.hex()
    counts = outcome_counts(lake)
    assert counts["decisions"] == len(landed.history.records)
    assert counts["refusals"] == {"SET_EPOCH_FENCED": 1, "UNREADABLE": 1}
    assert len(history(lake, NAME)["decisions"]) == counts["decisions"] - 3


def test_gold_was_made_beside_by_jobs_that_died(landed: Landed, tmp_path: Path) -> None:
    mark = read_mark(landed.lake)
    assert mark is not None and mark.offset > PORTIONS[0]
    bring_up(job_of(landed.lake))
    again = lake_at(shutil.copytree(landed.tables, tmp_path / "again"), landed.lake.cluster_id)
    shutil.rmtree(f"{again.root}/gold")
    assert bring_up(job_of(again)) == len(landed.history.records)
    assert rows_of(landed.lake) == rows_of(again)


def test_what_landed_is_proven_and_a_flipped_byte_is_named(landed: Landed, spark: Any) -> None:
    """Last in this module: it damages the tables."""
    lake = landed.lake
    verdict = verify_in(spark, lake)
    # The outcome that is no outcome is told; all others agree.
    assert verdict.verified_up_to == len(landed.history.records) - 1
    assert verdict.problems == [
        (
            "regent.outcomes offset 0: unreadable: MalformedRecord: no single-object marker and "
            "fingerprint"
        )
    ]
    flip_value_byte(lake, 77)
    verdict = verify_in(spark, lake)
    assert (verdict.exit_code, verdict.first_mismatch, verdict.verified_up_to) == (1, 77, 76)
