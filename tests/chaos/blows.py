"""The blows, one function each: what is hit, and what must be seen before the next decision is
asked for.

Each gives a line for the report. Refuses to know how load and loss are measured.
"""

from __future__ import annotations

import asyncio
import json
import signal
import time

from processors.fold.state_digest import STATE_DIGEST_EVERY, has_state_digest
from processors.log.faust_worker import FaustWorker
from tests.chaos.hits import NotAsItShouldBe
from tests.chaos.registrations import register_all
from tests.chaos.stage import Stage
from tests.support.local_cluster import wait_until

READ_WITHIN_S = 10.0
PAUSE_S = 20.0
KAFKA_PAUSE_S = 30.0
AWAY_S = 60.0
SETS = 1_000
STRANGERS = 3
STORM_DECISIONS = 10
STUCK_WITHIN_S = 20.0
SNAPSHOT_TRIES = 5
EXPELLED_AFTER_S = 6.0
"""Longer than the group's session timeout."""
HALTED = "it is stuck; starting again helps"
HELPED = "were read directly"


def controller_killed(stage: Stage) -> str:
    victim = stage.leader()
    pid = stage.cluster.kill(victim)
    began = time.monotonic()
    heir = stage.leader(other_than=victim)
    took = time.monotonic() - began
    stage.wait_restarted({victim: pid})
    return f"kill -9 {victim}: {heir} leads after {took:.2f} s"


def controller_paused(stage: Stage) -> str:
    victim = stage.leader()
    began = time.monotonic()
    with stage.paused(victim):
        heir = stage.leader(other_than=victim)
        took = time.monotonic() - began
        asked = stage.decide("while-paused")
        time.sleep(max(0.0, PAUSE_S - (time.monotonic() - began)))
    if stage.leader() != heir:
        raise NotAsItShouldBe(f"{victim} woke and took the lead from {heir}")
    return (
        f"{victim} stands still for {PAUSE_S:.0f} s: {heir} leads after {took:.2f} s, decides "
        f"after {asked:.2f} s more"
    )


def controller_and_master(stage: Stage) -> str:
    before = stage.cluster.whole()
    controller = stage.leader()
    master = stage.cluster.view.process_at(before.master_address or "")["name"]
    pids = {name: stage.cluster.kill(name) for name in (controller, master)}
    began = time.monotonic()
    after = stage.cluster.set_view(
        "another master is elected",
        lambda view: view.master_id is not None and view.master_epoch > before.master_epoch,
    )
    took = time.monotonic() - began
    stage.wait_restarted(pids)
    return (
        f"kill -9 {controller} and {master}: {after.controller} has elected broker "
        f"{after.master_id} after {took:.2f} s"
    )


def all_controllers(stage: Stage) -> str:
    names = [one["name"] for one in stage.cluster.processes("controller")]
    with stage.held(*names):
        time.sleep(AWAY_S)
    return f"no controller for {AWAY_S:.0f} s, brokers serve on"


def two_of_three(stage: Stage) -> str:
    names = [one["name"] for one in stage.cluster.processes("controller")]
    first = stage.leader()
    second = next(name for name in names if name != first)
    with stage.held(first, second):
        left = stage.leader()
        took = stage.decide("with-one-left")
    return f"{first} and {second} are gone: {left} decides after {took:.2f} s"


def kafka_paused(stage: Stage) -> str:
    names = [one["name"] for one in stage.cluster.processes("kafka")]
    with stage.paused(*names):
        time.sleep(KAFKA_PAUSE_S)
    return f"{len(names)} Kafka nodes stand still for {KAFKA_PAUSE_S:.0f} s"


def kafka_killed(stage: Stage) -> str:
    names = [one["name"] for one in stage.cluster.processes("kafka")]
    pids = {name: stage.cluster.kill(name) for name in names}
    stage.wait_restarted(pids)
    return f"kill -9 of all {len(names)} Kafka nodes"


def kafka_restarted(stage: Stage) -> str:
    names = [one["name"] for one in stage.cluster.processes("kafka")]
    for name in names:
        stage.log_node()
        pid = int(stage.cluster.process(name)["pid"])
        stage.signal([name], signal.SIGTERM)
        stage.wait_restarted({name: pid})
    stage.log_node()
    return f"{len(names)} Kafka nodes restarted one after the other"


def log_leader_killed(stage: Stage) -> str:
    victim = stage.log_node()
    pid = stage.cluster.kill(victim)
    took = stage.decide("log-leader-killed")
    stage.wait_restarted({victim: pid})
    return f"kill -9 {victim}, which leads the log: a decision after {took:.2f} s"


def log_leader_paused(stage: Stage) -> str:
    victim = stage.log_node()
    began = time.monotonic()
    with stage.paused(victim):
        took = stage.decide("log-leader-paused")
        read = stage.read(max(1.0, READ_WITHIN_S - took))
        time.sleep(max(0.0, PAUSE_S - (time.monotonic() - began)))
    return (
        f"{victim}, which leads the log, stands still for {PAUSE_S:.0f} s: a decision after "
        f"{took:.2f} s, a read {read:.2f} s later"
    )


