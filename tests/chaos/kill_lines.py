"""Brokers that die at a named point of a send, and machines that lose their power there."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from events.outcomes import LABEL_AT_RISK
from tests.chaos.armed import UNCLEAN, Armed
from tests.chaos.broker_stage import BrokerStage
from tests.chaos.hits import NotAsItShouldBe
from tests.chaos.line import Line
from tests.support.decision_log import proven_outcomes, wait_published

ON_MASTER = ("before-write", "after-write", "after-flush", "after-send", "before-answer")
ON_SLAVE = ("before-write", "after-write", "after-flush", "after-ack")
# A flush comes twice a second, the others with every message.
PASSES_MAX = {"after-flush": 3}
PASSES_MAX_ELSE = 50
SYNC = {"flush_disk": "sync"}
COUNT_MODE = {"all_ack": False, "in_sync_replicas": 2, "min_in_sync_replicas": 1}
AHEAD_S = 0.6
"""Shorter than it takes a master to have a slave that is behind leave the set."""
ALONE_S = 10.0


def _passes(armed: Armed, point: str) -> int:
    return armed.chance.randint(1, PASSES_MAX.get(point, PASSES_MAX_ELSE))


def at_point(point: str, slave: bool, stage: BrokerStage) -> str:
    """One broker dies there."""
    armed = Armed(stage)
    victim = stage.slaves()[0] if slave else stage.master()
    stage.wait_restarted(armed.die_at(point, victim, passes=_passes(armed, point)))
    return f"{victim} died there, {stage.master()} leads (seed {armed.seed})"


def all_at_points(stage: BrokerStage) -> str:
    """The master is at each point in turn when all die."""
    armed = Armed(stage)
    for point in ON_MASTER:
        master = stage.master()
        stage.wait_restarted(
            armed.die_at(point, master, *stage.slaves(), passes=_passes(armed, point))
        )
        stage.cluster.whole()
        stage.flows(20)
    return f"all died with the master {', '.join(ON_MASTER)} (seed {armed.seed})"


def power_of_one(stage: BrokerStage) -> str:
    """Master and one slave in turn, each at some point."""
    armed, lost = Armed(stage), 0
    for slave in (False, True):
        victim = stage.slaves()[0] if slave else stage.master()
        point = armed.chance.choice(ON_SLAVE if slave else ON_MASTER)
        before = armed.log_now(victim)
        with armed.kept_off(victim):
            armed.die_at(point, victim, passes=_passes(armed, point))
            lost += armed.power_lost(victim, kept=armed.chance.choice((0.0, 0.5)))[0].bytes_lost
        armed.must_say(before, victim, UNCLEAN)
        stage.cluster.whole()
        stage.flows(20)
    return f"master and slave in turn, {lost} unflushed bytes gone (seed {armed.seed})"


def power_of_all_but_one(stage: BrokerStage) -> str:
    """A slave is left, then the master: whoever it is holds all that was acknowledged."""
    armed, lost = Armed(stage), 0
    for slave_stays in (True, False):
        first, stays = (
            (stage.master(), stage.slaves()[0])
            if slave_stays
            else (stage.slaves()[0], stage.master())
        )
        gone = [first, *(name for name in stage.brokers if name not in (first, stays))]
        point = armed.chance.choice(ON_MASTER if slave_stays else ON_SLAVE)
        before = armed.log_now(*gone)
        with armed.kept_off(*gone):
            armed.die_at(point, *gone, passes=_passes(armed, point))
            losses = armed.power_lost(*gone, kept=armed.chance.choice((0.0, 0.5)))
            lost += sum(loss.bytes_lost for loss in losses)
        for name in gone:
            armed.must_say(before, name, UNCLEAN)
        stage.cluster.whole()
        if stage.master() != stays:
            raise NotAsItShouldBe(
                f"{stage.master()} leads, and not {stays}, which holds everything"
            )
        stage.flows(20)
    return (
        f"a slave was left, then the master, {lost} unflushed bytes gone elsewhere (seed "
        f"{armed.seed})"
    )


def power_of_all(stage: BrokerStage) -> str:
    """All at once; the last one to come back is needed, and the outcome says AT_RISK."""
    armed = Armed(stage)
    master, slaves = stage.master(), stage.slaves()
    point, everybody = armed.chance.choice(ON_MASTER), stage.brokers
    before, risks = armed.log_now(*everybody), at_risk(stage)
    with armed.kept_off(*everybody):
        armed.die_at(point, master, *slaves, passes=_passes(armed, point))
        written = max(map(armed.newest_of, everybody))
        armed.power_lost(*everybody, kept=armed.chance.choice((0.0, 0.0, 0.5)))
        left = max(map(armed.newest_of, everybody))
    for name in everybody:
        armed.must_say(before, name, UNCLEAN)
    stage.cluster.whole()
    if at_risk(stage) <= risks:
        raise NotAsItShouldBe(f"no election is labelled {LABEL_AT_RISK}")
    gone = written[1] - left[1]
    return (
        f"at {point}, {master} led; {gone} messages of {written[0] - left[0]} ms are in no log, "
        f"the election says {LABEL_AT_RISK} (seed {armed.seed})"
    )


def at_risk(stage: BrokerStage) -> int:
    """How many elections of the cluster's life say that they may lack messages."""
    wait_published(stage.cluster)
    return sum(
        LABEL_AT_RISK in outcome.labels for outcome in proven_outcomes(stage.cluster.bootstrap)
    )


