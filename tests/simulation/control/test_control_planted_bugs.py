"""Bugs planted into the control plane by these tests; the simulation must find each within a few
worlds.

Each bug is a patch of one product function. A found seed is run once more without the patch: then
every promise holds, so that it is the bug that was found and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from events.changes import BrokersCleaned, SyncStateSetAltered
from processors.controller.core import ControllerCore
from processors.controller.forwarding import Forwarding
from processors.controller.leadership import Leadership
from processors.controller.operators import OperatorRequests
from processors.controller.outcomes import OutcomeBacklog
from processors.controller.reads import ReadBarrier, Reads
from processors.fold import (
    candidates,
    decide,
    decide_cluster,
    decide_replicas,
    decide_sync_set,
    elect,
    evolve,
    snapshot_codec,
)
from processors.fold.folder import Folder
from processors.fold.recent_commands import RecentCommands
from processors.fold.refusals import Decision, Refusal
from processors.liveness.mass_silence import MassSilence
from tests.simulation.control.faults import Mix
from tests.simulation.control.realm import Shape
from tests.simulation.control.run import run_world
from tests.simulation.judged import say
from tests.simulation.known_seeds import first_found
from tests.simulation.world import InvariantBroken, World

FAULTY_MS = 12_000
FIRST_SEED = 1

LEADERS = Mix(
    {
        "pause_leader": 4,
        "kill_leader": 1,
        "cut_leader_from_log": 2,
        "transfer": 2,
        "kill_master": 2,
    },
    every_ms=(80, 600),
)
LATE = Mix(
    {"kill_leader": 2, "pause_leader": 2, "kill_master": 2, "kill_broker": 2},
    every_ms=(100, 700),
    trouble_one_in=4,
)
DISKS = Mix(
    {"clean": 4, "retire": 3, "wipe_disk": 2, "lose_power": 2},
    every_ms=(200, 900),
    trouble_one_in=0,
)
RESTARTS = Mix(
    {"restart_master": 4, "kill_master": 2, "kill_broker": 2, "pause_leader": 1},
    every_ms=(80, 600),
    trouble_one_in=6,
)
DEAF = Mix({"cut_leader_from_brokers": 1}, every_ms=(1_500, 3_000), trouble_one_in=0)
SNAPSHOTS = Mix({"bad_snapshot": 3, "kill_leader": 1}, every_ms=(300, 1_200))
UPGRADES = Mix({"upgrade": 3, "transfer": 1}, every_ms=(300, 1_500), trouble_one_in=0)
CLOCKS = Mix(
    {"clock_jump": 4, "cut_leader_from_log": 2, "isolate": 1},
    every_ms=(200, 1_000),
    trouble_one_in=0,
)
FORMER = Mix({"kill_leader": 3, "kill_all_controllers": 1, "kill_master": 1}, every_ms=(200, 900))
POWER = Mix({"lose_power": 4, "kill_master": 1}, every_ms=(150, 700), trouble_one_in=0)
BLACKOUTS = Mix(
    {"blackout": 4, "lose_power": 2, "kill_broker": 1}, every_ms=(800, 2_500), trouble_one_in=0
)
ODD = Mix({"odd": 1}, every_ms=(20, 150), trouble_one_in=0)
STUCK = Mix(
    {"stuck_reader": 4, "transfer": 1, "log_leader": 1}, every_ms=(200, 900), trouble_one_in=3
)
HANDED_ON = Mix(
    {"transfer": 4, "pause_leader": 3, "kill_leader": 2, "kill_master": 2},
    every_ms=(60, 400),
    trouble_one_in=3,
)

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug, the worlds it is looked for in, and within how many of them it must be found."""

    plant: Callable[[Patch], None]
    mix: Mix
    seeds: int
    shape: Shape = Shape()


def no_term_check_in_the_fold(patch: Patch) -> None:
    guard = decide.guard

    def lenient(state: Any, command: Any) -> Refusal | None:
        refusal = guard(state, command)
        return None if refusal is Refusal.STALE_TERM and state.term else refusal

    patch.setattr(decide, "guard", lenient)


