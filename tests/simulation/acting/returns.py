"""Plays of a set without a controller in which nothing but the named brokers goes away: what one
delivered while it acted, the one that comes back, or acts next, does not deliver once more.

Responsible for: what happens, and judging. Refuses to know: rules.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.acting.broker import COPY_TABLES_MS, Broker
from tests.simulation.acting.world import World, Wrong

DUE_FOR_MS, EACH_MS = 120_000, 250
WARM_MS, AWAY_MS, LONG_ENOUGH_MS = 20_000, 25_000, 60_000
# A copy of tables, the time of its calls, and a tick.
COPIED_MS = COPY_TABLES_MS + 1_000
# A put that was on its way then arrives.
UNDER_WAY_MS = 300

Play = Callable[[World], None]


def played(seed: int, play: Play) -> World:
    """Wrong: a message was delivered twice, or never."""
    world = World(seed)
    world.refusals = 0.0
    for one in world.brokers:
        one.start()
    world.spend(WARM_MS)
    now_ms, log = world.net.now_ms, world.brokers[0].log
    watched = range(len(log), len(log) + DUE_FOR_MS // EACH_MS)
    log += range(now_ms, now_ms + DUE_FOR_MS, EACH_MS)
    world.spend(10_000)
    play(world)
    world.spend(LONG_ENOUGH_MS)
    _judge(world, watched)
    return world


def _judge(world: World, watched: range) -> None:
    """A slave begins with what its master, or who acted, had told at its last copy: what that one
    delivered in the moments before it went is delivered again. Nothing else is.
    """
    for place, found in world.deliveries.items():
        (first_ms, first), *more = found
        gone_ms = world.gone.get(first, -COPIED_MS)
        if more and not gone_ms - COPIED_MS <= first_ms <= gone_ms + UNDER_WAY_MS:
            raise Wrong(f"twice: {place} at {found}, who went at {world.gone}")
    until_ms, log = world.net.now_ms - 5_000, world.brokers[0].log
    if missing := [one for one in watched if log[one] < until_ms and one not in world.deliveries]:
        raise Wrong(f"lost: {missing[:5]} of {len(missing)}")


def _goes(world: World, one: Broker) -> None:
    world.gone[one.name] = world.net.now_ms
    one.stop()


def the_master_returns(world: World) -> None:
    master = world.brokers[0]
    _goes(world, master)
    world.spend(AWAY_MS + world.net.chance.randint(0, 10_000))
    master.start()


def the_smaller_slave_returns(world: World) -> None:
    """Behind master and slave 1 slave 2 acts, until slave 1 comes back."""
    master, first, _ = world.brokers
    _goes(world, master)
    _goes(world, first)
    world.spend(AWAY_MS + world.net.chance.randint(0, 10_000))
    first.start()
    world.spend(AWAY_MS)
    master.start()


def the_next_slave_acts(world: World) -> None:
    """Slave 1 acts, and goes as well: slave 2 goes on behind it."""
    master, first, _ = world.brokers
    _goes(world, master)
    world.spend(AWAY_MS + world.net.chance.randint(0, 10_000))
    _goes(world, first)


def the_smaller_slave_wakes(world: World) -> None:
    """Slave 1 acts, stands still until slave 2 acts, and comes to itself."""
    master, first, _ = world.brokers
    _goes(world, master)
    world.spend(AWAY_MS)
    world.gone[first.name] = world.net.now_ms
    first.paused_until_ms = world.net.now_ms + AWAY_MS + world.net.chance.randint(0, 10_000)
    world.spend(AWAY_MS + 10_000)


def name_servers_disagree(world: World) -> None:
    """One name server is reached by the master only, the other one by its slaves."""
    master, *slaves = world.brokers
    first, second = world.name_servers
    cuts = {frozenset((master.name, second.name))}
    cuts |= {frozenset((one.name, first.name)) for one in slaves}
    world.net.cuts |= cuts
    world.spend(2 * AWAY_MS)
    world.net.cuts -= cuts


def name_servers_begin_anew(world: World) -> None:
    """Slave 1 acts. All name servers forget everybody, and it is the last one to reach them."""
    master, first, _ = world.brokers
    _goes(world, master)
    world.spend(AWAY_MS)
    apart = {frozenset((first.name, one.name)) for one in world.name_servers}
    for _ in range(4):
        world.net.cuts |= apart
        for one in world.name_servers:
            one.restart()
        world.spend(100 * world.net.chance.randint(0, 30))
        world.net.cuts -= apart
        world.spend(8_000)


PLAYS: dict[str, Play] = {
    "the master returns": the_master_returns,
    "the smaller slave returns": the_smaller_slave_returns,
    "the next slave acts": the_next_slave_acts,
    "the smaller slave wakes": the_smaller_slave_wakes,
    "name servers disagree": name_servers_disagree,
    "name servers begin anew": name_servers_begin_anew,
}
