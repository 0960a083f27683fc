"""Bugs planted into the product by these tests; the simulation must find each of them within a few
worlds.

Each bug is a patch of one product function. A found seed is run once more without the patch: then
every promise holds, so that it is the bug that was found and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from brokers.ha import slave_link
from brokers.ha.epochs import EpochHistory
from brokers.ha.sync_set import SyncSet
from brokers.replica import transitions
from brokers.replica.effects import AppendRaw, SendBytes, WriteEpochs
from brokers.replica.master_role import MasterRole
from brokers.replica.roles import Verdict, judge
from brokers.replica.slave_role import SlaveRole
from brokers.replica.transitions import RoleTransitions
from brokers.service.role.hand_over import Facts, HandOver, Stage
from brokers.service.role.role_view import RoleView
from processors.fold import candidates, decide, decide_elect, decide_replicas
from processors.fold.recent_commands import RecentCommands
from processors.fold.refusals import Refusal
from tests.simulation.cluster import Shape
from tests.simulation.judged import say
from tests.simulation.known_seeds import first_found
from tests.simulation.mixes import MIXES, Mix
from tests.simulation.run import run_world
from tests.simulation.world import InvariantBroken, World

FAULTY_MS = 12_000
FIRST_SEED = 1
WITHOUT_STRAYS_SEEDS = 4
MISFITS = ("TypeError", "AttributeError", "NameError", "KeyError")
# the set cannot shrink: who restarts stays a member, and no other can be elected
TWO = Shape(brokers=2)

DEATHS = Mix(
    {"kill_broker": 2, "kill_master": 2, "kill_inside": 2, "isolate": 1},
    every_ms=(100, 700),
    odd=False,
)
WITHIN = Mix({"kill_inside": 4, "kill_broker": 1}, every_ms=(100, 700), odd=False)
POWER = Mix(
    {"lose_power": 4, "kill_master": 2, "restart_master": 1}, every_ms=(200, 900), odd=False
)
CUTS = Mix(
    {"isolate": 3, "pause_broker": 2, "designate": 2, "suspect": 2}, every_ms=(100, 700), odd=False
)
# The last one of a world decides: what follows it makes good what it left.
SELDOM_HANDED = Mix({"hand_over": 1}, every_ms=(2_000, 6_000), stall_one_in=0)
LONELY = Mix({"isolate": 3, "kill_broker": 1}, every_ms=(1_200, 2_500), stall_one_in=2, odd=False)
POLLED = Mix(
    {"poll": 6, "slow_links": 2, "restart_slave": 1}, every_ms=(50, 300), stall_one_in=2, odd=False
)
STALE = Mix({"suspect": 4, "restart_slave": 4}, every_ms=(60, 300), stall_one_in=8, odd=False)
STRAY = Mix(
    {"late_notice": 3, "repeated_notice": 3, "kill_master": 2, "kill_broker": 2},
    every_ms=(100, 800),
    stall_one_in=0,
    odd=False,
)
NO_STRAYS = Mix(
    {"kill_master": 2, "kill_broker": 2}, every_ms=(100, 800), stall_one_in=0, odd=False
)
ODD = Mix(
    {"suspect": 3, "kill_leader": 1, "restart_master": 2, "kill_broker": 1},
    every_ms=(100, 600),
    stall_one_in=6,
)

Patch = pytest.MonkeyPatch


@dataclass(frozen=True, slots=True)
class Planted:
    """A bug, the worlds it is looked for in, and within how many of them it must be found."""

    plant: Callable[[Patch], None]
    mix: Mix
    seeds: int
    shape: Shape = Shape()
    faulty_ms: int = FAULTY_MS


def acknowledged_before_all_members_did(patch: Patch) -> None:
    def own_log_is_enough(self: SyncSet, log_end: int, acked: Mapping[int, int]) -> int | None:
        return max([*acked.values(), 0])

    patch.setattr(SyncSet, "confirm_candidate", own_log_is_enough)


def pending_proposal_dropped_by_a_poll(patch: Patch) -> None:
    learn_set = MasterRole.learn_set

    def forgetful(self: MasterRole, members: Any, set_epoch: int, now_ms: int) -> list[Any]:
        proposal = self.sync.proposal
        if proposal is not None and set_epoch <= self.sync.set_epoch:
            self.sync.refused(proposal.token)
            self._propose_after_ms = now_ms + self._config.propose_retry_ms
        return learn_set(self, members, set_epoch, now_ms)

    patch.setattr(MasterRole, "learn_set", forgetful)


def no_term_check_in_the_fold(patch: Patch) -> None:
    guard = decide.guard

    def lenient(state: Any, command: Any) -> Refusal | None:
        refusal = guard(state, command)
        return None if refusal is Refusal.STALE_TERM and state.term else refusal

    patch.setattr(decide, "guard", lenient)


def same_command_applied_twice(patch: Patch) -> None:
    patch.setattr(RecentCommands, "get", lambda self, command_id: None)
    patch.setattr(RecentCommands, "remember", lambda self, command_id, first: None)


def election_for_epochs_that_moved(patch: Patch) -> None:
    hold = decide_elect._not_to_be_held

    def blind(broker_set: Any, command: Any) -> Refusal | None:
        refusal = hold(broker_set, command)
        return None if refusal is Refusal.STATE_MOVED else refusal

    patch.setattr(decide_elect, "_not_to_be_held", blind)


def cut_one_epoch_too_late(patch: Patch) -> None:
    def generous(
        local: EpochHistory, local_end: int, master: EpochHistory, master_end: int
    ) -> int | None:
        if not local:
            return 0
        for entry in reversed(local.entries):
            if master.entry(entry.epoch) == entry:
                return min(local_end, master_end)
        return 0

    patch.setattr(slave_link, "consistent_offset", generous)


def cut_one_epoch_too_early(patch: Patch) -> None:
    def strict(
        local: EpochHistory, local_end: int, master: EpochHistory, master_end: int
    ) -> int | None:
        for entry in reversed(local.entries):
            if master.entry(entry.epoch) == entry:
                return min(entry.start_offset, local_end)
        return 0

    patch.setattr(slave_link, "consistent_offset", strict)


def unclean_replica_stays_a_member(patch: Patch) -> None:
    patch.setattr(decide_replicas, "_is_unclean_start", lambda *_: False)


def restarted_master_goes_on_in_its_epoch(patch: Patch) -> None:
    def at_once(standing: Any, notice: Any) -> Verdict:
        verdict = judge(standing, notice)
        own = notice.master_id == standing.broker_id and notice.members is not None
        return (
            Verdict.LEAD
            if verdict is Verdict.ASK_ELECTION and own and standing.trusted
            else verdict
        )

    append = EpochHistory.append

    def again(self: EpochHistory, epoch: int, start_offset: int) -> EpochHistory:
        return self if epoch == self.newest_epoch else append(self, epoch, start_offset)

    patch.setattr(transitions, "judge", at_once)
    patch.setattr(EpochHistory, "append", again)


def new_master_acts_before_its_entry_is_durable(patch: Patch) -> None:
    promoted = RoleTransitions._promoted

    def hasty(self: RoleTransitions, *args: Any) -> list[Any]:
        effects = promoted(self, *args)
        return sorted(effects, key=lambda effect: isinstance(effect, WriteEpochs))

    patch.setattr(RoleTransitions, "_promoted", hasty)


def empty_epoch_is_not_superseded(patch: Patch) -> None:
    append = EpochHistory.append

    def as_java_does(self: EpochHistory, epoch: int, start_offset: int) -> EpochHistory:
        return (
            self
            if self and start_offset == self.newest_start
            else append(self, epoch, start_offset)
        )

    patch.setattr(EpochHistory, "append", as_java_does)


def slave_acknowledges_before_it_writes(patch: Patch) -> None:
    perform = SlaveRole._perform

    def eager(self: SlaveRole, *args: Any) -> list[Any]:
        effects = perform(self, *args)
        writes = any(isinstance(effect, AppendRaw) for effect in effects)
        return (
            sorted(effects, key=lambda effect: not isinstance(effect, SendBytes))
            if writes
            else effects
        )

    patch.setattr(SlaveRole, "_perform", eager)


def acknowledgements_of_old_links_count(patch: Patch) -> None:
    candidate = SyncSet.confirm_candidate

    def remembering(self: SyncSet, log_end: int, acked: Mapping[int, int]) -> int | None:
        seen: dict[int, int] = self.__dict__.setdefault("_seen", {})
        for member, offset in acked.items():
            seen[member] = max(offset, seen.get(member, -1))
        return candidate(self, log_end, dict.fromkeys(seen, log_end))

    patch.setattr(SyncSet, "confirm_candidate", remembering)


def replica_joins_before_it_has_caught_up(patch: Patch) -> None:
    patch.setattr(
        SyncSet, "_may_join", lambda self, slave, confirm_offset, epoch_start: slave.acked >= 0
    )


def heartbeats_of_a_former_life_elect(patch: Patch) -> None:
    liveness = candidates._liveness

    def trusting(*args: Any) -> str:
        found = liveness(*args)
        return candidates.ALIVE if found == candidates.STALE_INCARNATION else found

    patch.setattr(candidates, "_liveness", trusting)


def lost_member_is_left_out_before_the_controller_agrees(patch: Patch) -> None:
    patch.setattr(
        SyncSet,
        "union",
        property(lambda self: self.proposal.members if self.proposal else self.confirmed),
    )


def old_master_is_followed_again(patch: Patch) -> None:
    def forgiving(standing: Any, notice: Any) -> Verdict:
        verdict = judge(standing, notice)
        other = notice.master_id is not None and notice.master_id not in (
            standing.broker_id,
            standing.master_id,
        )
        return Verdict.FOLLOW if verdict is Verdict.IGNORE and other else verdict

    patch.setattr(transitions, "judge", forgiving)


def late_notice_brings_back_an_older_set(patch: Patch) -> None:
    learn = SyncSet.learn

    def unordered(self: SyncSet, members: Any, set_epoch: int) -> bool:
        if set_epoch < self.set_epoch:
            self.set_epoch = set_epoch - 1
        return learn(self, members, set_epoch)

    patch.setattr(SyncSet, "learn", unordered)


def writes_are_held_after_a_hand_over_failed(patch: Patch) -> None:
    drain = RoleView.drain
    patch.setattr(RoleView, "drain", lambda self, on: drain(self, on) if on else None)


def a_hand_over_waits_for_nobody(patch: Patch) -> None:
    """Sends that are in the log and not confirmed by everybody fail."""

    def at_once(self: HandOver, facts: Facts, now_ms: int) -> None:
        self.stage = Stage.ASKING

    patch.setattr(HandOver, "_drain", at_once)


PLANTED: Mapping[str, Planted] = {
    bug.plant.__name__: bug
    for bug in (
        Planted(writes_are_held_after_a_hand_over_failed, SELDOM_HANDED, 40),
        Planted(a_hand_over_waits_for_nobody, MIXES["handed"], 20),
        Planted(acknowledged_before_all_members_did, DEATHS, 10),
        Planted(pending_proposal_dropped_by_a_poll, POLLED, 20),
        Planted(no_term_check_in_the_fold, ODD, 5),
        Planted(same_command_applied_twice, ODD, 5),
        Planted(election_for_epochs_that_moved, ODD, 10),
        Planted(cut_one_epoch_too_late, CUTS, 20),
        Planted(cut_one_epoch_too_early, DEATHS, 20),
        Planted(unclean_replica_stays_a_member, POWER, 10),
        Planted(restarted_master_goes_on_in_its_epoch, POWER, 10),
        Planted(new_master_acts_before_its_entry_is_durable, DEATHS, 5),
        Planted(empty_epoch_is_not_superseded, CUTS, 10),
        Planted(slave_acknowledges_before_it_writes, WITHIN, 20),
        Planted(acknowledgements_of_old_links_count, CUTS, 10),
        Planted(replica_joins_before_it_has_caught_up, DEATHS, 20),
        Planted(heartbeats_of_a_former_life_elect, STALE, 5, TWO),
        Planted(lost_member_is_left_out_before_the_controller_agrees, LONELY, 60),
        Planted(old_master_is_followed_again, CUTS, 20),
        Planted(late_notice_brings_back_an_older_set, STRAY, 20),
    )
}


KEPT_IN_COUNT_MODE = (
    "restarted_master_goes_on_in_its_epoch",
    "new_master_acts_before_its_entry_is_durable",
    "empty_epoch_is_not_superseded",
)
"""Bugs against what even brokers promise that may lose (S2): one master per epoch, and equal logs
in the end.
"""


def broken_promise(seed: int, bug: Planted) -> str | None:
    """What one world shows to be broken; None when every promise holds."""
    try:
        run_world(World(seed), bug.mix, bug.shape, bug.faulty_ms)
    except InvariantBroken as error:
        return str(error)
    return None


def find(bug: Planted, request: pytest.FixtureRequest) -> None:
    """Fails unless the bug is found in time, and only the bug."""
    name = bug.plant.__name__
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        found = first_found(
            f"cluster/{request.node.name}",
            range(FIRST_SEED, FIRST_SEED + bug.seeds),
            lambda seed: broken_promise(seed, bug),
        )
    assert found is not None, f"{name} was not found in {bug.seeds} worlds"
    seed, broken = found
    assert not broken.startswith(MISFITS), f"the plant does not fit the product any more: {broken}"
    say(request, f"{name}: seed {seed}: {broken}")
    assert broken_promise(seed, bug) is None, "the same world is broken without the bug"


@pytest.mark.simulation
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str, request: pytest.FixtureRequest) -> None:
    find(PLANTED[name], request)


@pytest.mark.simulation
def test_only_messages_that_go_astray_find_what_a_late_notice_breaks() -> None:
    bug = PLANTED[late_notice_brings_back_an_older_set.__name__]
    for seed in range(FIRST_SEED, FIRST_SEED + WITHOUT_STRAYS_SEEDS):
        with pytest.MonkeyPatch.context() as patch:
            bug.plant(patch)
            assert broken_promise(seed, replace(bug, mix=NO_STRAYS)) is None


@pytest.mark.simulation
@pytest.mark.parametrize("name", KEPT_IN_COUNT_MODE)
def test_what_count_mode_promises_all_the_same_is_watched_there(
    name: str, request: pytest.FixtureRequest
) -> None:
    find(replace(PLANTED[name], shape=Shape(count_mode=True)), request)
