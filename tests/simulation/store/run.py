"""Runs worlds of the store and prints what happened.

    python -m tests.simulation.store.run --seeds 100 --from 1             that many worlds
    python -m tests.simulation.store.run --budget-s 60 --counts           as many as fit, with every
    count
    python -m tests.simulation.store.run --seeds 1 --from 4711 --trace    one world, readable

Exit code 0: every promise held; 1: a seed failed (its trace and the command to repeat it are
printed); 2: usage.
"""

from __future__ import annotations

import logging
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

if __package__ in (None, ""):  # started as a file: the root of the project comes first
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from tests.simulation.seeds import Series, total
from tests.simulation.store.coverage import missing
from tests.simulation.store.faults import Faults, Mix
from tests.simulation.store.medium import Medium
from tests.simulation.store.mixes import mix_of
from tests.simulation.store.realm import CannotLead, Realm, Shape, shape_of
from tests.simulation.store.replica import Replica
from tests.simulation.world import InvariantBroken, World, crashes_break

STEPS = (30, 200)
SETTLE_ROUNDS = 100
MEMORY = Path("/dev/shm")
"""A folder in memory; where there is none, the disk."""


def run_world(world: World, mix: Mix | None = None, shape: Shape | None = None) -> World:
    """One world: a set of stores, faults, and looks at all of it in between and in the end. Raises
    InvariantBroken.
    """
    folder = Path(tempfile.mkdtemp(prefix="store-world-", dir=MEMORY if MEMORY.is_dir() else None))
    quiet = logging.getLogger("brokers")
    level = quiet.level
    quiet.setLevel(logging.CRITICAL + 1)
    try:
        with crashes_break(world):
            _run(world, mix or mix_of(world), shape or shape_of(world), folder)
    finally:
        quiet.setLevel(level)
        shutil.rmtree(folder, ignore_errors=True)
    return world


def _run(world: World, mix: Mix, shape: Shape, folder: Path) -> None:
    world.note(f"{shape} {mix}")
    medium = Medium(folder)
    with medium.watched():
        realm = Realm(world, shape, medium)
        faults = Faults(realm, world)
        try:
            for _ in range(world.between(*STEPS)):
                _step(world, realm, faults, mix)
            _settle(realm)
        except CannotLead as refusal:
            world.note(f"the world ends here: {refusal}")
            world.count("world.cannot_lead")
        finally:
            realm.close()


def _step(world: World, realm: Realm, faults: Faults, mix: Mix) -> None:
    world.steps += 1
    names = list(mix.weights)
    name = world.chance.choices(names, list(mix.weights.values()))[0]
    world.now_ms += 1
    if name in faults.kinds:
        world.note(name)
        if faults.kinds[name]():
            world.count(f"fault.{name}")
        return
    world.note(
        f"{name}, log to {realm.leader.opened.log_end} at {realm.lead}, in sync "
        f"{sorted(realm.in_sync)}, confirmed {realm.confirmed}"
    )
    _ordinary(world, realm)[name]()


def _ordinary(world: World, realm: Realm) -> dict[str, Callable[[], None]]:
    """What stores do where nothing is wrong."""
    some = realm.replicas[world.between(0, len(realm.replicas) - 1)]
    slaves = [one for one in realm.replicas if one.number != realm.lead]

    def copy() -> None:
        for slave in slaves:
            realm.copy(slave)
        realm.confirm()

    return {
        "send": realm.send,
        "copy": copy,
        "checkpoint": lambda: some.opened.checkpoint_job()(),
        "flush": lambda: [some.opened.flush(), None][1],
        "trim": lambda: realm.trim(some),
        "look": lambda: _look(realm, some),
    }


def _look(realm: Realm, replica: Replica) -> None:
    realm.look_through(replica)
    realm.compare(replica)


def _settle(realm: Realm) -> None:
    """All replicas have everything in the end, and give it."""
    _look(realm, realm.leader)
    for _ in range(SETTLE_ROUNDS):
        for slave in realm.replicas:
            if slave.number != realm.lead:
                realm.copy(slave)
        realm.confirm()
    for number in realm.in_sync:
        realm.replicas[number].opened.dispatch_to(realm.confirmed)
    if len(realm.in_sync) < len(realm.replicas) and not realm.leader.damaged:
        raise InvariantBroken(f"only {sorted(realm.in_sync)} are in sync in the end")
    for number in sorted(realm.in_sync):
        _look(realm, realm.replicas[number])
    realm.world.count("world.settled")


def summary(first: int, counts: Counter[str]) -> str:
    """One line for people."""
    return (
        f"store: seeds {counts['seeds']} from {first}, steps {counts['steps']}, acknowledged "
        f"{counts['acknowledged']}, read {counts['read']}, faults {total(counts, 'fault.')}"
    )


SERIES = Series("store", run_world, missing, summary)


if __name__ == "__main__":
    sys.exit(SERIES.main(__doc__))
