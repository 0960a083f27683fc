"""Design section 4: one test for each safety rule of a set, under the rule's name (S11, the command
log's own, stands in tests/unit/processors/log/test_watch.py; S14 to S20 in test_4_trust.py).

Each rule is shown twice: it holds, and its test fails once the rule is broken on purpose by a patch
of one product function (`BROKEN`). A rule whose breaking nobody sees would not be shown at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from brokers.ha import epoch_file
from brokers.ha.epoch_file import EpochFile, EpochFileError
from brokers.ha.epochs import EpochHistory
from brokers.ha.sync_set import SyncSet
from brokers.membership import identity_file
from brokers.membership.identity_file import IdentityFileError, IdentityFiles
from brokers.membership.registration import Identity
from brokers.replica import effects as fx
from brokers.replica import transitions
from brokers.replica.config import ReplicaConfig
from brokers.replica.master_role import MasterRole
from brokers.replica.put_rules import AckMode
from brokers.replica.roles import Role, RoleNotice, Verdict, judge
from brokers.replica.transitions import RoleTransitions
from brokers.service.metadata.topic_changes import TopicChanges
from brokers.store.files import durable
from processors.fold import decide_replicas, elect
from processors.fold.refusals import ACCEPTED_WITHOUT_CHANGE
from tests.support.broken_on_purpose import Bug, Patch, Rule, cases, is_seen, name_of
from tests.support.brokers import free_port, send_request
from tests.support.client_service import Desk
from tests.support.control_history import seen, with_master, with_replicas
from tests.support.replica_world import RECORD_BYTES, World

H = EpochHistory.of
DEAD = {"alive": False, "reason": "connection_closed"}


def trio(config: ReplicaConfig | None = None) -> World:
    world = World(config)
    for broker_id in (1, 2, 3):
        world.add(broker_id)
    world.elect(1, 1, (1, 2, 3))
    return world


def confirmed(world: World, broker_id: int = 1) -> int:
    return world.nodes[broker_id].core.confirm_offset


def with_a_proposal() -> World:
    """Broker 1 leads (1, 2); broker 3 has caught up and is proposed: nobody answered yet."""
    world = trio()
    world.notify(1, 1, 1, (1, 2), set_epoch=11)
    world.advance(50)
    assert [one.members for one in world.nodes[1].proposals] == [(1, 2, 3)]
    return world


# -- the rules -------------------------------------------------------------------------------------


async def test_s1_success_needs_every_member_of_the_union_with_the_pending_proposal(
    tmp_path: Path,
) -> None:
    for silent in (2, 3):  # a member of the confirmed set; one who is only proposed
        world = with_a_proposal()
        before = confirmed(world)
        world.frozen.add(silent)
        world.write(1)
        assert confirmed(world) == before
        world.frozen.clear()
        world.settle()
        assert confirmed(world) == before + RECORD_BYTES
    alone = trio()
    alone.notify(1, 1, 1, (1,), set_epoch=11)
    assert "in-sync replicas not enough" in (alone.nodes[1].core.write_refusal() or "")
    before = confirmed(alone)
    for link_id in alone.links_of(1):
        alone.cut_link(link_id)
    alone.write(1)
    assert confirmed(alone) == before


async def test_s2_count_mode_says_that_it_may_lose(tmp_path: Path) -> None:
    world = trio(ReplicaConfig(all_ack=False, in_sync_replicas=2))
    world.frozen.add(3)
    # broker 3 is in the set and could be elected without these bytes
    assert world.write(1) == confirmed(world)
    for mode in (AckMode(all_ack=False, in_sync=2), world.config.ack_mode()):
        assert "may lose" in mode.label and any("may lose" in text for text in mode.warnings())
    assert (
        "may lose" not in AckMode().label and not AckMode().warnings() and ReplicaConfig().all_ack
    )


async def test_s3_one_proposal_at_a_time_and_a_read_does_not_drop_it(tmp_path: Path) -> None:
    world = with_a_proposal()
    world.frozen.add(3)
    before = confirmed(world)
    world.write(1)
    world.answer(1, None)  # unknown: it may have been accepted
    world.notify(1, 1, 1, (1, 2), set_epoch=11)  # a read of its base
    world.advance(500)
    assert confirmed(world) == before and len({one.token for one in world.nodes[1].proposals}) == 1
    # the set moved on: with base 11 it is never accepted
    world.notify(1, 1, 1, (1, 2), set_epoch=12)
    assert confirmed(world) == before + RECORD_BYTES


async def test_s4_a_replica_joins_at_the_confirm_offset_and_leaves_when_bytes_wait_for_a_second(
    tmp_path: Path,
) -> None:
    world = trio()
    world.crash(3)
    world.accept(1)
    world.write(1, 5)
    world.restart(3)
    world.notify(3, 1, 1, (1, 2), set_epoch=11)
    node, asked = world.nodes[1], len(world.nodes[1].proposals)
    while world.nodes[3].log.end_offset < confirmed(world):
        assert len(node.proposals) == asked
        assert any([world._deliver(link_id) for link_id in list(world.pipes)])
    world.settle()
    world.advance(50)
    assert node.proposals[-1].members == (1, 2, 3)
    world.accept(1)
    world.frozen.add(3)
    world.write(1)
    world.advance(950)
    assert node.proposals[-1].members == (1, 2, 3)
    world.advance(150)
    assert node.proposals[-1].members == (1, 2)


async def test_s5_an_unclean_start_leaves_the_set_and_vetoes_its_own_promotion(
    tmp_path: Path,
) -> None:
    history = with_master(1, 2, 3)
    assert history.register(2, "another-life", clean=False).accepted
    assert history.set.sync_state_set == (1, 3)
    world = trio()
    world.write(1, 5)
    world.crash(2)
    node = world.restart(2, clean=False)
    world.notify(2, 2, 2, (2, 3))
    assert node.core.role is Role.FENCED and node.asked == [True] and not node.core.clean
    world.notify(1, 1, 3, (1, 3))
    world.notify(2, 1, 3, (1, 3))
    world.settle()
    assert node.core.clean  # it has all again


async def test_s6_a_restarted_master_never_goes_on_in_its_epoch(tmp_path: Path) -> None:
    world = trio()
    world.write(1)
    world.crash(1)
    node = world.restart(1)
    world.notify(1, 1, 1, (1, 2, 3))
    assert node.core.role is Role.FENCED and node.asked == [True]
    world.elect(1, 2, (1, 2, 3))
    assert node.core.role is Role.MASTER and node.core.epochs == H((1, 0), (2, RECORD_BYTES))
    history = with_master(1, 2, 3)
    assert history.register(1, "another-life").accepted
    everyone = [seen(1, incarnation="another-life", priority=1), seen(2), seen(3)]
    assert history.elect(-1, *everyone).accepted
    assert (history.set.master_broker_id, history.set.master_epoch) == (1, 2)


async def test_s7_elections_choose_among_the_set_as_it_is_when_the_command_is_applied(
    tmp_path: Path,
) -> None:
    history = with_master(1, 2, 3)
    # what the asker of the election has not seen
    assert history.alter((1, 2), seen(1), seen(2)).accepted
    assert history.elect(
        -1, seen(1, **DEAD), seen(2, offset=10), seen(3, priority=1, offset=10**13)
    ).accepted
    assert (history.set.master_broker_id, history.set.sync_state_set, history.set.master_epoch) == (
        2,
        (2,),
        2,
    )


async def test_s8_a_higher_epoch_is_kept_then_links_are_closed_then_it_acts(tmp_path: Path) -> None:
    world = trio()
    before = world.write(1)
    old_links = world.links_of(1)
    node = world.nodes[1]
    node.performed.clear()
    world.notify(1, 1, 2, (1, 2, 3))  # elected again: nobody has linked in the new mastership yet
    order = [
        type(one)
        for one in node.performed
        if isinstance(one, (fx.CloseLink, fx.WriteEpochs, fx.RoleChanged))
    ]
    assert order == [fx.CloseLink, fx.CloseLink, fx.WriteEpochs, fx.RoleChanged]
    node.log.data += b"e02.00001\n"
    world.perform(node, node.core.log_grew(node.log.end_offset, world.now_ms))
    for link_id in old_links:
        late = (2).to_bytes(4, "big") + node.log.end_offset.to_bytes(8, "big")
        assert node.core.link_data(link_id, late, world.now_ms) == []
    assert confirmed(world) == before
    (refused,) = world.nodes[2].core.link_opened(900, outbound=False, now_ms=world.now_ms)
    assert isinstance(refused, fx.CloseLink)  # who is no master answers no handshake
    chosen = world.nodes[3].core.on_role_notice(
        RoleNotice(3, "h:3", "3", 3, (1, 2, 3), 30), world.now_ms
    )
    assert isinstance(chosen[-1], fx.CutIncompleteTail)
    (refused,) = world.nodes[3].core.link_opened(901, outbound=False, now_ms=world.now_ms)
    assert isinstance(refused, fx.CloseLink)  # nor who is one, before its entry is on disk


async def test_s9_only_the_next_id_or_the_same_applicant_again_and_a_cleaned_set_counts_on(
    tmp_path: Path,
) -> None:
    history = with_replicas(1, 2)
    assert history.apply_id(2).accepted  # the same check code
    assert (
        not history.apply_id(2, "h9:10911;stranger").accepted and not history.apply_id(4).accepted
    )
    assert history.set.next_broker_id == 3
    assert history.elect(1).accepted
    epoch = history.set.master_epoch
    assert history.clean((1, 2), living=True).accepted and history.set.tombstone
    assert not history.apply_id(1).accepted and history.apply_id(3).accepted
    assert history.set.highest_epoch_seen >= epoch


async def test_s10_a_topic_of_a_first_send_is_acknowledged_when_the_members_hold_it(
    tmp_path: Path,
) -> None:
    async with Desk(tmp_path / "m") as master, Desk(tmp_path / "s") as slave:
        master.lead()
        slave.follow(master.address)
        master.members = {2: f"127.0.0.1:{free_port()}"}  # cannot be told
        answer = await master.ask(send_request("T", b"x"))
        assert answer.code == 14 and master.store.log_end == 0
        master.members = {2: slave.address}
        assert (await master.ask(send_request("T", b"x"))).code == 0
        assert slave.tables.topics.get("T") is not None


async def test_s12_small_files_are_replaced_durably_and_torn_ones_refused(tmp_path: Path) -> None:
    steps: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "replace"):
            patch.setattr(os, name, _noting(steps, name, getattr(os, name)))
        IdentityFiles(tmp_path).write_identity(Identity("c", "b", 3))
        assert steps == ["fsync", "replace", "fsync"]
        steps.clear()
        epochs = EpochFile(tmp_path / "epochs")
        epochs.save(H((1, 0), (2, 50)), 2)
        assert steps[:3] == ["fsync", "replace", "fsync"]
    (tmp_path / "brokerIdentity").write_bytes(b"c#b")
    with pytest.raises(IdentityFileError):
        IdentityFiles(tmp_path).read_identity()
    for name in ("epochs", "epochs.bak"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-2])
    with pytest.raises(EpochFileError):
        EpochFile(tmp_path / "epochs").load()


async def test_s13_a_mastership_that_begins_where_the_last_began_has_its_own_entry(
    tmp_path: Path,
) -> None:
    world = World()
    for broker_id in (1, 2):
        world.add(broker_id)
    world.elect(1, 1, (1, 2))
    common = world.write(1, 2)
    world.elect(1, 2, (1, 2))
    world.advance(100)
    # the entry came without a byte behind it
    assert world.nodes[2].core.epochs == H((1, 0), (2, common))
    world.frozen.add(2)
    world.write(1, 2, settle=False)
    world.crash(1)
    world.frozen.clear()
    world.notify(2, 2, 3, (1, 2))
    world.write(2, 2)
    node = world.restart(1)
    world.notify(1, 2, 3, (1, 2))
    world.settle()
    assert node.log.data == world.nodes[2].log.data
    assert node.core.epochs == world.nodes[2].core.epochs == H((1, 0), (3, common))


def _noting(steps: list[str], name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*args: Any, **kwargs: Any) -> Any:
        steps.append(name)
        return call(*args, **kwargs)

    return noted


# -- broken on purpose -----------------------------------------------------------------------------


def the_proposed_do_not_count(patch: Patch) -> None:
    patch.setattr(SyncSet, "union", property(lambda self: self.confirmed))


def any_copy_is_enough(patch: Patch) -> None:
    patch.setattr(
        SyncSet, "confirm_candidate", lambda self, log_end, acked: max([*acked.values(), 0])
    )


def the_minimum_is_not_looked_at(patch: Patch) -> None:
    patch.setattr(AckMode, "refusal", lambda self, confirmed, reachable: None)


def count_mode_calls_itself_safe(patch: Patch) -> None:
    patch.setattr(AckMode, "label", property(lambda self: "all-ack"))


def count_mode_is_silent(patch: Patch) -> None:
    patch.setattr(AckMode, "warnings", lambda self: [])


def a_poll_drops_the_proposal(patch: Patch) -> None:
    learn_set = MasterRole.learn_set

    def forgetful(self: MasterRole, members: Any, set_epoch: int, now_ms: int) -> list[Any]:
        if self.sync.proposal is not None and set_epoch <= self.sync.set_epoch:
            self.sync.refused(self.sync.proposal.token)
        return learn_set(self, members, set_epoch, now_ms)

    patch.setattr(MasterRole, "learn_set", forgetful)


def a_replica_joins_before_it_caught_up(patch: Patch) -> None:
    patch.setattr(
        SyncSet, "_may_join", lambda self, slave, confirm_offset, epoch_start: slave.acked >= 0
    )


def a_slow_member_stays(patch: Patch) -> None:
    patch.setattr(
        SyncSet,
        "_lost",
        lambda self, member, slaves, now_ms: member != self.own_id and member not in slaves,
    )


def an_unclean_replica_leads(patch: Patch) -> None:
    patch.setattr(
        transitions,
        "judge",
        lambda standing, notice: judge(replace(standing, trusted=True), notice),
    )


def an_unclean_replica_stays_a_member(patch: Patch) -> None:
    patch.setattr(decide_replicas, "_is_unclean_start", lambda *_: False)


def a_restarted_master_goes_on(patch: Patch) -> None:
    append = EpochHistory.append

    def at_once(standing: Any, notice: Any) -> Verdict:
        verdict = judge(standing, notice)
        own = notice.master_id == standing.broker_id and notice.members is not None
        return Verdict.LEAD if verdict is Verdict.ASK_ELECTION and own else verdict

    def again(self: EpochHistory, epoch: int, start_offset: int) -> EpochHistory:
        return self if epoch == self.newest_epoch else append(self, epoch, start_offset)

    patch.setattr(transitions, "judge", at_once)
    patch.setattr(EpochHistory, "append", again)


def a_restarted_master_is_kept(patch: Patch) -> None:
    patch.setattr(
        elect,
        "_master_is_kept",
        lambda broker_set, found: any(
            c.broker_id == broker_set.master_broker_id and c.is_alive for c in found
        ),
    )


def anybody_alive_is_elected(patch: Patch) -> None:
    patch.setattr(
        elect, "_sound_members", lambda candidates: [one for one in candidates if one.is_alive]
    )


def links_outlive_a_mastership(patch: Patch) -> None:
    leave = RoleTransitions._leave

    def lax(self: RoleTransitions, reason: str, now_ms: int) -> list[Any]:
        return [one for one in leave(self, reason, now_ms) if not isinstance(one, fx.CloseLink)]

    patch.setattr(RoleTransitions, "_leave", lax)


def a_new_master_acts_before_its_entry_is_durable(patch: Patch) -> None:
    promoted = RoleTransitions._promoted

    def hasty(self: RoleTransitions, *args: Any) -> list[Any]:
        return sorted(promoted(self, *args), key=lambda effect: isinstance(effect, fx.WriteEpochs))

    patch.setattr(RoleTransitions, "_promoted", hasty)


def acknowledgements_of_old_links_count(patch: Patch) -> None:
    candidate = SyncSet.confirm_candidate
    ever: dict[int, int] = {}

    def remembering(self: SyncSet, log_end: int, acked: Mapping[int, int]) -> int | None:
        ever.update(acked)
        return candidate(self, log_end, dict.fromkeys(ever, log_end))

    patch.setattr(SyncSet, "confirm_candidate", remembering)


def a_stranger_gets_an_id_that_is_taken(patch: Patch) -> None:
    apply = decide_replicas.apply_broker_id

    def generous(state: Any, command: Any) -> Any:
        broker_set = state.sets.get(command.broker_name)
        known = broker_set is not None and broker_set.replica(command.applied_broker_id) is not None
        return ACCEPTED_WITHOUT_CHANGE if known else apply(state, command)

    patch.setattr(decide_replicas, "apply_broker_id", generous)


def members_are_not_asked(patch: Patch) -> None:
    async def agreed(self: TopicChanges) -> bool:
        return True

    patch.setattr(TopicChanges, "agree", agreed)


def files_are_written_in_place(patch: Patch) -> None:
    for module in (identity_file, epoch_file):
        patch.setattr(module, "replace_file", lambda path, data: path.write_bytes(data))


def the_folder_is_not_synced(patch: Patch) -> None:
    patch.setattr(durable, "sync_directory", lambda path: None)


def torn_epochs_are_taken_as_none(patch: Patch) -> None:
    patch.setattr(EpochFile, "_load_history", lambda self: EpochHistory())


def an_empty_epoch_is_not_superseded(patch: Patch) -> None:
    append = EpochHistory.append

    def as_java_does(self: EpochHistory, epoch: int, start_offset: int) -> EpochHistory:
        return (
            self
            if self and start_offset == self.newest_start
            else append(self, epoch, start_offset)
        )

    patch.setattr(EpochHistory, "append", as_java_does)


BROKEN: dict[Rule, tuple[Bug, ...]] = {
    test_s1_success_needs_every_member_of_the_union_with_the_pending_proposal: (
        the_proposed_do_not_count,
        any_copy_is_enough,
        the_minimum_is_not_looked_at,
    ),
    test_s2_count_mode_says_that_it_may_lose: (count_mode_calls_itself_safe, count_mode_is_silent),
    test_s3_one_proposal_at_a_time_and_a_read_does_not_drop_it: (a_poll_drops_the_proposal,),
    test_s4_a_replica_joins_at_the_confirm_offset_and_leaves_when_bytes_wait_for_a_second: (
        a_replica_joins_before_it_caught_up,
        a_slow_member_stays,
    ),
    test_s5_an_unclean_start_leaves_the_set_and_vetoes_its_own_promotion: (
        an_unclean_replica_leads,
        an_unclean_replica_stays_a_member,
    ),
    test_s6_a_restarted_master_never_goes_on_in_its_epoch: (
        a_restarted_master_goes_on,
        a_restarted_master_is_kept,
    ),
    test_s7_elections_choose_among_the_set_as_it_is_when_the_command_is_applied: (
        anybody_alive_is_elected,
    ),
    test_s8_a_higher_epoch_is_kept_then_links_are_closed_then_it_acts: (
        links_outlive_a_mastership,
        a_new_master_acts_before_its_entry_is_durable,
        acknowledgements_of_old_links_count,
    ),
    test_s9_only_the_next_id_or_the_same_applicant_again_and_a_cleaned_set_counts_on: (
        a_stranger_gets_an_id_that_is_taken,
    ),
    test_s10_a_topic_of_a_first_send_is_acknowledged_when_the_members_hold_it: (
        members_are_not_asked,
    ),
    test_s12_small_files_are_replaced_durably_and_torn_ones_refused: (
        files_are_written_in_place,
        the_folder_is_not_synced,
        torn_epochs_are_taken_as_none,
    ),
    test_s13_a_mastership_that_begins_where_the_last_began_has_its_own_entry: (
        an_empty_epoch_is_not_superseded,
    ),
}


@pytest.mark.parametrize(("rule", "bug"), cases(BROKEN))
async def test_a_rule_that_is_broken_on_purpose_is_seen(
    rule: Rule, bug: Bug, tmp_path: Path
) -> None:
    await is_seen(rule, bug, tmp_path)


def test_every_rule_of_a_set_is_here() -> None:
    names = {name_of(rule) for rule in BROKEN}
    assert names == {f"s{number}" for number in range(1, 14)} - {"s11"}
