"""Every kind of damage before every kind of start: an orderly one, one after a kill, one after a
loss of power.

Responsible for: who is stopped and how, what is damaged meanwhile, and that afterwards all that was
acknowledged can be read from the damaged broker as it was sent. Refuses to know: what the damage is
(damage.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from brokers.remoting.codes import RequestCode
from infra.workload.client import WorkloadClient
from tests.chaos import damage
from tests.chaos.armed import UNCLEAN, Armed
from tests.chaos.broker_stage import QUEUES, BrokerStage
from tests.chaos.damage_lines import (
    KEYS_ASKED,
    MADE_GOOD_WITHIN_S,
    SCRUBBED,
    found_by_key,
    served_by,
)
from tests.chaos.disk_lines import SMALL_FILES, lead
from tests.chaos.hits import NotAsItShouldBe
from tests.chaos.line import Line
from tests.support.local_cluster import wait_until

STARTS = ("stopped", "killed", "power lost")
FLIPS = 5
MESSAGES = 40
"""More of them after each start."""

Damage = Callable[
    [Armed, str, Sequence[damage.Stored]], tuple[list[damage.Flipped], list[damage.Flipped]]
]
"""Done to a broker that is down, in these messages: what the product is to find, and what no
checksum tells.
"""


@contextmanager
def down(armed: Armed, name: str, how: str) -> Iterator[None]:
    """It is away in one of three ways until the end."""
    if how == "stopped":
        with armed.stage.held(name):
            yield
        return
    before = armed.log_now(name)
    with armed.killed(name):
        if how == "power lost":
            armed.power_lost(name, kept=armed.chance.choice((0.0, 0.5)))
        yield
    if how == "power lost":
        armed.must_say(before, name, UNCLEAN)


def damaged_before_each_start(spoil: Damage, stage: BrokerStage) -> str:
    """A slave, then the master, for each kind of start."""
    armed, told = Armed(stage), []
    for how in STARTS:
        for of_master in (False, True):
            victim = stage.master() if of_master else stage.slaves()[0]
            acknowledged = stage.load.acknowledged
            before = armed.log_now(victim)
            with down(armed, victim, how):
                everything = damage.messages(armed.store(victim))
                found = [one for one in everything if damage.topic_of(one) == stage.load.topic]
                tellable, untold = spoil(armed, victim, found)
            stage.cluster.whole()
            if stage.master() != victim:  # slaves pass pulls on to their master
                lead(stage, victim)
            _all_is_served(stage, victim, acknowledged)
            _made_good(armed, victim, tellable)
            damage.put_back(untold)
            stage.flows(MESSAGES)
            told.append(_said_of(armed.said(before, victim), tellable))
    return (
        f"{', '.join(STARTS)} x slave, master; {sum(told)} of {len(told) * FLIPS} bits named (seed "
        f"{armed.seed})"
    )


def _all_is_served(stage: BrokerStage, name: str, acknowledged: int) -> None:
    """By that broker itself, each queue from its beginning, whatever was damaged: what is refused
    is fetched meanwhile.
    """

    def everything() -> bool:
        ends = asyncio.run(_ends(stage))
        return served_by(stage, name) >= max(acknowledged, ends)

    wait_until(everything, f"{name} serves all {acknowledged} and more", MADE_GOOD_WITHIN_S)


async def _ends(stage: BrokerStage) -> int:
    """How many messages the run's topic has at this moment."""
    async with WorkloadClient(
        stage.cluster.name_servers, stage.load.topic, "chaos-look", timeout_ms=2_000
    ) as client:
        return sum(
            [await client.offset(RequestCode.GET_MAX_OFFSET, queue) for queue in range(QUEUES)]
        )


def _made_good(armed: Armed, name: str, hit: Sequence[damage.Flipped]) -> None:
    def left() -> list[int]:
        return [one.offset for one in hit if not damage.is_as_it_was(one)]

    wait_until(
        lambda: not left(),
        f"{name} has made all of {[one.offset for one in hit]} good",
        MADE_GOOD_WITHIN_S,
    )


def _said_of(said: str, hit: Sequence[damage.Flipped]) -> int:
    return sum(f"message at {one.offset} " in said for one in hit)


# -- what is damaged -------------------------------------------------------------------------------


def _some(armed: Armed, found: Sequence[damage.Stored]) -> list[damage.Stored]:
    return armed.chance.sample(list(found), FLIPS)


def headers(
    armed: Armed, _name: str, found: Sequence[damage.Stored]
) -> tuple[list[damage.Flipped], list[damage.Flipped]]:
    """Bits that something tells, and as many that nothing tells, of other messages."""
    hit = armed.chance.sample(list(found), 2 * FLIPS)
    return (
        damage.flip_headers(hit[:FLIPS], damage.TOLD_IN_HEADER, armed.chance),
        damage.flip_headers(hit[FLIPS:], damage.UNTOLD_IN_HEADER, armed.chance),
    )


def properties(
    armed: Armed, _name: str, found: Sequence[damage.Stored]
) -> tuple[list[damage.Flipped], list[damage.Flipped]]:
    return [], damage.flip_properties(_some(armed, found), armed.chance)


def last_file(
    armed: Armed, _name: str, found: Sequence[damage.Stored]
) -> tuple[list[damage.Flipped], list[damage.Flipped]]:
    """Headers and bodies of what every start reads."""
    newest = [one for one in found if one.path == found[-1].path]
    hit = armed.chance.sample(newest, min(FLIPS, len(newest)))
    bodies = [
        damage.flip_at(one, damage.BODY_AT + armed.chance.randrange(512), armed.chance)
        for one in hit[: len(hit) // 2]
    ]
    return [
        *bodies,
        *damage.flip_headers(hit[len(hit) // 2 :], damage.TOLD_IN_HEADER, armed.chance),
    ], []


def queues(
    armed: Armed, name: str, _found: Sequence[damage.Stored]
) -> tuple[list[damage.Flipped], list[damage.Flipped]]:
    damage.flip_entries(armed.store(name), armed.stage.load.topic, FLIPS, armed.chance)
    return [], []


def index(
    armed: Armed, name: str, _found: Sequence[damage.Stored]
) -> tuple[list[damage.Flipped], list[damage.Flipped]]:
    for path in sorted((armed.store(name) / "index").glob("*")):
        damage.flip_used(path, FLIPS, armed.chance)
    return [], []


def damaged_index(stage: BrokerStage) -> str:
    """What is found by key afterwards has that key."""
    told = damaged_before_each_start(index, stage)
    keys = range(0, stage.load.acknowledged, max(1, stage.load.acknowledged // KEYS_ASKED))
    found = asyncio.run(found_by_key(stage, keys))
    if not found:
        raise NotAsItShouldBe("no message is found by key any more")
    return f"{told}; {found} of {len(keys)} keys found, none wrong"


def _line(name: str, what: str, strike: Callable[[BrokerStage], str]) -> Line:
    text = (
        f"flipped bits in {what}, before an orderly start, after a kill and after a loss of power"
    )
    return Line(name, text, strike, armed=True, settings={**SCRUBBED, **SMALL_FILES})


LINES = (
    _line("start-headers", "headers of messages", partial(damaged_before_each_start, headers)),
    _line(
        "start-properties", "properties of messages", partial(damaged_before_each_start, properties)
    ),
    _line(
        "start-last-file",
        "the newest file of the log",
        partial(damaged_before_each_start, last_file),
    ),
    _line("start-queues", "queue entries", partial(damaged_before_each_start, queues)),
    _line("start-index", "the key index", damaged_index),
)
