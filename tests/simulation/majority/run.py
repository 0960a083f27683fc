"""Runs worlds of groups that replicate by majority and prints what happened.

    python -m tests.simulation.majority.run --seeds 100 --from 1             that many worlds
    python -m tests.simulation.majority.run --budget-s 60 --counts           as many as fit, with
    every count
    python -m tests.simulation.majority.run --seeds 1 --from 4711 --trace    one world, readable

Exit code 0: every promise held; 1: a seed failed (its trace and the command to repeat it are
printed); 2: usage.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # started as a file: the root of the project comes first
    sys.path[0] = str(Path(__file__).resolve().parents[3])

from tests.simulation.majority.coverage import missing
from tests.simulation.majority.faults import Faults
from tests.simulation.majority.group import Group, Shape, shape_of
from tests.simulation.majority.mixes import DISKS, LIVES, MIXES, Mix, mix_of
from tests.simulation.seeds import Series, total
from tests.simulation.world import InvariantBroken, World, crashes_break
from tests.support.majority_history import breaches

FAULTY_MS = (6_000, 16_000)
WHOLE_MS = 25_000
CALM_MS = 3_000
LOOK_MS = 250
IDLE_PER_S_MAX = 14
"""Messages of a leader and one follower in a second without work: heartbeats and commits."""
PROBES = 4


def run_world(
    world: World, mix: Mix | None = None, shape: Shape | None = None, readers: int | None = None
) -> World:
    """One world: faults for a while, then none, and everything must be whole. `readers`: other than
    the shape says. Raises InvariantBroken.
    """
    mix = mix or mix_of(world)
    shape = shape or shape_of(world, loses_power=bool(set(mix.weights) & set(LIVES | DISKS)))
    shape = shape if readers is None else replace(shape, readers=readers)
    world.count("world.weak", shape.weak)
    world.note(f"{shape} {mix}")
    run_group(world, Group(world, shape), mix)
    return world


def run_group(world: World, group: Group, mix: Mix) -> None:
    """The same with a group that was made before. Raises InvariantBroken."""
    with crashes_break(world):
        _run(world, group, mix)
    world.count("fact.told", len(group.told))
    broken = breaches(group.told)
    if broken:
        raise InvariantBroken(f"what was told to history: {broken[0]}")


def _run(world: World, group: Group, mix: Mix) -> None:
    faults = Faults(group)
    group.start()
    _until(world, group, world.now_ms + 2_000)
    ends_ms = world.now_ms + world.between(*FAULTY_MS)
    names, weights = list(mix.weights), list(mix.weights.values())
    while world.now_ms < ends_ms:
        name = world.chance.choices(names, weights)[0]
        if faults.kinds[name]():
            world.note(name)
            world.count(f"fault.{name}")
        _until(world, group, world.now_ms + world.between(20, mix.pause_ms))
    world.note("no more faults")
    faults.heal()
    settle(world, group)


def settle(world: World, group: Group) -> None:
    """Without any client: whole, then quiet; then a few appends, each answered at once, with as
    many away as a majority can do without.
    """
    group.settled = True
    promises = group.promises
    heal_ms = world.now_ms
    _become_whole(world, group, f"{WHOLE_MS} ms")
    world.count("heal_ms", world.now_ms - heal_ms)
    if world.one_in(3):
        _come_back_empty(world, group)
    _until(world, group, world.now_ms + 500)
    promises.calm_since_ms = world.now_ms
    sent, elections = world.counts["message.sent"], promises.elections
    _until(world, group, world.now_ms + CALM_MS)
    sent = world.counts["message.sent"] - sent
    if sent > IDLE_PER_S_MAX * (len(group.replicas) - 1) * CALM_MS / 1_000:
        raise InvariantBroken(f"restless: {sent} messages in {CALM_MS} ms without work")
    acknowledged, read = world.counts["acknowledged"], world.counts["read.SUCCESS"]
    followers = [one for one in group.replicas if not one.leads]
    away = world.chance.sample(followers, len(group.replicas) - group.majority)
    for one in away:
        one.stop(power=False)
    for each in (*group.clients, *group.readers):
        each.wanted = PROBES
    _until(world, group, world.now_ms + CALM_MS)
    probes = world.counts["acknowledged"] - acknowledged
    if probes < PROBES * len(group.clients) or promises.elections != elections:
        raise InvariantBroken(f"not whole: {probes} of {PROBES * len(group.clients)} appends")
    reads = world.counts["read.SUCCESS"] - read
    if reads < PROBES * len(group.readers):
        raise InvariantBroken(f"not whole: {reads} of {PROBES * len(group.readers)} reads")
    for one in away:
        one.start()
    _become_whole(world, group, "the last appends")
    promises.final()
    world.count("world.settled")


def _come_back_empty(world: World, group: Group) -> None:
    """A follower loses everything while nobody writes: it gets it back without any traffic."""
    followers = [one for one in group.replicas if not one.leads]
    if not followers or any(one.log.owed for one in group.replicas):
        return
    one = world.chance.choice(followers)
    one.stop(power=True)
    one.log.wipe()
    one.start()
    world.count("world.wiped_idle")
    _become_whole(world, group, f"{one.name} came back empty")


def _become_whole(world: World, group: Group, after: str) -> None:
    whole = group.promises.whole
    _until(world, group, world.now_ms + WHOLE_MS, lambda: whole() is None)
    why = whole()
    if why is not None:
        raise InvariantBroken(f"not whole after {after}: {why}")


def _until(
    world: World, group: Group, end_ms: int, done: Callable[[], bool] = lambda: False
) -> None:
    looked_ms = world.now_ms
    while (due := world.next_due_ms()) is not None and due <= end_ms:
        world.step()
        if world.now_ms - looked_ms >= LOOK_MS:
            looked_ms = world.now_ms
            group.promises.look()
            if done():
                return
    world.now_ms = max(world.now_ms, end_ms)


def summary(first: int, counts: Counter[str]) -> str:
    """One line for people."""
    return (
        f"majority: seeds {counts['seeds']} from {first}, steps {counts['steps']}, acknowledged "
        f"{counts['acknowledged']}, elected {counts['elected']}, truncated "
        f"{counts['log.truncated']}, messages {counts['message.sent']}, faults "
        f"{total(counts, 'fault.')}"
    )


SERIES = Series(
    "majority",
    run_world,
    missing,
    summary,
    {name: partial(run_world, mix=mix) for name, mix in MIXES.items()},
)


if __name__ == "__main__":
    sys.exit(SERIES.main(__doc__))
