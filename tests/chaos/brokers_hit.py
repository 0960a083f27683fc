"""Faults of broker processes: killed, paused, all at once, again and again."""

from __future__ import annotations

from tests.chaos.broker_stage import SILENCE_MS, BrokerStage
from tests.chaos.line import OF_THE_COMMON_ONES, Line

PAUSE_S = 5.0
KILLS = 5


def master_killed(stage: BrokerStage) -> str:
    victim = stage.master()
    pids = stage.kill(victim)
    heir = stage.new_master(victim)
    stage.wait_restarted(pids)
    return f"{victim} killed, {heir} leads"


def slave_killed(stage: BrokerStage) -> str:
    victim = stage.slaves()[0]
    stage.wait_restarted(stage.kill(victim))
    return f"{victim} killed"


def master_paused(stage: BrokerStage) -> str:
    victim = stage.master()
    with stage.paused(victim):
        heir = stage.new_master(victim)
        stage.flows()
        stage.wait_for(PAUSE_S)
    return f"{victim} stood still for more than {PAUSE_S:.0f} s, {heir} leads"


def slave_paused(stage: BrokerStage) -> str:
    victim = stage.slaves()[0]
    with stage.paused(victim):
        stage.wait_for(PAUSE_S)
        stage.flows()
    return f"{victim} stood still for more than {PAUSE_S:.0f} s"


def all_killed(stage: BrokerStage) -> str:
    stage.wait_restarted(stage.kill(*stage.brokers))
    return f"all {len(stage.brokers)} killed, {stage.master()} leads"


def master_killed_again_and_again(stage: BrokerStage) -> str:
    fell = []
    for _ in range(KILLS):
        victim = stage.master()
        stage.kill(victim)
        stage.new_master(victim)
        stage.flows(20)
        fell.append(victim.rpartition("-")[2])
    stage.wait_ready(*stage.brokers)
    return f"masters killed one after the other: {', '.join(fell)}"


LINES = (
    Line("master-killed", "kill -9 of the master", master_killed, runs=OF_THE_COMMON_ONES),
    Line("slave-killed", "kill -9 of a slave", slave_killed, runs=OF_THE_COMMON_ONES),
    Line(
        "master-paused",
        f"the master stands still for 5 s and wakes; silence of {SILENCE_MS} ms counts as death",
        master_paused,
        runs=OF_THE_COMMON_ONES,
    ),
    Line(
        "slave-paused",
        "a slave stands still for 5 s and wakes",
        slave_paused,
        runs=OF_THE_COMMON_ONES,
    ),
    Line(
        "all-killed",
        "kill -9 of all brokers in the same instant",
        all_killed,
        runs=OF_THE_COMMON_ONES,
    ),
    Line(
        "kills-in-a-row",
        "the current master is killed five times in a row",
        master_killed_again_and_again,
    ),
)
