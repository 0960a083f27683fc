"""Landing jobs under load on a Kafka of their own, hit again and again; after each hit the tables
must be the log.

Responsible for: the stage, the runs of each line and their verdict. Refuses to know: what a line
does (landing_lines.py).
"""

from __future__ import annotations

import random
import signal
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from events.topics import COMMANDS_TOPIC
from infra.kafka.server import LocalKafka, wait_ready
from lakehouse.care.maintain import lake_locks, maintain
from lakehouse.landing.status import missing_offsets
from lakehouse.tables.lake import lake_at
from tests.chaos.hits import NotAsItShouldBe, NotPossible, told_in
from tests.chaos.progress import Progress
from tests.chaos.verdict import Row, Run
from tests.support.landing_stage import (
    CARE_EVERY_S,
    Job,
    Load,
    differences,
    ends_of,
    long_history,
    make_topics,
    whole_log,
)
from tests.support.small_disk import SmallDisk, small_disk

if TYPE_CHECKING:
    from tests.chaos.landing_lines import LandingLine

ABOUT = (
    "after each run bronze and every silver table are compared with the topics, record for record; "
    "ACKNOWLEDGED: records in the log"
)
RECORDS_PER_FEED = 60
FEEDS_PER_RUN = 6
PAUSE_S = 0.01
DISK_BYTES = 256 << 20


class LandingStage:
    """One log, one lake, and at most one job at a time. `disk` is that of the tables, None where
    none may be mounted.
    """

    def __init__(self, home: Path, kafka: LocalKafka, load: Load, disk: SmallDisk | None) -> None:
        self.kafka, self.disk = kafka, disk
        self.chance = random.SystemRandom()
        self._home, self._load = home, load
        self._tables = (disk.root if disk else home) / "tables"
        self._jobs = 0
        self._fed = 0
        self._job: Job | None = None

    @property
    def checkpoints(self) -> Path:
        return self._home / "land" / "checkpoints"

    def feed(self) -> None:
        """So many more records of each kind come, one after the other."""
        self._fed += RECORDS_PER_FEED
        self._load.allow(self._fed)

    def has_landed(self) -> bool:
        """Whether the job that runs says that bronze holds all that was fed."""
        status = self._job.status if self._job is not None else None
        return status is not None and status.landed.get(f"{COMMANDS_TOPIC}-0", 0) >= self._fed

    def begin(self, dies_at: tuple[str, str, int] | None = None) -> Job:
        """Another start of the job; none must run."""
        self._jobs += 1
        self._job = Job(
            self._home,
            self.kafka.bootstrap,
            f"job-{self._jobs}",
            dies_at,
            self._tables,
            CARE_EVERY_S,
        )
        return self._job

    def running(self) -> Job:
        """The job that runs, begun if none does."""
        return (
            self._job
            if self._job is not None and self._job.process.poll() is None
            else self.begin()
        )

    def end(self) -> None:
        """Stop it in order, if one runs."""
        if self._job is not None and self._job.process.poll() is None:
            self._job.wait_until(lambda status: status.batches >= 1 or status.ready)
            if self._job.end(signal.SIGTERM):
                raise NotAsItShouldBe(
                    f"asked to stop it ended with {self._job.process.returncode}: "
                    f"{self._job.said[-200:]}"
                )

    def kill(self) -> None:
        """End it at once."""
        if self._job is not None:
            self._job.end(signal.SIGKILL)

    def wait_kafka(self) -> None:
        wait_ready(self.kafka.bootstrap, len(self.kafka.nodes), lambda: None)

    def care(self, window_days: float) -> tuple[int, int, int]:
        """Merge files and remove old ones: how many there were, are, and were removed."""
        lake = lake_at(self._tables)
        locks = lake_locks(lake)
        try:
            done = list(maintain(lake, locks, window_days))
        finally:
            locks.close()
        problem = next((one.problem for one in done if one.problem), None)
        if problem:
            raise NotAsItShouldBe(f"care of tables: {problem}")
        return (
            sum(one.files_before for one in done),
            sum(one.files_after for one in done),
            sum(one.files_vacuumed for one in done),
        )

    def judge(self, run: Run) -> None:
        """Some job lands what is there; then the tables must be the log."""
        self._load.wait_fed(self._fed)
        self._land_all(ends_of(self.kafka.bootstrap))
        log = whole_log(self.kafka.bootstrap)
        run.acknowledged = len(log)
        wrong = differences(self._tables, log)
        run.lost = sum(" lacks " in one for one in wrong)
        run.duplicated = sum(" too many" in one for one in wrong)
        run.problem = run.problem or ("; ".join(wrong) or None)

    def _land_all(self, ends: dict[str, int]) -> None:
        """Until everything has landed; a job that ends because of what hit it is begun once
        more.
        """
        for again in (True, False):
            job = self.running()
            try:
                job.wait_until(lambda status: not missing_offsets(status, ends))
                return
            except AssertionError:
                if not again or job.process.poll() is None:
                    raise


def play_landing(
    picked: Sequence[LandingLine], home: Path, runs: int | None, rows: list[Row], progress: Progress
) -> None:
    """Add a row for each line."""
    total = sum(runs or line.runs for line in picked)
    with ExitStack() as held:
        kafka = held.enter_context(LocalKafka(home / "landing-kafka"))
        make_topics(kafka.bootstrap)
        history = long_history(total * FEEDS_PER_RUN * RECORDS_PER_FEED)
        load = held.enter_context(Load(kafka.bootstrap, history, PAUSE_S))
        stage = LandingStage(home / "landing", kafka, load, _disk(held, home / "landing-disk"))
        (home / "landing").mkdir()
        held.callback(stage.kill)
        for line in picked:
            progress.begins(line.name, line.text)
            rows.append(Row(line.name))
            _play(line, stage, runs or line.runs, rows[-1])
            progress.ended(rows[-1])


def _play(line: LandingLine, stage: LandingStage, runs: int, row: Row) -> None:
    for _ in range(runs):
        run = Run()
        try:
            with told_in(run):
                stage.feed()
                run.note = line.strike(stage)
                stage.judge(run)
        except NotPossible as wanting:
            row.skipped = str(wanting)
            return
        row.runs.append(run)
        if run.problem:
            return


def _disk(held: ExitStack, folder: Path) -> SmallDisk | None:
    try:
        return held.enter_context(small_disk(folder, DISK_BYTES))
    except pytest.skip.Exception:
        return None
