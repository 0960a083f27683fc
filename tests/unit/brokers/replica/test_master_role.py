"""One mastership at close range: what the whole-set tests of test_core.py do not reach."""

from __future__ import annotations

from itertools import count

from brokers.ha.epochs import EpochHistory
from brokers.ha.frames import SlaveAck, SlaveHandshake
from brokers.replica import effects as fx
from brokers.replica.config import ReplicaConfig
from brokers.replica.master_role import MasterRole
from brokers.replica.replica_log import ReplicaLog


def master(
    end: int = 100, *, config: ReplicaConfig | None = None, members: tuple[int, ...] = (1, 2)
) -> MasterRole:
    log = ReplicaLog(
        epochs=EpochHistory.of((1, 0), (4, 50)),
        end_offset=end,
        min_offset=0,
        confirm_offset=0,
        epoch_seen=4,
    )
    return MasterRole(
        config or ReplicaConfig(file_bytes=1000),
        log,
        broker_id=1,
        epoch=4,
        members=members,
        set_epoch=9,
        tokens=count(1),
        now_ms=0,
    )


def link(
    role: MasterRole, link_id: int, broker_id: int, acked: int, now_ms: int = 0
) -> list[fx.Effect]:
    role.link_opened(link_id, now_ms)
    effects = role.link_data(link_id, SlaveHandshake(broker_id).encode(), now_ms)
    return effects + role.link_data(link_id, SlaveAck(acked).encode(), now_ms)


def test_what_is_confirmed_now_stands_in_the_packets_that_follow() -> None:
    role = master()
    effects = link(role, 7, 2, 60)
    kinds = [type(item) for item in effects]
    assert kinds.index(fx.ConfirmMoved) < kinds.index(fx.SendRange)
    (packet,) = [item for item in effects if isinstance(item, fx.SendRange)]
    assert packet.header[-8:] == (60).to_bytes(8, "big")
    assert (packet.offset, packet.count) == (60, 40)


def test_a_link_that_breaks_the_protocol_is_closed_and_counts_no_more() -> None:
    role = master()
    link(role, 7, 2, 60)
    effects = role.link_data(7, SlaveAck(10_000).encode(), 0)
    assert isinstance(effects[0], fx.CloseLink)
    assert effects[1].kind == "HaLinkDown"
    assert role.links == {}


def test_a_blocked_link_gathers_bytes_into_larger_packets() -> None:
    role = master()
    link(role, 7, 2, 100)
    role.link_flow(7, blocked=True, now_ms=0)
    for end in (110, 120, 130):
        assert not [item for item in role.log_grew(end, 0) if isinstance(item, fx.SendRange)]
    (packet,) = role.link_flow(7, blocked=False, now_ms=0)
    assert (packet.offset, packet.count) == (100, 30)


def test_an_accepted_answer_without_members_means_the_proposed_ones() -> None:
    role = master(members=(1,), config=ReplicaConfig(file_bytes=1000, min_in_sync_replicas=1))
    effects = link(role, 7, 2, 100)
    (proposal,) = [item for item in effects if isinstance(item, fx.ProposeSyncSet)]
    role.alter_result(proposal.token, 0, None, 10, 0)
    assert role.sync.confirmed == {1, 2} and role.sync.set_epoch == 10


def test_an_accepted_answer_without_a_set_epoch_is_unknown() -> None:
    role = master(members=(1,), config=ReplicaConfig(file_bytes=1000, min_in_sync_replicas=1))
    link(role, 7, 2, 100)
    role.alter_result(1, 0, (1, 2), None, 0)
    assert role.sync.proposal is not None
    assert [item for item in role.tick(250) if isinstance(item, fx.ProposeSyncSet)]


def test_a_fallen_behind_slave_is_told_of_once_and_again_when_it_caught_up() -> None:
    role = master()
    link(role, 7, 2, 100)
    said = [item.kind for item in role.tick(10) if isinstance(item, fx.ReportEvent)]
    role.log_grew(200, 20)
    for now_ms in (900, 1100, 1300):
        said += [item.kind for item in role.tick(now_ms) if isinstance(item, fx.ReportEvent)]
    role.link_data(7, SlaveAck(200).encode(), 1400)
    said += [item.kind for item in role.tick(1450) if isinstance(item, fx.ReportEvent)]
    assert [kind for kind in said if kind.startswith("Slave")] == [
        "SlaveCaughtUp",
        "SlaveFellBehind",
        "SlaveCaughtUp",
    ]


def test_a_log_that_cannot_be_labelled_costs_the_link_not_the_process() -> None:
    log = ReplicaLog(
        epochs=EpochHistory.of((4, 50)),
        end_offset=100,
        min_offset=0,
        confirm_offset=0,
        epoch_seen=4,
    )
    role = MasterRole(
        ReplicaConfig(file_bytes=1000),
        log,
        broker_id=1,
        epoch=4,
        members=(1, 2),
        set_epoch=9,
        tokens=count(1),
        now_ms=0,
    )
    effects = link(role, 7, 2, 0)
    assert ("no epoch covers offset 0") in [
        item.reason for item in effects if isinstance(item, fx.CloseLink)
    ][0]


def test_a_set_that_this_master_did_not_ask_for_makes_outsiders_link_anew() -> None:
    """S5: an outsider may have lost what its open link acknowledged; the controller moved the set
    epoch for it.
    """
    role = master(members=(1, 2))
    link(role, 1, 2, 100)
    link(role, 2, 3, 40)
    effects = role.learn_set((1, 2), role.sync.set_epoch + 1, 10)
    assert [effect.link_id for effect in effects if isinstance(effect, fx.CloseLink)] == [2]
    assert sorted(role.links) == [1]