def reads_are_served_without_asking_the_log(patch: Patch) -> None:
    patch.setattr(Reads, "when_current", lambda self, waiter, serve: serve(waiter))


def reads_use_an_end_that_was_asked_for_before_they_came(patch: Patch) -> None:
    def add(self: ReadBarrier[Any], read: Any, deadline_ms: int) -> None:
        before = len(self._unasked)
        honest(self, read, deadline_ms)
        if self._open:
            self._asked.append(self._unasked.pop(before))

    honest = ReadBarrier.add
    patch.setattr(ReadBarrier, "add", add)


def a_claim_does_not_look_at_the_term_it_expected(patch: Patch) -> None:
    claim = decide_cluster.claim_leadership

    def greedy(state: Any, command: Any) -> Decision:
        return claim(state, replace(command, expected_term=state.term))

    patch.setattr(decide_cluster, "claim_leadership", greedy)


def ids_are_given_again_after_a_clean(patch: Patch) -> None:
    clean = evolve.EVOLVE[BrokersCleaned]

    def forgetful(broker_set: Any, change: BrokersCleaned) -> Any:
        after = clean(broker_set, change)
        return replace(
            after, next_broker_id=1 + max((one.broker_id for one in after.replicas), default=0)
        )

    patch.setitem(evolve.EVOLVE, BrokersCleaned, forgetful)


def epochs_start_again_after_a_clean(patch: Patch) -> None:
    clean = evolve.EVOLVE[BrokersCleaned]

    def forgetful(broker_set: Any, change: BrokersCleaned) -> Any:
        after = clean(broker_set, change)
        return (
            replace(after, master_epoch=0, sync_state_set_epoch=0, highest_epoch_seen=0)
            if after.tombstone
            else after
        )

    patch.setitem(evolve.EVOLVE, BrokersCleaned, forgetful)


def evidence_is_ignored(patch: Patch) -> None:
    patch.setattr(candidates, "_liveness", lambda *args: candidates.ALIVE)


def a_command_is_applied_twice(patch: Patch) -> None:
    patch.setattr(RecentCommands, "get", lambda self, command_id: None)
    patch.setattr(RecentCommands, "remember", lambda self, command_id, first: None)


def a_snapshot_of_another_version_is_accepted(patch: Patch) -> None:
    load = snapshot_codec.load

    def trusting(data: bytes, *args: Any) -> Folder:
        head, digest, body = ([*data.split(b"\n", 2), b"", b""])[:3]
        magic, _, version = head.rpartition(b" ")
        if version.isdigit():
            data = b"\n".join((b"%s %d" % (magic, snapshot_codec.SNAPSHOT_VERSION), digest, body))
        return load(data, *args)

    patch.setattr(snapshot_codec, "load", trusting)


def liveness_counts_by_the_wall_clock(patch: Patch) -> None:
    tick, on_request = ControllerCore.tick, ControllerCore.on_request
    patch.setattr(
        ControllerCore, "tick", lambda self, now_ms, wall_ms: tick(self, wall_ms, wall_ms)
    )
    patch.setattr(
        ControllerCore,
        "on_request",
        lambda self, conn, peer, request, now_ms, wall_ms: on_request(
            self, conn, peer, request, wall_ms, wall_ms
        ),
    )


def mass_silence_holds_nothing(patch: Patch) -> None:
    patch.setattr(MassSilence, "holds", lambda self, *args: False)


def a_forwarded_command_has_no_id(patch: Patch) -> None:
    def park(self: Forwarding, waiter: Any, ids: Any, now_ms: int) -> None:
        honest(self, waiter, ids, now_ms)
        self._parked[-1].request.ext.pop("regentCommandId", None)

    honest = Forwarding.park
    patch.setattr(Forwarding, "park", park)


def publishing_goes_on_behind_what_was_applied(patch: Patch) -> None:
    def resume(self: OutcomeBacklog, last_published: int) -> bool:
        self._ready, self._sent = True, max(0, len(self._entries) - 1)
        return True

    patch.setattr(OutcomeBacklog, "resume", resume)


