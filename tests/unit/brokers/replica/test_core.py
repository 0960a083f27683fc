"""Three replicas, links and a hand clock: what may be promised, by whom, and when (design section
4).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from brokers.ha.epochs import EpochHistory
from brokers.replica import effects as fx
from brokers.replica.config import ReplicaConfig
from brokers.replica.core_port import Core
from brokers.replica.roles import Role, RoleNotice
from tests.support.replica_world import RECORD_BYTES, World

H = EpochHistory.of


def trio(**kwargs: object) -> World:
    world = World(**kwargs)
    for broker_id in (1, 2, 3):
        world.add(broker_id)
    world.elect(1, 1, (1, 2, 3))
    return world


def confirm_of(world: World, broker_id: int) -> int:
    return world.nodes[broker_id].core.confirm_offset


def logs(world: World, *ids: int) -> set[bytes]:
    return {bytes(world.nodes[one].log.data) for one in ids or world.nodes}


# -- S1: acknowledged only by all ------------------------------------------------------------------


@pytest.mark.parametrize("chunk_bytes", [None, 1, 7])
def test_bytes_are_confirmed_when_all_members_hold_them(chunk_bytes: int | None) -> None:
    world = trio(chunk_bytes=chunk_bytes)
    end = world.write(1, 30)
    assert confirm_of(world, 1) == end
    assert len(logs(world)) == 1
    world.advance(50)  # the next heartbeat tells the slaves
    assert confirm_of(world, 2) == confirm_of(world, 3) == end


def test_one_silent_member_holds_every_promise_back() -> None:
    world = trio()
    before = world.write(1)
    world.frozen.add(3)
    world.write(1, 5)
    assert confirm_of(world, 1) == before
    world.frozen.clear()
    world.settle()
    assert confirm_of(world, 1) == before + 5 * RECORD_BYTES


def test_an_old_master_can_complete_nothing_once_a_member_follows_another() -> None:
    world = trio()
    before = world.write(1)
    world.frozen.add(1)
    world.elect(2, 2, (2, 3))
    world.frozen.clear()
    world.write(1, 3)
    world.advance(900)
    assert world.nodes[1].core.role is Role.MASTER  # nobody told it
    assert confirm_of(world, 1) == before
    world.write(2, 2)
    assert confirm_of(world, 2) == before + 2 * RECORD_BYTES


def test_writes_are_refused_without_enough_members_or_enough_reachable_ones() -> None:
    world = trio()
    assert world.nodes[1].core.write_refusal() is None
    assert world.nodes[2].core.write_refusal() == "not the master, role SLAVE"
    world.notify(1, 1, 1, (1,), set_epoch=11)  # the controller took the others out
    assert world.nodes[1].core.write_refusal() == "in-sync replicas not enough: 1 of 2"
    world.notify(1, 1, 1, (1, 2, 3), set_epoch=12)
    for dead in (2, 3):
        world.crash(dead)
    assert world.nodes[1].core.write_refusal() == ("in-sync replicas not enough: 1 of 2 reachable")


def test_a_set_of_one_confirms_alone_only_when_one_is_enough() -> None:
    world = World(ReplicaConfig(min_in_sync_replicas=1))
    world.add(1)
    world.elect(1, 1, (1,))
    assert world.write(1) == confirm_of(world, 1)
    strict = World()
    strict.add(1)
    strict.elect(1, 1, (1,))
    strict.write(1)
    assert confirm_of(strict, 1) == 0


def test_a_confirm_offset_never_goes_back_on_the_master() -> None:
    world = trio()
    end = world.write(1, 10)
    world.crash(2)
    empty = world.add(2)  # the same id with an empty disk: the old promise stands
    world.notify(2, 1, 1, (1, 2, 3))
    world.settle()
    assert empty.log.end_offset == end
    assert confirm_of(world, 1) == end


# -- S2: count mode --------------------------------------------------------------------------------


def test_count_mode_confirms_with_any_copies() -> None:
    config = ReplicaConfig(all_ack=False, in_sync_replicas=2)
    world = trio(config=config)
    world.frozen.add(3)
    assert world.write(1) == confirm_of(world, 1)


# -- S3: one proposal, resolved only by an answer --------------------------------------------------


def grown(world: World) -> fx.ProposeSyncSet:
    """A set of two with a third replica ready to join: its proposal."""
    world.notify(1, 1, 1, (1, 2), set_epoch=11)
    world.advance(50)
    (proposal,) = world.nodes[1].proposals
    assert proposal.members == (1, 2, 3)
    assert (proposal.base_set_epoch, proposal.master_epoch) == (11, 1)
    return proposal


def test_a_replica_proposed_but_not_confirmed_already_counts() -> None:
    world = trio()
    grown(world)
    world.frozen.add(3)
    before = confirm_of(world, 1)
    world.write(1)
    assert confirm_of(world, 1) == before
    world.frozen.clear()
    world.settle()
    assert confirm_of(world, 1) == before + RECORD_BYTES


def test_a_poll_does_not_drop_an_unresolved_proposal() -> None:
    world = trio()
    grown(world)
    world.frozen.add(3)
    before = confirm_of(world, 1)
    world.write(1)
    world.notify(1, 1, 1, (1, 2), set_epoch=11)  # a read of the base: our answer may be on its way
    assert confirm_of(world, 1) == before
    core = world.nodes[1].core
    assert (core.sync_state_set, core.acknowledging_members) == ((1, 2), (1, 2, 3))
    # the set moved on: with base 11 it can never be accepted
    world.notify(1, 1, 1, (1, 2), set_epoch=12)
    assert confirm_of(world, 1) == before + RECORD_BYTES


def test_an_unknown_answer_is_retried_with_the_same_token_until_resolved() -> None:
    world = trio()
    first = grown(world)
    world.answer(1, None)
    world.advance(250)
    assert world.nodes[1].proposals == [first, first]
    world.answer(1, 2007)  # not the leader: not an outcome either
    world.advance(250)
    assert world.nodes[1].proposals == [first] * 3
    world.accept(1)
    assert world.nodes[1].core.sync_state_set == (1, 2, 3)
    assert world.nodes[1].core.set_epoch == 12
    world.advance(1000)
    assert len(world.nodes[1].proposals) == 3


@pytest.mark.parametrize(
    ("code", "members", "set_epoch", "dropped"),
    [
        (2006, None, None, True),  # a broker in it is not alive: refused on this very command
        (2003, None, None, True),
        (2001, None, None, False),  # the set moved: perhaps by our own first attempt
        (2001, (1, 2), 12, True),
        (2013, None, 12, False),  # which set 12 is, nobody said
        (2013, (1, 2), 11, True),
        (2007, None, None, False),
        (1, None, None, False),
        (None, None, None, False),
    ],
)
def test_only_a_definite_refusal_takes_a_proposal_out_of_the_union(
    code, members, set_epoch, dropped: bool
) -> None:
    world = trio()
    grown(world)
    world.frozen.add(3)
    before = confirm_of(world, 1)
    world.write(1)
    world.answer(1, code, members, set_epoch)
    assert (confirm_of(world, 1) > before) is dropped


def test_after_a_refusal_the_next_proposal_waits_and_is_a_new_command() -> None:
    world = trio()
    first = grown(world)
    world.answer(1, 2006)
    assert world.nodes[1].proposals == [first]
    world.advance(600)
    (_, second) = world.nodes[1].proposals
    assert second.members == (1, 2, 3) and second.token != first.token
    assert world.nodes[1].reported("SyncStateSetRefused") == [
        {"members": (1, 2, 3), "base_epoch": 11, "new_epoch": -1, "code": 2006}
    ]


def test_an_answer_to_an_older_proposal_changes_nothing() -> None:
    world = trio()
    first = grown(world)
    world.answer(1, 2006)
    world.advance(600)
    node = world.nodes[1]
    effects = node.core.on_alter_result(first.token, 2006, None, None, None, world.now_ms)
    assert effects == []
    world.frozen.add(3)
    before = confirm_of(world, 1)
    world.write(1)
    assert confirm_of(world, 1) == before


# -- S4: joining and leaving -----------------------------------------------------------------------


def test_a_member_that_leaves_bytes_waiting_is_proposed_out_after_a_second() -> None:
    world = trio()
    world.write(1)
    world.advance(50)
    world.frozen.add(3)
    world.write(1)
    world.advance(950)
    assert world.nodes[1].proposals == []
    world.advance(150)
    (proposal,) = world.nodes[1].proposals
    assert proposal.members == (1, 2)
    before = confirm_of(world, 1)
    world.advance(2000)
    assert confirm_of(world, 1) == before  # never by itself, without the controller's answer
    world.accept(1)
    assert confirm_of(world, 1) == before + RECORD_BYTES
    assert world.nodes[1].reported("SlaveFellBehind")[0]["slave_broker_id"] == 3


def test_a_silent_member_without_waiting_bytes_stays() -> None:
    world = trio()
    world.write(1)
    world.advance(100)
    world.frozen.add(3)
    world.advance(5000)
    assert world.nodes[1].proposals == []


def test_a_member_whose_link_goes_down_is_proposed_out_at_once() -> None:
    world = trio()
    world.write(1)
    world.crash(3)
    assert [item.members for item in world.nodes[1].proposals] == [(1, 2)]


def test_members_not_yet_linked_after_an_election_are_waited_for() -> None:
    world = trio()
    world.crash(1)
    world.unreachable.add(2)
    world.elect(2, 2, (1, 2, 3))
    world.advance(900)
    assert world.nodes[2].proposals == []
    assert world.nodes[2].core.write_refusal() is None
    world.unreachable.clear()
    world.advance(200)
    assert [item.members for item in world.nodes[2].proposals] == [(2, 3)]  # 1 never came


def test_a_returning_replica_joins_once_it_has_reached_the_confirm_offset() -> None:
    world = trio()
    world.crash(3)
    world.accept(1)
    world.write(1, 20)
    world.restart(3)
    world.notify(3, 1, 1, (1, 2), set_epoch=11)
    world.settle()
    world.advance(50)
    assert world.nodes[1].proposals[-1].members == (1, 2, 3)
    assert world.nodes[3].log.end_offset == confirm_of(world, 1)
    world.accept(1)
    assert world.nodes[1].core.sync_state_set == (1, 2, 3)


def test_the_masters_own_standstill_is_nobodys_fault() -> None:
    world = trio()
    world.write(1)
    world.advance(50)
    world.frozen.add(1)
    world.write(1)
    world.now_ms += 10_000
    world.frozen.clear()
    node = world.nodes[1]
    world.perform(node, node.core.tick(world.now_ms))  # the first thing a thawed process does
    assert node.proposals == []
    world.settle()
    assert confirm_of(world, 1) == 2 * RECORD_BYTES


def deliver_until(world: World, condition: Callable[[], object]) -> None:
    """One packet after the other."""
    while not condition():
        assert any(world._deliver(link_id) for link_id in list(world.pipes))


# -- S5: unclean replicas --------------------------------------------------------------------------


def test_an_unclean_replica_vetoes_its_promotion_and_asks_for_another_election() -> None:
    world = trio()
    world.write(1, 5)
    for one in (1, 2):
        world.crash(one)
    node = world.restart(2, clean=False)
    world.notify(2, 2, 2, (2, 3))
    assert node.core.role is Role.FENCED
    assert node.asked == [True]
    assert node.disk_epoch_seen == 2
    world.advance(1050)
    assert node.asked == [True, True]


def test_an_unclean_replica_may_lead_when_the_election_says_so() -> None:
    world = trio()
    world.crash(2)
    node = world.restart(2, clean=False)
    world.notify(2, 2, 2, (2, 3), at_risk=True)
    assert node.core.role is Role.MASTER


def test_an_unclean_replica_is_trusted_again_after_it_caught_up() -> None:
    world = trio()
    world.write(1, 5)
    world.crash(2)
    world.nodes[2].log.data = world.nodes[2].log.data[: 2 * RECORD_BYTES]  # what the power took
    node = world.restart(2, clean=False)
    world.notify(2, 1, 1, (1, 3))
    world.settle()
    assert node.core.clean
    assert len(logs(world)) == 1
    world.notify(2, 2, 2, (1, 2, 3))
    assert node.core.role is Role.MASTER


def test_an_unclean_replica_in_the_set_is_trusted_however_much_is_left_to_copy() -> None:
    """What its master wrote and did not acknowledge may be much (WAIT=false). A member that vetoes
    its promotion and lives would be the master who never leads.
    """
    world = World(ReplicaConfig(batch_bytes=RECORD_BYTES, unacked_bytes_max=RECORD_BYTES))
    for broker_id in (1, 2):
        world.add(broker_id)
    world.elect(1, 1, (1, 2))
    world.write(1, 5)
    world.crash(2)
    world.write(1, 20)
    world.nodes[2].log.data = world.nodes[2].log.data[: 3 * RECORD_BYTES]  # what the power took
    world.restart(2, clean=False)
    for broker_id in (1, 2):
        world.notify(broker_id, 1, 1, (1,), set_epoch=11)
    master, slave = world.nodes[1], world.nodes[2]
    deliver_until(world, lambda: master.proposals)
    assert master.proposals[-1].lost_members == (2,)
    world.accept(1)
    deliver_until(world, lambda: master.proposals[-1].members == (1, 2))
    assert slave.core.log_end < master.core.log_end
    world.accept(1)
    world.crash(1)
    world.notify(2, 2, 2, (2,), set_epoch=21)
    assert slave.core.role is Role.MASTER


def test_an_unclean_replica_is_trusted_with_all_that_its_master_began_with() -> None:
    """A new master does not know yet how much of it is confirmed (S4)."""
    world = World(ReplicaConfig(batch_bytes=RECORD_BYTES, unacked_bytes_max=RECORD_BYTES))
    for broker_id in (1, 2, 3):
        world.add(broker_id)
    world.elect(1, 1, (1, 2, 3))
    world.write(1, 10)
    for broker_id in (1, 2):
        world.crash(broker_id)
    world.nodes[2].log.data = world.nodes[2].log.data[: 3 * RECORD_BYTES]
    world.restart(2, clean=False)
    for broker_id in (3, 2):
        world.notify(broker_id, 3, 2, (3,))
    slave, began = world.nodes[2], world.nodes[3].core.log_end
    deliver_until(world, lambda: slave.core.clean)
    assert slave.core.log_end >= began
    assert slave.core.clean


def test_bytes_without_an_epoch_history_are_not_trusted_and_copied_anew() -> None:
    world = trio()
    world.write(1, 5)
    world.crash(2)
    world.nodes[2].disk_epochs = ()
    node = world.restart(2)
    assert not node.core.clean
    world.notify(2, 1, 1, (1, 3))
    world.settle()
    assert node.of_kind(fx.TruncateLog)[0].to_offset == 0
    assert len(logs(world)) == 1 and node.core.clean


# -- S6: a restarted master ------------------------------------------------------------------------


def test_a_restarted_master_does_not_go_on_in_its_epoch() -> None:
    world = trio()
    world.write(1)
    world.crash(1)
    node = world.restart(1)
    world.notify(1, 1, 1, (1, 2, 3))
    assert node.core.role is Role.FENCED
    assert node.asked == [True]
    world.elect(1, 2, (1, 2, 3))
    assert node.core.role is Role.MASTER
    assert node.core.epochs == H((1, 0), (2, RECORD_BYTES))


def test_a_restarted_slave_follows_again_in_the_same_epoch() -> None:
    world = trio()
    world.crash(2)
    node = world.restart(2)
    assert node.core.role is Role.FENCED
    world.notify(2, 1, 1, (1, 2, 3))
    assert node.core.role is Role.SLAVE


def test_old_notices_are_ignored_also_after_a_restart() -> None:
    world = trio()
    world.elect(2, 5, (1, 2, 3))
    world.crash(3)
    node = world.restart(3)
    world.notify(3, 1, 4, (1, 2, 3))
    assert node.core.role is Role.FENCED and node.core.master_epoch == 0
    world.notify(1, 1, 1, (1, 2, 3))
    assert world.nodes[1].core.role is Role.SLAVE


# -- S8: fencing by connection ---------------------------------------------------------------------


def test_a_higher_epoch_is_persisted_then_links_are_closed_then_it_acts() -> None:
    world = trio()
    node = world.nodes[3]
    node.performed.clear()
    world.notify(3, 2, 2, (2, 3))
    kinds = [type(effect) for effect in node.performed]
    order = [fx.WriteEpochs, fx.CloseLink, fx.RoleChanged, fx.ConnectHa]
    assert [kind for kind in kinds if kind in order] == order
    assert node.disk_epoch_seen == 2


def test_a_demoted_master_closes_its_links_and_aborts_its_waiters() -> None:
    """elect-with-live-master-stuck-slave.jsonl: there a slave goes on copying from the demoted
    master.
    """
    world = trio()
    node = world.nodes[1]
    node.performed.clear()
    world.notify(1, 2, 2, (1, 2, 3))
    assert len(node.of_kind(fx.CloseLink)) == 2
    assert node.of_kind(fx.AbortWaiters)
    assert world.links_of(1) == []


def test_a_slave_leaves_the_demoted_master_even_if_that_one_lives_on() -> None:
    world = trio()
    world.write(1)
    world.notify(2, 2, 2, (1, 2, 3))
    world.notify(3, 2, 2, (1, 2, 3))
    world.settle()
    assert world.nodes[1].core.role is Role.MASTER
    assert world.links_of(1) == []
    world.notify(1, 2, 2, (1, 2, 3))
    world.settle()
    assert world.write(2) == confirm_of(world, 2)
    assert len(logs(world)) == 1


def test_a_new_master_answers_no_handshake_before_its_entry_is_durable() -> None:
    world = trio()
    node = world.nodes[2]
    first = node.core.on_role_notice(_notice(2, 2), world.now_ms)
    assert isinstance(first[-1], fx.CutIncompleteTail)
    assert node.core.role is Role.FENCED
    (refused,) = node.core.link_opened(900, outbound=False, now_ms=world.now_ms)
    assert isinstance(refused, fx.CloseLink)
    second = node.core.truncated(True, node.log.end_offset, world.now_ms)
    kinds = [type(effect) for effect in second]
    assert kinds.index(fx.WriteEpochs) < kinds.index(fx.RoleChanged)
    assert node.core.link_opened(901, outbound=False, now_ms=world.now_ms) == []


def _notice(master: int, epoch: int) -> RoleNotice:
    return RoleNotice(master, f"h:{master}", str(master), epoch, (1, 2, 3), 10 * epoch)


def test_acknowledgements_of_links_of_an_older_mastership_do_not_count() -> None:
    world = trio()
    before = world.write(1)
    old_links = world.links_of(1)
    world.notify(1, 1, 2, (1, 2, 3))  # re-elected: nobody has linked in the new mastership yet
    node = world.nodes[1]
    node.log.data += b"e02.00001\n"
    world.perform(node, node.core.log_grew(node.log.end_offset, world.now_ms))
    for link_id in old_links:
        late = bytes.fromhex("00000002") + node.log.end_offset.to_bytes(8, "big")
        assert node.core.link_data(link_id, late, world.now_ms) == []
    assert confirm_of(world, 1) == before


def test_a_slave_does_not_acknowledge_a_master_of_another_epoch_than_told() -> None:
    world = World()
    for broker_id in (1, 2):
        world.add(broker_id)
    world.notify(1, 1, 3, (1, 2))
    world.notify(2, 1, 4, (1, 2))  # newer than what 1 knows of itself
    world.settle()
    results = world.nodes[2].reported("HandshakeResult")
    assert results[0]["ok"] is False and "epoch 3" in results[0]["reason"]
    assert world.write(1) > 0
    assert world.nodes[2].log.end_offset == 0
    world.notify(1, 1, 4, (1, 2))
    world.advance(600)
    assert len(logs(world)) == 1


def test_a_refused_proposal_that_names_a_newer_mastership_ends_ours() -> None:
    world = trio()
    grown(world)
    world.answer(1, 2000, master_epoch=2)
    node = world.nodes[1]
    assert node.core.role is Role.FENCED
    assert node.asked == [False]
    assert world.links_of(1) == []
    world.notify(1, 1, 2, (1, 2))  # it was ours, as it turns out
    assert node.core.role is Role.MASTER


def test_a_set_without_a_master_fences_and_asks_for_an_election() -> None:
    world = trio()
    world.notify(2, None, 2, (1, 2, 3))
    assert world.nodes[2].core.role is Role.FENCED
    assert world.nodes[2].asked == [True]
    fresh = World()
    node = fresh.add(1)
    fresh.notify(1, None, 0, None)
    assert node.asked == [True]


def test_a_master_that_is_not_told_its_set_does_not_begin() -> None:
    world = World()
    node = world.add(1)
    world.notify(1, 1, 1, None)
    assert node.core.role is Role.FENCED and node.asked == [False]
    world.notify(1, 1, 1, (1, 2))
    assert node.core.role is Role.MASTER


# -- S13: every mastership its own entry -----------------------------------------------------------


def test_the_epoch_collision_is_cut_to_where_it_began() -> None:
    """The golden story: epochs 2 and 3 begin at one offset, each master writes other bytes
    there.
    """
    world = World()
    for broker_id in (1, 2):
        world.add(broker_id)
    world.elect(1, 1, (1, 2))
    common = world.write(1, 2)
    world.notify(1, 1, 2, (1, 2))
    world.unreachable.add(1)
    world.write(1, 2, settle=False)
    world.crash(1)
    world.notify(2, 2, 3, (1, 2))
    world.write(2, 2)
    assert world.nodes[1].log.end_offset == world.nodes[2].log.end_offset
    assert len(logs(world)) == 2
    node = world.restart(1)
    world.notify(1, 2, 3, (1, 2))
    world.settle()
    assert [cut.to_offset for cut in node.of_kind(fx.TruncateLog)] == [common]
    assert len(logs(world)) == 1
    assert node.core.epochs == world.nodes[2].core.epochs == H((1, 0), (3, common))
    assert confirm_of(world, 2) == world.nodes[2].log.end_offset


def test_an_incomplete_record_is_cut_before_a_slave_leads() -> None:
    world = trio()
    end = world.write(1, 3)
    node = world.nodes[2]
    world.crash(2)
    node.log.data += b"e01."  # the packet ended in the middle of a record
    node = world.restart(2)
    world.notify(2, 2, 2, (2, 3))
    assert node.core.epochs == H((1, 0), (2, end))
    assert node.log.end_offset == end


# -- links -----------------------------------------------------------------------------------------


def test_a_slave_tries_again_with_a_growing_backoff_and_asks_when_it_takes_long() -> None:
    world = trio()
    world.unreachable.add(1)
    for link_id in world.links_of(2):
        world.cut_link(link_id)
    node = world.nodes[2]
    node.performed.clear()
    world.advance(3000)
    assert 7 <= len(node.of_kind(fx.ConnectHa)) <= 20
    assert 2 <= len(node.asked) <= 4
    world.unreachable.clear()
    world.advance(600)
    assert len(world.links_of(2)) == 1


def test_a_slave_follows_its_master_to_a_new_address() -> None:
    world = World()
    for broker_id in (1, 2):
        world.add(broker_id)
    world.notify(1, 1, 1, (1, 2))
    notice = replace(_notice(1, 1), master_ha_address="77", set_epoch=10)
    node = world.nodes[2]
    world.perform(node, node.core.on_role_notice(notice, world.now_ms))
    assert world.links_of(2) == []
    world.notify(2, 1, 1, (1, 2))
    world.settle()
    assert len(world.links_of(2)) == 1


def test_a_second_link_of_a_slave_replaces_the_first() -> None:
    world = trio()
    (old,) = world.links_of(2)
    world.cut_link(old, tell=False)  # half-open: the master has not noticed
    node = world.nodes[2]
    world.perform(node, node.core.link_closed(old, "reset", world.now_ms))
    world.advance(2_500)  # it is taken for alive until it was silent for a heartbeat and a half
    assert any("newer link" in item.reason for item in world.nodes[1].of_kind(fx.CloseLink))
    assert world.write(1) == confirm_of(world, 1)


@pytest.mark.parametrize(
    ("config", "limit_ms"),
    [(ReplicaConfig(housekeeping_ms=2000), 2000), (ReplicaConfig(ha_heartbeat_ms=500), 1500)],
)
def test_a_master_that_says_nothing_is_given_up(config: ReplicaConfig, limit_ms: int) -> None:
    world = trio(config=config)
    world.advance(100)
    before = len(world.nodes[2].of_kind(fx.CloseLink))
    world.frozen.add(1)
    world.advance(limit_ms - 600)
    assert len(world.nodes[2].of_kind(fx.CloseLink)) == before
    world.advance(700)
    assert "nothing read" in world.nodes[2].of_kind(fx.CloseLink)[-1].reason


def test_the_oldest_link_without_a_handshake_makes_room_and_strangers_are_refused() -> None:
    world = trio(config=ReplicaConfig(links_max=3))
    core = world.nodes[1].core
    for link_id in (901, 902, 903):
        assert core.link_opened(link_id, outbound=False, now_ms=0) == []
    (gone,) = core.link_opened(904, outbound=False, now_ms=0)
    assert (
        isinstance(gone, fx.CloseLink)
        and gone.link_id == 901
        and ("without a handshake") in gone.reason
    )
    assert isinstance(core.link_opened(905, outbound=True, now_ms=0)[0], fx.CloseLink)
    assert isinstance(
        world.nodes[2].core.link_opened(904, outbound=True, now_ms=0)[0], fx.CloseLink
    )
    assert core.link_data(12345, b"x", 0) == core.link_closed(12345, "gone", 0) == []


def test_facts_are_reported_for_the_history() -> None:
    world = trio()
    world.write(1, 3)
    world.advance(100)
    master, slave = world.nodes[1], world.nodes[2]
    assert master.reported("RoleChanged") == [
        {"role": "MASTER", "master_epoch": 1, "master_broker_id": 1, "source": "test"}
    ]
    assert master.reported("EpochAppended") == [
        {"epoch": 1, "start_offset": 0, "last_store_ms": -1}
    ]
    assert len(master.reported("FirstMessageAcknowledged")) == 1
    assert len(master.reported("ConfirmCrossedEpoch")) == 1
    assert {item["peer_broker_id"] for item in master.reported("HaLinkUp")} == {2, 3}
    assert {item["slave_broker_id"] for item in master.reported("SlaveCaughtUp")} == {2, 3}
    assert slave.reported("HandshakeResult")[0]["ok"] is True
    assert slave.reported("HaLinkUp") == [{"peer_broker_id": 1, "direction": "outbound"}]


def test_a_failed_disk_fences_and_distrusts() -> None:
    world = trio()
    world.write(1, 3)
    node = world.nodes[2]
    world.perform(node, node.core.storage_failed("disk full", 20, world.now_ms))
    assert node.core.role is Role.FENCED and not node.core.clean
    assert node.core.log_end == 20 and node.core.confirm_offset <= 20


def test_a_full_disk_parts_a_slave_from_its_master_and_leaves_it_clean() -> None:
    world = trio()
    world.write(1, 3)
    node = world.nodes[2]
    end = node.core.log_end
    world.perform(node, node.core.storage_full("no room", end - 5, world.now_ms))
    assert node.core.role is Role.SLAVE and node.core.clean
    assert node.core.log_end == end - 5 and node.core.confirm_offset <= end - 5
    assert not node.reported("LogTruncated")


def test_a_full_disk_leaves_a_master_alone() -> None:
    world = trio()
    world.write(1, 3)
    node = world.nodes[1]
    assert node.core.storage_full("no room", node.core.log_end, world.now_ms) == []
    assert node.core.is_master and node.core.clean


# -- all together ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_nothing_confirmed_is_lost(seed: int) -> None:
    """Random writes, cuts, crashes, pauses and elections among the members that hold all that was
    confirmed (the controller's part, S7). The whole simulation does far more; this is its first
    floor.
    """
    dice = random.Random(seed)
    world = World(chunk_bytes=dice.choice([None, 3, 50]))
    for broker_id in (1, 2, 3):
        world.add(broker_id)
    epoch, members, set_epoch, master = 1, (1, 2, 3), 1, 1
    for one in (1, 2, 3):
        world.notify(one, master, epoch, members, set_epoch=set_epoch)
    world.settle()
    confirmed = b""
    for _ in range(120):
        action = dice.choice(
            ["write"] * 6 + ["elect", "crash", "restart", "freeze", "thaw", "cut", "accept", "time"]
        )
        node = world.nodes[master]
        able = node.up and master not in world.frozen and node.core.write_refusal() is None
        if action == "write" and able:
            world.write(master, dice.randint(1, 4), settle=dice.random() < 0.7)
        elif action == "elect":
            electable = [one for one in members if world.nodes[one].up and one not in world.frozen]
            if len(electable) >= 2:
                master, epoch, set_epoch, members = (
                    dice.choice(electable),
                    epoch + 1,
                    set_epoch + 1,
                    tuple(electable),
                )
                for one in (1, 2, 3):
                    if dice.random() < 0.8 or one == master:
                        world.notify(one, master, epoch, members, set_epoch=set_epoch)
        elif action == "crash" and sum(one.up for one in world.nodes.values()) > 2:
            world.crash(dice.choice([1, 2, 3]))
        elif action == "restart":
            for one in (1, 2, 3):
                if not world.nodes[one].up:
                    world.restart(one)
        elif action == "freeze" and not world.frozen:
            world.frozen.add(dice.choice([1, 2, 3]))
        elif action == "thaw":
            world.frozen.clear()
        elif action == "cut":
            links = world.links_of(dice.choice([1, 2, 3]))
            if links:
                world.cut_link(dice.choice(links))
        elif action == "accept" and node.up and node.proposals:
            proposal = node.proposals[-1]
            if (proposal.base_set_epoch, proposal.master_epoch) == (
                set_epoch,
                epoch,
            ) and master in proposal.members:
                set_epoch, members = set_epoch + 1, proposal.members
                answer = (0, members, set_epoch, epoch)
                world.perform(
                    node, node.core.on_alter_result(proposal.token, *answer, world.now_ms)
                )
        else:
            world.advance(dice.choice([50, 200, 1200]))
        if dice.random() < 0.8:
            world.settle()
        if world.nodes[master].up and master not in world.frozen and dice.random() < 0.7:
            for one in (1, 2, 3):
                world.notify(one, master, epoch, members, set_epoch=set_epoch)
        for node in world.nodes.values():
            if node.core.role is Role.MASTER:
                promised = bytes(node.log.data[: node.core.confirm_offset])
                assert promised.startswith(confirmed) or confirmed.startswith(promised), (
                    f"seed {seed}"
                )
                confirmed = max(confirmed, promised, key=len)
        holders = [one for one in members if bytes(world.nodes[one].log.data).startswith(confirmed)]
        assert holders == list(members), (
            f"seed {seed}: {members} but only {holders} hold what was confirmed"
        )
        assert all(
            one.core.epochs.newest_start <= one.log.end_offset for one in world.nodes.values()
        )
    assert confirmed


# -- S15: a loss is noticed ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(16))
def test_the_master_notices_every_loss_of_a_member_and_nothing_else(seed: int) -> None:
    """Kills, cut links, records that arrived in part, elections: no false alarm. A store that went
    back: always told, never counted, whatever is written meanwhile.
    """
    rng = random.Random(seed)
    world, losses = trio(chunk_bytes=7), 0
    epoch, master = 1, 1
    for _ in range(30):
        broker_id = rng.choice([one for one in (1, 2, 3) if one != master])
        slave, leader = world.nodes[broker_id], world.nodes[master]
        match rng.randrange(5):
            case 0:
                world.write(master, rng.randrange(1, 5), settle=rng.random() < 0.7)
            case 1:
                world.advance(rng.choice((50, 300)))
            case 2:
                world.write(master, 3, settle=False)
                for _ in range(rng.randrange(8)):
                    [world._deliver(link_id) for link_id in list(world.pipes)]
                _restart(world, broker_id, keeps=slave.log.end_offset)
                world.notify(
                    broker_id,
                    master,
                    epoch,
                    leader.core.sync_state_set,
                    set_epoch=leader.core.set_epoch,
                )
                world.advance(600)
            case 3:
                epoch, master = epoch + 1, broker_id
                world.elect(master, epoch, (1, 2, 3))
            case 4:
                world.write(master, 2)
                world.advance(1200)
                _loses(world, master, broker_id, rng)
                losses += 1
        _accept_all(world, master)
        told = [
            one["lost_broker_id"]
            for node in world.nodes.values()
            for one in node.reported("LossNoticed")
        ]
        assert len(told) == losses, told


def _restart(world: World, broker_id: int, *, keeps: int) -> None:
    """As a process does that was killed: a record of which only the first bytes are there is
    cut.
    """
    world.crash(broker_id)
    node = world.nodes[broker_id]
    del node.log.data[keeps // RECORD_BYTES * RECORD_BYTES :]
    node.disk_epochs = (
        EpochHistory(node.disk_epochs).truncate_suffix(node.log.end_offset + 1).entries
    )
    world.restart(broker_id).performed += node.performed


def _loses(world: World, master: int, broker_id: int, rng: random.Random) -> None:
    """An older copy of its store is put back: told, taken out of the set, taken in again when it
    has copied everything.
    """
    leader = world.nodes[master]
    confirmed = leader.core.confirm_offset
    _restart(world, broker_id, keeps=rng.randrange(0, confirmed))
    world.notify(
        broker_id,
        master,
        leader.core.master_epoch,
        leader.core.sync_state_set,
        set_epoch=leader.core.set_epoch,
    )
    world.settle()
    if not leader.proposals[-1].lost_members:  # it was about to leave because its link was down
        world.accept(master)
        world.settle()
    proposal = leader.proposals[-1]
    assert proposal.lost_members == (broker_id,) and broker_id not in proposal.members
    if broker_id in leader.core.sync_state_set:
        world.write(master, 3)
        world.advance(100)
        assert leader.core.confirm_offset == confirmed, "a member that lost data counted"
    _accept_all(world, master)
    assert leader.core.confirm_offset == leader.core.log_end and leader.core.sync_state_set == (
        1,
        2,
        3,
    )


def _accept_all(world: World, master: int) -> None:
    """The controller accepts whatever the master proposes, until it wants nothing more."""
    leader, answered = world.nodes[master], set()
    for _ in range(20):
        world.settle()
        world.advance(300)
        if leader.proposals and leader.proposals[-1].token not in answered:
            answered.add(leader.proposals[-1].token)
            world.accept(master)


def test_a_core_under_controllers_has_all_that_a_driver_asks_of_one() -> None:
    core: Core = trio().nodes[1].core
    assert core.acknowledged_offset == core.confirm_offset and core.epoch_seen == 1
    assert core.compared(0, 1, 2, 0) == [] and core.file_bytes > 0