def test_the_set_that_this_master_asked_for_leaves_every_link_open() -> None:
    role = master(members=(1, 2))
    link(role, 1, 2, 100)
    link(role, 2, 4, 40)
    link(role, 3, 3, 100)
    proposal = role.sync.proposal
    assert proposal is not None
    role.alter_result(
        proposal.token, 0, tuple(sorted(proposal.members)), proposal.base_set_epoch + 1, 10
    )
    assert sorted(role.links) == [1, 2, 3]


def lose(role: MasterRole, effects: list[fx.Effect], now_ms: int = 0) -> list[fx.Effect]:
    """Answer the question that a doubt asks: the records are gone."""
    (question,) = [item for item in effects if isinstance(item, fx.FindRecord)]
    return role.record_found(question.broker_id, question.offset, True, now_ms)


def test_a_member_that_links_below_the_confirm_offset_is_reported_and_leaves() -> None:
    """S15: its disk was lost, or an older copy of its store put back."""
    role = master()
    link(role, 7, 2, 100)
    assert role._log.confirm_offset == 100
    role.link_closed(7, "gone", 0)
    asked = link(role, 8, 2, 60)
    assert not [item for item in asked if isinstance(item, fx.ProposeSyncSet)]
    effects = lose(role, asked)
    (told,) = [
        item for item in effects if isinstance(item, fx.ReportEvent) and item.kind == "LossNoticed"
    ]
    assert told.fields == {
        "lost_broker_id": 2,
        "claimed_epoch": 4,
        "claimed_offset": 60,
        "acknowledged_offset": 100,
        "why": "below_the_confirm_offset",
    }
    (proposal,) = [item for item in effects if isinstance(item, fx.ProposeSyncSet)]
    assert (proposal.members, proposal.lost_members) == ((1,), (2,))
    assert role.write_refusal(0) is not None


def test_a_lost_member_counts_for_nothing_until_it_has_left_and_then_joins_anew() -> None:
    role = master()
    link(role, 7, 2, 100)
    role.link_closed(7, "gone", 0)
    effects = lose(role, link(role, 8, 2, 60))
    role.log_grew(120, 0)
    role.link_data(8, SlaveAck(120).encode(), 0)  # it has copied everything again
    assert role._log.confirm_offset == 100
    (proposal,) = [item for item in effects if isinstance(item, fx.ProposeSyncSet)]
    effects = role.alter_result(proposal.token, 0, (1,), 10, 0)
    # one alone is below the minimum
    assert role.sync.confirmed == {1} and role._log.confirm_offset == 100
    (joining,) = [item for item in effects if isinstance(item, fx.ProposeSyncSet)]
    assert (joining.members, joining.lost_members) == ((1, 2), ())
    role.alter_result(joining.token, 0, (1, 2), 11, 0)
    assert role._log.confirm_offset == 120


def test_in_doubt_nothing_is_counted_and_a_cut_record_is_no_loss() -> None:
    role = master()
    link(role, 7, 2, 100)
    role.link_closed(7, "gone", 0)
    (question,) = [item for item in link(role, 8, 2, 95) if isinstance(item, fx.FindRecord)]
    assert (question.broker_id, question.offset, question.below) == (2, 95, 100)
    role.log_grew(120, 0)
    role.link_data(8, SlaveAck(120).encode(), 0)
    assert role._log.confirm_offset == 100
    role.record_found(2, 95, False, 0)
    assert role._log.confirm_offset == 120 and role.sync.proposal is None


def test_a_wiped_member_is_noticed_although_its_link_is_of_no_use() -> None:
    """The log begins behind what it holds: the link ends with its first word."""
    log = ReplicaLog(
        epochs=EpochHistory.of((4, 50)),
        end_offset=100,
        min_offset=50,
        confirm_offset=80,
        epoch_seen=4,
    )
    role = MasterRole(
        ReplicaConfig(file_bytes=1000),
        log,
        broker_id=1,
        epoch=4,
        members=(1, 2),
        set_epoch=9,
        tokens=count(1),
        now_ms=0,
    )
    effects = link(role, 7, 2, 20)
    assert [item for item in effects if isinstance(item, fx.CloseLink)]
    (proposal,) = [item for item in lose(role, effects) if isinstance(item, fx.ProposeSyncSet)]
    assert proposal.lost_members == (2,)


def test_who_is_no_member_is_judged_by_what_it_acknowledged_here() -> None:
    role = master(members=(1, 2))
    link(role, 7, 2, 100)
    link(role, 8, 3, 40)
    role.link_closed(8, "gone", 0)
    role.learn_set((1, 2), 10, 0)
    assert not [item for item in link(role, 9, 4, 0) if isinstance(item, fx.FindRecord)]  # new here
    effects = lose(role, link(role, 10, 3, 20))
    (proposal,) = [item for item in effects if isinstance(item, fx.ProposeSyncSet)]
    assert (proposal.members, proposal.lost_members) == ((1, 2), (3,))


def test_in_count_mode_a_member_need_not_hold_what_is_confirmed() -> None:
    config = ReplicaConfig(file_bytes=1000, all_ack=False, in_sync_replicas=2)
    role = master(members=(1, 2, 3), config=config)
    link(role, 7, 2, 100)
    assert role._log.confirm_offset == 100
    assert not [item for item in link(role, 8, 3, 60) if isinstance(item, fx.FindRecord)]
    role.link_closed(8, "gone", 0)
    assert lose(role, link(role, 9, 3, 50))  # but what it acknowledged itself it must have
