"""One real Kafka that holds a generated history, one controller that leads on it, and the tables
that a landing job made.

Responsible for the order in which they come up, and for waiting until nothing moves any more.
Refuses to know what is asked.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from events.codec import decode
from events.outcomes import Outcome
from infra.kafka.server import LocalKafka
from lakehouse.landing.status import LandingStatus, missing_offsets
from lakehouse.tables.lake import Lake, lake_at
from tests.bench.history_log import HistoryLog
from tests.bench.lone_controller import LoneController
from tests.support.generated_blows import Blow
from tests.support.generated_history import CLUSTER_ID, GeneratedHistory, generate
from tests.support.interruptible import held_back
from tests.support.lake_questions import KnownLog
from tests.support.landed_topics import whole_topics
from tests.support.landing_stage import Job, ends_of, make_topics

NETWORK = "127.1"
"""Whoever begins to lead asks the ports of masters that it does not hear: these addresses never
leave this machine.
"""
LEFT_TO_THE_CONTROLLER = 25
"""Of so many last commands the outcomes were not published yet when the former leader ended."""
LIMIT_S = 3_600.0
ANSWER_S = 60.0
TOLD_EVERY_S = 15.0
CONTROLLER = "c1"


class NotAsItShouldBe(Exception):
    """The stage did not come up, or moved while it was asked; the text says what."""


@dataclass(frozen=True)
class Sizes:
    """Of the history."""

    commands: int
    sets: int
    seed: int = 1


class Stage:
    """What is asked. Everything that runs ends with `held`."""

    def __init__(
        self, home: Path, sizes: Sizes, held: ExitStack, say: Callable[[str], None]
    ) -> None:
        self._home, self._held, self._say = home, held, say
        say(f"a history of {sizes.commands:,} commands over {sizes.sets} sets is made")
        history = generate(sizes.commands, sizes.sets, sizes.seed, network=NETWORK)
        self._blows: Sequence[Blow] = history.blows
        records = len(history.commands) + len(history.outcomes) + sum(map(len, history.events))
        say(
            f"{records:,} records, {len(self._blows):,} failovers in them; Kafka starts and takes "
            "them"
        )
        self._kafka = held.enter_context(LocalKafka(home / "kafka"))
        make_topics(self._kafka.bootstrap)
        HistoryLog(
            {"bootstrap.servers": self._kafka.bootstrap}, _cut_short(history), own_times=True
        ).write(sizes.commands)
        self._controller = self._led(sizes.commands)
        self.lake = self._landed()
        self.log = KnownLog(whole_topics(self._kafka.bootstrap), self._blows)

    @property
    def controllers(self) -> list[str]:
        """Addresses."""
        return [self._controller.address]

    def _led(self, commands: int) -> LoneController:
        """A controller folds all of it, leads, and has published what was left to it."""
        self._say("a controller starts on it")
        controller = LoneController(
            self._home / CONTROLLER, {"bootstrap.servers": self._kafka.bootstrap}, CLUSTER_ID
        )
        self._held.callback(controller.stop)
        controller.start()
        folded_s = controller.wait_applied(commands - 1, LIMIT_S)
        controller.wait_active()
        until = time.monotonic() + LIMIT_S
        while (status := _answer_of(controller))["published_offset"] != status["applied_offset"]:
            if time.monotonic() > until:
                raise NotAsItShouldBe(
                    f"the controller has not published all that it applied: {status}"
                )
            time.sleep(0.05)
        self._say(
            f"it had folded the history {folded_s:.1f} s after its start, and leads in term "
            f"{status['term']}"
        )
        return controller

    def _landed(self) -> Lake:
        """All that the log holds, by the landing job, which leaves gold to others."""
        self._say("the landing job starts")
        with held_back():
            job = Job(self._home, self._kafka.bootstrap, "landing", gold_every_s=0)
            self._held.callback(_ended, job)
        ends, began, told = ends_of(self._kafka.bootstrap), time.monotonic(), [0.0]

        def done(status: LandingStatus) -> bool:
            missing = missing_offsets(status, ends)
            if missing and time.monotonic() - told[0] > TOLD_EVERY_S:
                told[0] = time.monotonic()
                self._say(
                    f"landed: {sum(status.landed.values()):,} records, in every table "
                    f"{sum(status.detailed.values()):,} of {sum(ends.values()):,}"
                )
            return not missing

        job.wait_until(done, LIMIT_S)
        self._say(
            f"{sum(ends.values()):,} records landed in {time.monotonic() - began:.1f} s, Spark's "
            "start among them"
        )
        if code := job.end(signal.SIGTERM):
            raise NotAsItShouldBe(
                f"asked to stop the landing job ended with {code}: {job.said[-200:]}"
            )
        return lake_at(job.tables, CLUSTER_ID)

    def require_still(self) -> None:
        """Raises NotAsItShouldBe when something was decided while questions were asked: the answers
        then are of several moments.
        """
        applied = _answer_of(self._controller)["applied_offset"]
        if applied != len(self.log.commands) - 1:
            raise NotAsItShouldBe(
                f"the log went on while it was asked: {len(self.log.commands)} commands, then "
                f"{applied + 1}"
            )


def _answer_of(controller: LoneController) -> dict[str, Any]:
    """Its status; on a busy machine one question or the other gets no answer in time."""
    until = time.monotonic() + ANSWER_S
    while not (status := controller.status()):
        if time.monotonic() > until:
            raise NotAsItShouldBe(f"the controller gave no answer within {ANSWER_S:.0f} s")
    return status


def _ended(job: Job) -> None:
    """In order if it can, for its Java writes into the folder that goes then."""
    try:
        job.end(signal.SIGTERM)
    except subprocess.TimeoutExpired:
        job.end(signal.SIGKILL)


def _cut_short(history: GeneratedHistory) -> GeneratedHistory:
    """The same without the newest outcomes: the next leader has to publish them."""
    first = len(history.commands) - LEFT_TO_THE_CONTROLLER
    kept = len(history.outcomes)
    while kept and _about(history.outcomes[kept - 1]) >= first:
        kept -= 1
    return replace(
        history, outcomes=history.outcomes[:kept], outcomes_ms=history.outcomes_ms[:kept]
    )


def _about(data: bytes) -> int:
    outcome = decode(data)
    assert isinstance(outcome, Outcome)
    return outcome.command_offset
