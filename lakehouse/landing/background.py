"""What a landing job does beside landing: gold, the check, the care of tables, anchors, the watch
over its lag, and metrics.

Responsible for starting and stopping these, each in a thread of its own and none of which landing
waits for.
Refuses to know how any of it is done.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from events.topics import TOPIC_NAMES
from lakehouse.care import maintain
from lakehouse.errors import LakehouseError
from lakehouse.gold.job import GoldJob
from lakehouse.landing import log_probe
from lakehouse.landing import metrics as landing_metrics
from lakehouse.landing.anchoring import anchoring_of
from lakehouse.landing.config import LandConfig
from lakehouse.landing.metrics import LagWatch
from lakehouse.landing.status import StatusFile
from lakehouse.proof import witnesses
from lakehouse.tables.commit_lock import CommitLocks
from lakehouse.tables.high_water import Partition
from lakehouse.tables.lake import Lake

ERROR_CHARS_MAX = 300


class Activity:
    """Calls `step(stopped)` every `every_s` seconds until it is stopped; the first time after that
    pause.

    `troubled` is called after each round: the name and why the round failed, or None when it did
    not.
    """

    def __init__(
        self,
        name: str,
        every_s: float,
        step: Callable[[Callable[[], bool]], object],
        troubled: Callable[[str, str | None], None],
    ) -> None:
        self._name = name
        self._every_s = every_s
        self._step = step
        self._troubled = troubled
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=name)
        self._failure: str | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, wait_s: float) -> None:
        """Begin no round any more, and wait for the one at work, at most `wait_s` seconds: it may
        be cut off anywhere.
        """
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            failure = None
            try:
                self._step(self._stop.is_set)
            except Exception as error:  # Whatever Delta or Kafka raise; the next round begins anew.
                failure = " ".join(f"{type(error).__name__}: {error}".split())[:ERROR_CHARS_MAX]
            if self._stop.is_set():
                return
            if failure is not None and failure != self._failure:
                log.warning("%s has failed and will be tried again: %s", self._name, failure)
            self._failure = failure
            self._troubled(self._name, failure)


log = logging.getLogger("regent.lake.landing")

WATCH_EVERY_S = 5.0
STOP_WAIT_S = 10.0


@contextmanager
def beside(
    config: LandConfig, lake: Lake, locks: CommitLocks, status: StatusFile
) -> Iterator[None]:
    """All of it goes on in here. Raises `LakehouseError` when `metrics_listen` cannot be bound."""
    gold = GoldJob(lake, locks)
    steps: dict[str, tuple[float, Callable[[Callable[[], bool]], object]]] = {
        "watch": (WATCH_EVERY_S, Watch(config, status).step),
        "gold": (config.gold_every_s, lambda stopped: _gold(gold, stopped)),
        "check": (config.check_every_s, lambda stopped: _check(lake, status)),
        "care": (
            config.maintain_every_s,
            lambda stopped: _care(lake, locks, config.time_travel_days, stopped),
        ),
    }
    if config.has_anchors:
        anchoring = anchoring_of(config, lake)
        steps["anchors"] = (
            config.anchors_every_s,
            lambda stopped: anchoring.step(stopped, _landed(status)),
        )
    activities = [
        Activity(name, every_s, step, status.troubled)
        for name, (every_s, step) in steps.items()
        if every_s
    ]
    with ExitStack() as held:
        held.callback(gold.close)
        _serve(held, config, status)
        held.callback(_stop, activities)
        for activity in activities:
            activity.start()
        yield


def _stop(activities: Sequence[Activity]) -> None:
    """Tell all of them, then wait for all of them; what is cut off in the middle of a round is made
    again.
    """
    until = time.monotonic() + STOP_WAIT_S
    for activity in activities:
        activity.stop(0)
    for activity in activities:
        activity.stop(max(0.0, until - time.monotonic()))


def _serve(held: ExitStack, config: LandConfig, status: StatusFile) -> None:
    if config.metrics_listen is None:
        return
    metrics = landing_metrics.LandingMetrics(lambda: status.status)
    address, stop = landing_metrics.serve(config.metrics_listen, metrics)
    held.callback(stop)
    status.on_batch = metrics.batch_done
    status.update(metrics=address)


def _landed(status: StatusFile) -> dict[Partition, int]:
    """Next offsets of bronze, as the job knows them."""
    found = {}
    for name, end in status.status.landed.items():
        topic, _, partition = name.rpartition("-")
        found[topic, int(partition)] = end
    return found


class Watch:
    """Asks the log where it ends, and puts what is behind into the status."""

    def __init__(self, config: LandConfig, status: StatusFile) -> None:
        self._kafka, self._status = config.kafka, status
        self._lag = LagWatch()

    def step(self, stopped: Callable[[], bool]) -> None:
        """One question. Raises `LakehouseError` when the log does not answer."""
        found = log_probe.log_ends(self._kafka, TOPIC_NAMES)
        ends = {f"{topic}-{number}": ends.end for (topic, number), ends in found.items()}
        lag = self._lag.note(time.monotonic_ns() // 1_000_000, ends, self._status.status.landed)
        self._status.update(lag_records=dict(lag.records), lag_ms=dict(lag.age_ms))


def _gold(job: GoldJob, stopped: Callable[[], bool]) -> None:
    """Piece by piece until gold is where bronze is."""
    goes_on = True
    while goes_on and not stopped():
        began = time.monotonic()
        done = job.step()
        goes_on = bool(done.commands)
        if done.rows:
            log.info(
                "gold is at command %d: %d rows in %d ms",
                done.mark.offset,
                done.rows,
                round((time.monotonic() - began) * 1000),
            )


def _check(lake: Lake, status: StatusFile) -> None:
    status.update(alarms=len(witnesses.checked(lake).alarms))


def _care(lake: Lake, locks: CommitLocks, window_days: float, stopped: Callable[[], bool]) -> None:
    done = list(maintain.maintain(lake, locks, window_days, stopped=stopped))
    problems = [f"{one.table}: {one.problem}" for one in done if one.problem]
    if problems:
        raise LakehouseError("; ".join(problems))