def left_behind(stage: BrokerStage) -> str:
    """A slave stands still, the others go on and all die while it still counts as a member: it
    comes back first.
    """
    armed = Armed(stage)
    behind, other = stage.slaves()
    master = stage.master()
    with armed.kept_off(master, other), armed.kept_off(behind, wait=False):
        with stage.paused(behind):
            stage.wait_for(AHEAD_S)
            # what the network holds for it dies with it
            armed.wait_dead(stage.kill(master, other, behind))
        lacks = armed.newest_of(master)[1] - armed.newest_of(behind)[1]
        armed.open_gate(behind)
        leads = leads_within(stage, behind, ALONE_S)
    return (
        f"{behind} lacked {lacks} messages when all died, then {behind if leads else 'nobody'} led "
        "alone"
    )


def leads_within(stage: BrokerStage, name: str, seconds: float) -> bool:
    """Whether it becomes master in that time."""
    address, until = stage.cluster.process(name)["address"], time.monotonic() + seconds
    while time.monotonic() < until:
        view = stage.cluster.view.view()
        if view is not None and view.master_address == address:
            return True
        stage.wait_for(0.1)
    return False


def _at(point: str, slave: bool) -> Callable[[BrokerStage], str]:
    return partial(at_point, point, slave)


LINES = (
    *(
        Line(
            f"point-master-{point}",
            f"the master dies {point.replace('-', ' ')}",
            _at(point, False),
            armed=True,
        )
        for point in ON_MASTER
    ),
    *(
        Line(
            f"point-slave-{point}",
            f"a slave dies {point.replace('-', ' ')}",
            _at(point, True),
            armed=True,
        )
        for point in ON_SLAVE
    ),
    Line(
        "point-all-async",
        "all die with the master at each point in turn, flushing twice a second",
        all_at_points,
        runs=1,
        armed=True,
    ),
    Line(
        "power-one",
        "one machine loses its power: what was not flushed is gone or torn",
        power_of_one,
        armed=True,
    ),
    Line(
        "power-but-one",
        "all machines but one lose their power: a slave is left, then the master",
        power_of_all_but_one,
        armed=True,
    ),
    Line(
        "left-behind",
        "a slave stands still, then all die and it comes back first: every copy counts",
        left_behind,
        armed=True,
    ),
    Line(
        "power-all-async",
        "all machines lose their power, flushing twice a second",
        power_of_all,
        may_lose="what was not flushed anywhere, about half a second",
        armed=True,
    ),
    Line(
        "point-all-sync",
        "all die with the master at each point in turn, flushing before each answer",
        all_at_points,
        runs=1,
        settings=SYNC,
        armed=True,
    ),
    Line(
        "power-all-sync",
        "all machines lose their power, flushing before each answer",
        power_of_all,
        settings=SYNC,
        armed=True,
    ),
    Line(
        "count-mode",
        "a slave stands still, then all die and it comes back first: two copies count",
        left_behind,
        may_lose="what the slave behind lacks, up to the second until it leaves the set",
        settings=COUNT_MODE,
        armed=True,
    ),
)