def rules_become_active_while_a_controller_lacks_them(patch: Patch) -> None:
    patch.setattr(
        OperatorRequests, "activate_rules", lambda self, waiter: self._commands.request(waiter)
    )


def a_former_life_leads_on(patch: Patch) -> None:
    patch.setattr(Leadership, "is_active", property(lambda self: self._leader_id == self._own_id))


def waiting_for_the_log_has_no_end(patch: Patch) -> None:
    patch.setattr(ReadBarrier, "expired", lambda self, now_ms: [])


def an_unclean_replica_stays_a_member(patch: Patch) -> None:
    patch.setattr(decide_replicas, "_is_unclean_start", lambda *_: False)


def the_shortest_log_leads_after_a_loss(patch: Patch) -> None:
    longest = elect._longest

    def shortest(among: Any, *others: Any) -> Any:
        return longest([min(among, key=lambda one: (one.epoch, one.max_offset))], *others)

    patch.setattr(elect, "_longest", shortest)


def a_master_may_leave_its_set(patch: Patch) -> None:
    alter = decide_sync_set.alter_sync_state_set

    def willing(state: Any, command: Any) -> Decision:
        decision = alter(state, command)
        if decision.refusal is not Refusal.SET_WITHOUT_MASTER:
            return decision
        known = state.sets[command.broker_name]
        members = tuple(command.new_sync_state_set)
        change = SyncStateSetAltered(
            known.broker_name,
            members,
            known.sync_state_set_epoch + 1,
            (),
            (),
            "PROPOSED",
            (),
            known.highest_epoch_seen,
        )
        return Decision(changes=(change,))

    patch.setattr(decide_sync_set, "alter_sync_state_set", willing)


PLANTED: Mapping[str, Planted] = {
    bug.plant.__name__: bug
    for bug in (
        Planted(no_term_check_in_the_fold, LEADERS, 10),
        Planted(reads_are_served_without_asking_the_log, LEADERS, 10),
        Planted(reads_use_an_end_that_was_asked_for_before_they_came, STUCK, 20, Shape(readers=8)),
        Planted(a_claim_does_not_look_at_the_term_it_expected, LATE, 20),
        Planted(ids_are_given_again_after_a_clean, DISKS, 10),
        Planted(epochs_start_again_after_a_clean, DISKS, 10),
        Planted(evidence_is_ignored, RESTARTS, 10),
        Planted(a_command_is_applied_twice, LATE, 10),
        Planted(a_snapshot_of_another_version_is_accepted, SNAPSHOTS, 20),
        Planted(liveness_counts_by_the_wall_clock, CLOCKS, 10),
        Planted(mass_silence_holds_nothing, DEAF, 20),
        Planted(a_forwarded_command_has_no_id, HANDED_ON, 40, Shape(java_sets=6)),
        Planted(publishing_goes_on_behind_what_was_applied, LEADERS, 20),
        Planted(rules_become_active_while_a_controller_lacks_them, UPGRADES, 10, Shape(rules=(1,))),
        Planted(a_former_life_leads_on, FORMER, 20),
        Planted(waiting_for_the_log_has_no_end, LEADERS, 10),
        Planted(an_unclean_replica_stays_a_member, POWER, 20),
        Planted(the_shortest_log_leads_after_a_loss, BLACKOUTS, 20),
        Planted(a_master_may_leave_its_set, ODD, 10),
    )
}


def broken_promise(seed: int, bug: Planted) -> str | None:
    """What one world shows to be broken; None when every promise holds."""
    try:
        run_world(World(seed), bug.mix, bug.shape, FAULTY_MS)
    except InvariantBroken as error:
        return str(error)
    return None


@pytest.mark.simulation
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str, request: pytest.FixtureRequest) -> None:
    bug = PLANTED[name]
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        found = first_found(
            f"control/{name}",
            range(FIRST_SEED, FIRST_SEED + bug.seeds),
            lambda seed: broken_promise(seed, bug),
        )
    assert found is not None, f"{name} was not found in {bug.seeds} worlds"
    seed, broken = found
    say(request, f"{name}: seed {seed}: {broken}")
    assert broken_promise(seed, bug) is None, "the same world is broken without the bug"
