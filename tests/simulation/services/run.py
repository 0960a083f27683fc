"""Runs worlds of a broker's background services and prints what happened.

    python -m tests.simulation.services.run --seeds 100 --from 1           that many worlds
    python -m tests.simulation.services.run --budget-s 60 --counts         as many as fit, counted
    python -m tests.simulation.services.run --seeds 1 --from 4711 --trace  one world, readable

Exit code 0: every promise held; 1: a seed failed (its trace and the command to repeat it are
printed); 2: usage.
"""

from __future__ import annotations

import logging
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # started as a file: the root of the project comes first
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from brokers.service.timers import formats, timer_service, waiting_counts, wheel
from brokers.service.timers.time_rules import BELIEVED_AFTER_MS
from tests.simulation.seeds import Series, total
from tests.simulation.services.coverage import missing
from tests.simulation.services.faults import Faults, Mix
from tests.simulation.services.mixes import MIXES, mix_of
from tests.simulation.services.realm import WHEEL_SLOTS, Realm, Shape, shape_of
from tests.simulation.store.medium import Medium
from tests.simulation.store.run import MEMORY
from tests.simulation.world import InvariantBroken, World, crashes_break

LASTS_MS = (4_000, 10_000)
SETTLES_MS, LOOK_MS = 60_000, 500
LOGGER = "regent"
SIZES = {
    (formats, "SLOTS"): WHEEL_SLOTS,
    (formats, "WHEEL_BYTES"): WHEEL_SLOTS * formats.SLOT_BYTES,
    (wheel, "SLOTS"): WHEEL_SLOTS,
    (wheel, "WHEEL_BYTES"): WHEEL_SLOTS * formats.SLOT_BYTES,
    (waiting_counts, "SLOTS"): WHEEL_SLOTS,
    (timer_service, "SLOTS"): WHEEL_SLOTS,
    (timer_service, "OLDEST_SLOTS"): WHEEL_SLOTS // 2 - 60,
}
"""Of the wheel, wherever it is known."""


class Raising(logging.Handler):
    """An error that the product only tells of is one all the same."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])


def run_world(world: World, mix: Mix | None = None, shape: Shape | None = None) -> World:
    """One world: a set of brokers with all their services, accidents, and a quiet end. Raises
    InvariantBroken.
    """
    folder = Path(tempfile.mkdtemp(prefix="services-", dir=MEMORY if MEMORY.is_dir() else None))
    try:
        with crashes_break(world), _quiet(world) as told:
            _run(world, mix or mix_of(world), shape or shape_of(world), folder, told)
    finally:
        world.end()
        shutil.rmtree(folder, ignore_errors=True)
    return world


@contextmanager
def _quiet(world: World) -> Iterator[Raising]:
    """Chance is the world's; what the product tells of errors is kept."""
    told, logger = Raising(), logging.getLogger(LOGGER)
    before, state = (logger.level, logger.propagate), random.getstate()
    sizes = {place: getattr(*place) for place in SIZES}
    for place, size in SIZES.items():
        setattr(*place, size)
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(told)
    random.seed(world.seed)
    try:
        yield told
    finally:
        random.setstate(state)
        for place, size in sizes.items():
            setattr(*place, size)
        logger.removeHandler(told)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def _run(world: World, mix: Mix, shape: Shape, folder: Path, told: Raising) -> None:
    world.note(f"{shape} {mix}")
    medium = Medium(folder)
    with medium.watched():
        realm = Realm(world, shape, medium)
        try:
            faults = Faults(realm, mix)
            _until(world, world.between(*LASTS_MS), told)
            faults.heal()
            for client in realm.clients:
                client.stopped = client.settles = True
            _settle(realm, told)
        finally:
            realm.close()


def _until(world: World, end_ms: int, told: Raising) -> None:
    """The world goes on to that time; what the product tells of errors is raised."""
    while (due_ms := world.next_due_ms()) is not None and due_ms <= end_ms:
        world.step()
        if told.errors:
            raise told.errors[0]


def _settle(realm: Realm, told: Raising) -> None:
    """Everything that was promised is there in the end. InvariantBroken.

    A wheel goes by the clock that it knew until the clock's last jump has lasted for a minute
    (PROTOCOL 4.18): what it delivers may be late by that, and clocks are set right after the rest.
    """
    world, promises = realm.world, realm.promises
    healed_ms = world.now_ms
    while lacking := promises.missing():
        jumped_ms = promises.jumped_ms
        believed_ms = 0 if jumped_ms is None else jumped_ms + BELIEVED_AFTER_MS
        if world.now_ms >= max(healed_ms, believed_ms) + SETTLES_MS:
            raise InvariantBroken(f"{len(lacking)} promises are not kept: {'; '.join(lacking[:8])}")
        _until(world, world.now_ms + LOOK_MS, told)
    world.count("world.settled")


def summary(first: int, counts: Counter[str]) -> str:
    """One line for people."""
    return (
        f"services: seeds {counts['seeds']} from {first}, steps {counts['steps']}, promised "
        f"{total(counts, 'told.')}, promoted {counts['promoted']}, faults {total(counts, 'fault.')}"
    )


SERIES = Series(
    "services",
    run_world,
    missing,
    summary,
    {name: partial(run_world, mix=mix) for name, mix in MIXES.items()},
)


if __name__ == "__main__":
    sys.exit(SERIES.main(__doc__))
