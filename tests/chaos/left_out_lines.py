"""Who holds everything is left out of the set, or is not heard: it must lead when nobody else can,
and nobody may wait in vain for others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.chaos.armed import UNCLEAN, Armed
from tests.chaos.broker_stage import SILENCE_MS, BrokerStage
from tests.chaos.brokers_cut import network_of
from tests.chaos.brokers_planned import done
from tests.chaos.damage_lines import SET, broker_id_of, forget, joined_anew
from tests.chaos.hits import NotAsItShouldBe
from tests.chaos.kill_lines import at_risk
from tests.chaos.line import Line
from tests.chaos.network import CONTROLLERS

UNHEARD_S = 2 * SILENCE_MS / 1_000
"""By then a broker that the controllers do not hear counts as dead."""
ALONE = {"min_in_sync_replicas": 1}


def kill_then_power(stage: BrokerStage) -> str:
    """The master dies, and the one that is elected alone loses its power: the third is heard by no
    controller all the time.
    """
    armed, master, (unheard, heir) = Armed(stage), stage.master(), stage.slaves()
    before = armed.log_now(heir)
    with without_risk(stage), armed.kept_off(heir):
        with _unheard(stage, unheard):
            with armed.killed(master):
                _must_be(heir, stage.new_master(master))
                lost = _power_lost(armed, heir)
            _must_be(master, stage.new_master(heir))
        stage.flows(20)
    armed.must_say(before, heir, UNCLEAN)
    return (
        f"{heir} led after {master} was killed and lost its power with {lost} unflushed bytes; "
        f"{master} leads again (seed {armed.seed})"
    )


def power_then_kill(stage: BrokerStage) -> str:
    """A slave loses its power without a word, and the master dies before that is noticed: the third
    is heard by no controller.
    """
    armed, master, (unheard, dark) = Armed(stage), stage.master(), stage.slaves()
    before, network = armed.log_now(dark), network_of(stage)
    with without_risk(stage), armed.kept_off(dark):
        with _unheard(stage, unheard):
            with network.apart([dark], network.everybody):
                dead = stage.kill(dark)
                with armed.killed(master):
                    armed.wait_dead(dead)
                    stage.wait_for(UNHEARD_S)
                    told = (
                        ("was elected all the same")
                        if _is_recorded(stage, dark)
                        else "was not elected"
                    )
                    lost = _power_lost(armed, dark)
            _must_be(master, stage.new_master(dark))
        stage.flows(20)
    armed.must_say(before, dark, UNCLEAN)
    return (
        f"{dark} lost its power with {lost} unflushed bytes, {master} was killed, {dark} {told}; "
        f"{master} leads again (seed {armed.seed})"
    )


def gone_for_good(stage: BrokerStage) -> str:
    """The set has shrunk to one by an election, and the machine of that one never comes back."""
    armed, master, (other, heir) = Armed(stage), stage.master(), stage.slaves()
    old = broker_id_of(armed, heir)
    with without_risk(stage), armed.kept_off(heir):
        with armed.killed(other):
            stage.cluster.set_view(f"{other} left the set", lambda view: len(view.in_sync) == 2)
            with armed.killed(master):
                _must_be(heir, stage.new_master(master))
                armed.wait_dead(stage.kill(heir))
                armed.empty(heir)
            _must_be(master, stage.new_master(heir))
        stage.flows()
    return (
        f"{heir} was all of the set and gone for good, {master} leads; {forget(stage, heir, old)}"
    )


def unheard_and_one_dies(stage: BrokerStage) -> str:
    """A member that only the controllers do not hear goes on to acknowledge; the third one dies."""
    armed, (unheard, dies) = Armed(stage), stage.slaves()
    with _unheard(stage, unheard), armed.killed(dies):
        stage.flows(
            what=(f"messages flow without {dies}, while the controllers do not hear {unheard}")
        )
    return f"{unheard} was not heard by the controllers, {dies} died, sends went on"


def cleaned_and_one_dies(stage: BrokerStage) -> str:
    """The process of a replica that was cleaned lives on; another one dies."""
    armed, (cleaned, dies) = Armed(stage), stage.slaves()
    old = broker_id_of(armed, cleaned)
    done(stage, "controller", "clean", SET, str(old), "--living", "--yes")
    stage.flows(what=f"messages flow although {cleaned} was cleaned")
    with armed.killed(dies):
        stage.flows(what=f"messages flow without {dies}, while {cleaned}, which was cleaned, lives")
    with armed.killed(cleaned):
        armed.empty(cleaned)
    new = joined_anew(stage, cleaned, old)
    return (
        f"{cleaned} was cleaned and lived on, {dies} died, sends went on; emptied, it joined as "
        f"replica {new}"
    )


@contextmanager
def without_risk(stage: BrokerStage) -> Iterator[None]:
    """No election in it says that messages may be missing: there always is one that holds them
    all.
    """
    risks = at_risk(stage)
    yield
    if at_risk(stage) != risks:
        raise NotAsItShouldBe(
            "an election says that messages may be missing, although a replica held them all"
        )


@contextmanager
def _unheard(stage: BrokerStage, name: str) -> Iterator[None]:
    """Its way to and from the controllers is cut, long enough that they hold it for dead, and no
    other.
    """
    with network_of(stage).apart([name], [CONTROLLERS]):
        stage.wait_for(UNHEARD_S)
        yield


def _power_lost(armed: Armed, name: str) -> int:
    """`kill -9` if it lives, and nothing that was not flushed is there any more; how many bytes are
    gone.
    """
    armed.wait_dead(armed.stage.kill(name))
    return sum(loss.bytes_lost for loss in armed.power_lost(name, kept=0.0))


def _must_be(wanted: str, leads: str) -> None:
    if leads != wanted:
        raise NotAsItShouldBe(f"{leads} leads, and not {wanted}")


def _is_recorded(stage: BrokerStage, name: str) -> bool:
    view = stage.cluster.view.view()
    return view is not None and view.master_address == stage.cluster.process(name)["address"]


LINES = (
    Line(
        "kill-then-power",
        "the master dies, then the only one elected loses its power; the third is cut from the "
        "controllers",
        kill_then_power,
        cuts=True,
        armed=True,
    ),
    Line(
        "power-then-kill",
        "a slave loses its power, then the master dies before it is noticed; the third is cut "
        "from the controllers",
        power_then_kill,
        cuts=True,
        armed=True,
    ),
    Line(
        "gone-for-good",
        "the machine of the only member is gone for good: who was left out leads",
        gone_for_good,
        armed=True,
    ),
    Line(
        "unheard-member",
        "a slave is cut from the controllers only, another one dies: sends go on",
        unheard_and_one_dies,
        cuts=True,
        armed=True,
    ),
    Line(
        "cleaned-alive",
        "a replica is cleaned while its process lives, another one dies: sends go on",
        cleaned_and_one_dies,
        settings=ALONE,
        armed=True,
    ),
)
