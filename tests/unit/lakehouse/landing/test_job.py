"""What ends a landing job before it lands anything, and how it says so (landing itself:
tests/integration).
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from events.topics import BROKER_EVENTS_TOPIC, COMMANDS_TOPIC
from lakehouse.care.maintain import lake_locks
from lakehouse.errors import LandingGap
from lakehouse.landing import job, log_probe, writer_lock
from lakehouse.landing.config import LandConfig
from lakehouse.landing.finished import DETAILS, FIRST
from lakehouse.landing.job import OWN_LOCK, Landing, land
from lakehouse.landing.status import StatusFile, read_status
from lakehouse.tables import delta
from lakehouse.tables.lake import Lake
from lakehouse.tables.losses import read_losses
from lakehouse.tables.specs import BRONZE
from tests.support.control_history import with_master
from tests.support.landed_log import Record, command_records
from tests.support.landing_in_memory import DataLoss
from tests.support.streaming_in_memory import StreamedLog


def test_tables_of_another_job_are_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = LandConfig(
        kafka={"bootstrap.servers": "none:1"},
        tables=str(tmp_path),
        checkpoint_dir=str(tmp_path),
        jars_dir=tmp_path,
        lock_wait_ms=0,
    )
    held = writer_lock.acquire(tmp_path / OWN_LOCK, 0, "it")
    try:
        assert land(config, threading.Event()) == 1
    finally:
        writer_lock.release(held)
    assert "written by another landing job" in caplog.text
    # The status is the other job's.
    assert read_status(tmp_path) is None


def test_what_stops_a_job_stands_in_its_status(tmp_path: Path) -> None:
    config = LandConfig(
        kafka={"bootstrap.servers": "none:1"},
        tables=str(tmp_path / "t"),
        checkpoint_dir=str(tmp_path),
        cluster_id="c",
        jars_dir=tmp_path,
    )
    assert land(config, threading.Event()) == 1
    status = read_status(tmp_path)
    assert status is not None
    assert "make setup" in (status.error or "")
    assert not status.ready


EVENTS, COMMANDS = (BROKER_EVENTS_TOPIC, 0), (COMMANDS_TOPIC, 0)
LOG: list[Record] = [
    *command_records(with_master(1, 2).records),
    *((*EVENTS, offset, b"x") for offset in range(10)),
]


class Stage:
    """A job over a log in memory: only Spark and Kafka are left out."""

    def __init__(self, lake: Lake, patch: pytest.MonkeyPatch) -> None:
        self.lake, self.log = lake, StreamedLog(LOG)
        self.told: list[str] = []
        patch.setattr(job, "start_query", self.log.query)
        patch.setattr(job, "_check_log", lambda config, lake, mark: None)
        patch.setattr(log_probe, "log_ends", lambda kafka, topics: self.log.ends)

    def run(self, **settings: Any) -> None:
        """Land until all of it has landed. Raises what ends the job."""
        config = LandConfig(
            kafka={"bootstrap.servers": "none:1"},
            tables=self.lake.root,
            checkpoint_dir=f"{self.lake.root}-land",
            jars_dir=Path("j"),
            gold_every_s=0,
            **settings,
        )
        stop, locks = threading.Event(), lake_locks(self.lake)
        landing = Landing(
            None, config, self.lake, locks, Ready(config.local_dir, stop), self.told.append
        )
        try:
            landing.until_stopped(stop, time.monotonic(), {})
        finally:
            stop.set()
            locks.close()

    def landed(self) -> list[int]:
        filters = [("topic", "=", EVENTS[0])]
        return delta.read(self.lake, BRONZE, columns=["offset"], filters=filters)[
            "offset"
        ].to_pylist()

    def noted(self) -> list[tuple[int, int]]:
        return [(one.from_offset, one.to_offset) for one in read_losses(self.lake).noted]


class Ready(StatusFile):
    """Asks the job to stop as soon as it is ready."""

    def __init__(self, directory: Path, stop: threading.Event) -> None:
        super().__init__(directory)
        self._stop = stop

    def update(self, **changes: Any) -> None:
        super().update(**changes)
        if changes.get("ready"):
            self._stop.set()


@pytest.fixture
def stage(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Stage:
    monkeypatch.setattr(job, "WATCH_S", 0.01)
    return Stage(lake, monkeypatch)


def nothing() -> None:
    pass


def test_a_job_begins_behind_what_the_log_dropped_while_it_was_away(stage: Stage) -> None:
    stage.log.records = [one for one in LOG if one[:2] != EVENTS or one[2] < 3]
    stage.run()
    stage.log.records, stage.log.begins = LOG, {EVENTS: 7}
    stage.run()
    assert (stage.landed(), stage.noted()) == ([0, 1, 2, 7, 8, 9], [(3, 6)])
    commands = len(LOG) - 10
    assert stage.log.started[-2:] == [
        (name, {COMMANDS[0]: {"0": commands}, EVENTS[0]: {"0": 7}}) for name in (FIRST, DETAILS)
    ], "what has landed is not read again"
    stage.run()
    assert (stage.landed(), stage.noted()) == ([0, 1, 2, 7, 8, 9], [(3, 6)])


@pytest.mark.parametrize("batches", range(4))
def test_a_job_that_the_log_overtakes_while_it_runs_notes_that_and_goes_on(
    stage: Stage, batches: int
) -> None:
    """Before its first batch, and after some of both queries."""
    stage.log.records = [one for one in LOG if one[:2] != EVENTS or one[2] < 3]

    def dropped() -> None:
        stage.log.records, stage.log.begins = LOG, {EVENTS: 7}

    stage.log.before_reading = [nothing] * batches + [dropped]
    stage.run()
    first = [] if batches == 0 else [0, 1, 2]
    assert stage.landed() == [*first, 7, 8, 9]
    assert stage.noted() == [(len(first), 6)]
    assert any("looking again" in one for one in stage.told)


def test_a_second_gap_while_the_first_is_being_noted_is_noted_next(stage: Stage) -> None:
    stage.log.begins = {EVENTS: 4}
    stage.log.before_reading = [lambda: stage.log.begins.update({EVENTS: 6})]
    stage.run()
    assert (stage.landed(), stage.noted()) == ([*range(6, 10)], [(0, 3), (4, 5)])


def test_another_failure_beside_a_gap_is_not_tried_for_ever(stage: Stage) -> None:
    def fail() -> None:
        raise OSError("no room")

    stage.log.before_reading = [nothing, fail]
    with pytest.raises(OSError, match="no room"):
        stage.run()
    assert not any("looking again" in one for one in stage.told)
    stage.log.before_reading = [lambda: stage.log.begins.update({EVENTS: 12}), fail]
    stage.log.records = [*LOG, *((*EVENTS, offset, b"x") for offset in range(10, 15))]
    with pytest.raises(OSError, match="no room"):
        stage.run()
    assert sum("looking again" in one for one in stage.told) == 1 and stage.noted() == [(10, 11)]


def test_commands_that_the_log_drops_while_a_job_runs_end_it_with_the_way_out(stage: Stage) -> None:
    stage.log.records = [one for one in LOG if one[:2] != COMMANDS or one[2] < 1]

    def dropped() -> None:
        stage.log.records, stage.log.begins = LOG, {COMMANDS: 2}

    stage.log.before_reading = [nothing, dropped]
    with pytest.raises(LandingGap, match="--accept-loss regent.commands/0:1-1"):
        stage.run()
    with pytest.raises(LandingGap, match="regent.commands/0:1-2 is another gap"):
        stage.run(accept_loss=["regent.commands/0:1-2"])
    stage.run(accept_loss=["regent.commands/0:1-1"])
    assert stage.noted() == [(1, 1)]


def test_a_kafka_that_does_not_answer_explains_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        monkeypatch.setattr(log_probe, "log_ends", away)
        raise DataLoss("?")

    def away(kafka: object, topics: object) -> None:
        raise log_probe.LakehouseError("Kafka does not tell its offsets")

    stage.log.before_reading = [fail]
    with pytest.raises(DataLoss):
        stage.run()