def snapshots_corrupted(stage: Stage) -> str:
    """Every snapshot of one controller is torn or flipped while it is down; it comes back with the
    same state.
    """
    leader = stage.leader()
    victim = next(
        one["name"] for one in stage.cluster.processes("controller") if one["name"] != leader
    )
    for number in range(SNAPSHOT_TRIES):
        _decide_up_to_a_digest(stage, leader, victim, number)
        stage.hold(victim)
        snapshots = sorted((stage.notes_of(victim) / "snapshots").glob("snapshot-*.bin"))
        if snapshots:
            break
        stage.let_start(victim)  # something else was decided in the last moment
        stage.wait_ready(victim)
    else:
        raise NotAsItShouldBe(f"{victim} has written no snapshot in {SNAPSHOT_TRIES} stops")
    try:
        for number, path in enumerate(snapshots):
            data = bytearray(path.read_bytes())
            if number % 2:
                data = data[: len(data) // 2]
            else:
                data[len(data) // 2] ^= 1
            path.write_bytes(data)
    finally:
        stage.let_start(victim)
        stage.wait_ready(victim)
    if "is not used: torn" not in stage.log_of(victim):
        raise NotAsItShouldBe(f"{victim} did not say that its snapshots are torn")
    stage.leader()
    return f"{len(snapshots)} snapshots of {victim} destroyed"


def _decide_up_to_a_digest(stage: Stage, leader: str, follower: str, number: int) -> None:
    """Until both have folded the command of such an offset: a stop writes a snapshot only there."""
    for decided in range(2 * STATE_DIGEST_EVERY):
        stage.decide(f"snapshots-{number}-{decided}")
        offset = stage.applied_offset(leader)
        if has_state_digest(offset):
            wait_until(lambda: stage.applied_offset(follower) >= offset, f"{follower} is as far")
            return
    raise NotAsItShouldBe(f"{leader} has met no offset with a digest")


def worker_stuck(stage: Stage) -> str:
    """Strangers join the stream processor's group again and again; the last one takes its partition
    away for good.

    The other controllers are away: the one that is hit must help itself, and then start anew.
    """
    victim = stage.leader()
    others = [one["name"] for one in stage.cluster.processes("controller") if one["name"] != victim]
    with stage.held(*others):
        return asyncio.run(_storm(stage, victim))


async def _storm(stage: Stage, victim: str) -> str:
    starts = json.loads((stage.notes_of(victim) / "start-notes.json").read_text())["starts"]
    group = f"regent-{stage.cluster_id}-{victim}-{starts}"
    seen, pid = len(stage.log_of(victim)), int(stage.cluster.process(victim)["pid"])
    strangers: list[FaustWorker] = []
    try:
        for number in range(STRANGERS):
            stranger = FaustWorker(
                group,
                {"bootstrap.servers": stage.cluster.bootstrap},
                stage.home / f"stranger-{number}",
                next_offset=lambda: 0,
                on_record=lambda offset, data: None,
                on_failure=lambda reason: None,
            )
            await stranger.start()
            strangers.append(stranger)
            for decision in range(STORM_DECISIONS):
                await stage.ask_decision(f"storm-{number}-{decision}", 60.0)
            if number < STRANGERS - 1:
                await stranger.stop()
        with stage.paused(victim):
            await asyncio.sleep(EXPELLED_AFTER_S)
        decided, deadline = 0, time.monotonic() + STUCK_WITHIN_S
        while HALTED not in stage.log_of(victim)[seen:] and time.monotonic() < deadline:
            await stage.ask_decision(f"stuck-{decided}", 60.0)
            decided += 1
        if HALTED in stage.log_of(victim)[seen:]:
            stage.wait_restarted({victim: pid})
    finally:
        await asyncio.gather(*(one.stop() for one in strangers), return_exceptions=True)
    told = stage.log_of(victim)[seen:]
    helped, anew = (
        told.count(HELPED),
        "it starts anew" if HALTED in told else ("it has its partition back"),
    )
    return (
        f"{victim} alone, {STRANGERS} strangers in its group: "
        f"{STRANGERS * STORM_DECISIONS + decided} decisions, {helped} times read directly, {anew}"
    )


def thousand_sets(stage: Stage) -> str:
    before = stage.cluster.whole().term
    result = asyncio.run(register_all(stage.controllers, SETS))
    if result.wrong:
        raise NotAsItShouldBe(
            f"{len(result.wrong)} of {SETS} sets are wrong, first {result.wrong[0]}"
        )
    return (
        f"{SETS} sets at once over {result.connections} sockets: id, registration and master for "
        f"all after {result.seconds:.1f} s ({result.asked_again} asked again, terms {before} to "
        f"{stage.cluster.whole().term})"
    )
