"""What can happen to a landing job and to its tables, each as a line of the report.

Refuses to know: how records are produced and how the tables are judged (landing_run.py).
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lakehouse.tables.specs import BRONZE, DECISIONS
from tests.chaos.hits import NotAsItShouldBe, NotPossible
from tests.chaos.landing_run import LandingStage
from tests.support.landing_points import AFTER_COMMIT, AFTER_WRITE, BEFORE_WRITE, POINTS

RUNS = 2
RANDOM_KILLS = 20
POLL_S = 0.05
LONGEST_LIFE_S = 5.0
KAFKA_AWAY_S = 8.0
FULL_S = 20.0
TEXTS = {
    BEFORE_WRITE: ("the job dies before it writes"),
    AFTER_WRITE: "the job dies when a file is written and not committed",
    AFTER_COMMIT: "the job dies when a commit is done and nothing else knows of it",
}


@dataclass(frozen=True, slots=True)
class LandingLine:
    """`strike` is one run under load and gives a note; afterwards some job must land all that the
    log holds.
    """

    name: str
    text: str
    strike: Callable[[LandingStage], str]
    runs: int = RUNS


def at_point(point: str, stage: LandingStage) -> str:
    """Bronze and decisions in turn."""
    stage.end()
    table = (BRONZE, DECISIONS)[stage.chance.randrange(2)].name
    passes = stage.chance.randint(1, 3)
    job = stage.begin((point, table, passes))
    while job.process.poll() is None:
        if stage.has_landed():
            stage.feed()  # each append needs a batch of its own
        time.sleep(POLL_S)
    job.wait_dead_at(point)
    return f"at append {passes} to {table}"


def killed_by_chance(stage: LandingStage) -> str:
    """The job itself or its Java process, at some moment under load."""
    job = stage.running()
    job.wait_until(lambda status: status.batches >= 1)
    stage.feed()
    time.sleep(stage.chance.uniform(0, LONGEST_LIFE_S))
    is_java = stage.chance.random() < 0.5
    os.kill(job.java_pid() if is_java else job.process.pid, signal.SIGKILL)
    code = job.process.wait(60)
    if is_java and code != 1:
        raise NotAsItShouldBe(f"its Java process was killed, and the job ended with {code}")
    return "Java process killed" if is_java else "job killed"


def kafka_restarted(stage: LandingStage) -> str:
    """Kafka dies under a job at work and is away for a while."""
    job = stage.running()
    job.wait_until(lambda status: status.batches >= 1)
    node = stage.kafka.nodes[0].node_id
    stage.kafka.signal_node(node, signal.SIGKILL)
    time.sleep(KAFKA_AWAY_S)
    stage.kafka.start_node(node)
    stage.wait_kafka()
    stage.feed()
    return (
        f"away for {KAFKA_AWAY_S:.0f} s, the job "
        f"{'went on' if job.process.poll() is None else 'ended and began again'}"
    )


def disk_full(stage: LandingStage) -> str:
    """No room for the tables; then there is room again."""
    if stage.disk is None:
        raise NotPossible("a disk of its own needs the right to mount")
    job = stage.running()
    job.wait_until(lambda status: status.batches >= 1)
    stage.disk.fill()
    stage.feed()
    try:
        code = job.process.wait(FULL_S)
    except subprocess.TimeoutExpired as error:
        raise NotAsItShouldBe(
            f"the job takes no notice of a full disk: {job.said[-200:]}"
        ) from error
    finally:
        stage.disk.free()
    if code != 1 or os.strerror(errno.ENOSPC) not in job.log.read_text(errors="replace"):
        raise NotAsItShouldBe(f"ended with {code} and does not say why: {job.said[-200:]}")
    return "the job ended and said so"


def checkpoint_deleted(stage: LandingStage) -> str:
    """Spark's own progress is gone while no job runs."""
    stage.end()
    shutil.rmtree(stage.checkpoints)
    stage.feed()
    return "everything came again and changed nothing"


def vacuumed(stage: LandingStage) -> str:
    """Tables are merged under a job at work, then while none runs, and nothing old is kept."""
    job = stage.running()
    job.wait_until(lambda status: status.batches >= 1)
    stage.feed()
    before, after, _ = stage.care(window_days=1)
    stage.end()
    stage.feed()
    *_, removed = stage.care(window_days=0)
    return f"{before} files became {after} under the job, {removed} were removed without it"


LINES = (
    *(LandingLine(f"landing-{point}", TEXTS[point], partial(at_point, point)) for point in POINTS),
    LandingLine(
        "landing-random",
        "the job or its Java process dies by chance",
        killed_by_chance,
        runs=RANDOM_KILLS,
    ),
    LandingLine("landing-kafka", "Kafka is killed and comes back", kafka_restarted),
    LandingLine("landing-disk-full", "the disk of the tables is full for a while", disk_full),
    LandingLine("landing-checkpoint", "the checkpoint is deleted", checkpoint_deleted),
    LandingLine(
        "landing-vacuumed",
        "tables are merged and vacuumed, beside the job and without it",
        vacuumed,
    ),
)
