"""Whose handshakes a master answers, and which of two links under one id stays (S16)."""

from __future__ import annotations

from itertools import count

from brokers.ha.epochs import EpochHistory
from brokers.ha.frames import SlaveAck, SlaveHandshake
from brokers.replica import effects as fx
from brokers.replica.admission import Admission, has_to_go
from brokers.replica.config import ReplicaConfig
from brokers.replica.master_role import LINKED_ONCE_MAX, MasterRole
from brokers.replica.replica_log import ReplicaLog

REPLICAS = {1: "10.0.0.1:10911", 2: "10.0.0.2:10911", 3: "10.0.0.3:10911"}


def master(admission: Admission, members: tuple[int, ...] = (1, 2)) -> MasterRole:
    log = ReplicaLog(
        epochs=EpochHistory.of((4, 0)), end_offset=100, min_offset=0, confirm_offset=0, epoch_seen=4
    )
    config = ReplicaConfig(file_bytes=1000)
    return MasterRole(
        config,
        log,
        broker_id=1,
        epoch=4,
        members=members,
        set_epoch=9,
        tokens=count(1),
        now_ms=0,
        admission=admission,
    )


def told(replicas: dict[int, str] = REPLICAS) -> Admission:
    admission = Admission()
    admission.learn(replicas)
    return admission


def shake(
    role: MasterRole, link_id: int, broker_id: int, peer: str, now_ms: int = 0
) -> list[fx.Effect]:
    role.link_opened(link_id, now_ms, peer)
    return role.link_data(link_id, SlaveHandshake(broker_id).encode(), now_ms)


def kinds(effects: list[fx.Effect]) -> set[type]:
    return {type(item) for item in effects}


def test_an_invented_id_is_not_answered_and_leaves_no_trace() -> None:
    role = master(told())
    for stranger in range(50, 60):
        effects = shake(role, stranger, stranger, "10.0.0.9:5000")
        assert fx.SendBytes not in kinds(effects) and fx.CloseLink in kinds(effects)
    assert not role.links and not role.sync.linked_once and not role._unjoined


def test_who_registered_a_moment_ago_is_answered_once_the_controller_told() -> None:
    admission = told({1: "10.0.0.1:10911", 2: "10.0.0.2:10911"})
    role = master(admission)
    assert fx.AskController(False) in shake(role, 7, 3, "10.0.0.3:5000")
    admission.learn(REPLICAS)
    assert fx.SendBytes in kinds(shake(role, 8, 3, "10.0.0.3:5001"))


def test_a_member_is_answered_though_the_list_lacks_it_and_everybody_without_a_list() -> None:
    assert fx.SendBytes in kinds(shake(master(told({1: "10.0.0.1:10911"})), 7, 2, "10.0.0.2:5000"))
    assert fx.SendBytes in kinds(shake(master(Admission()), 7, 9, "10.0.0.9:5000"))


def test_ids_that_nobody_can_check_are_remembered_within_a_limit() -> None:
    role = master(Admission())
    for number in range(2, LINKED_ONCE_MAX + 10):
        shake(role, number, number, "10.0.0.9:5000")
        role.link_closed(number, "gone", 0)
    assert len(role.sync.linked_once) == LINKED_ONCE_MAX


def test_a_replica_that_was_cleaned_is_parted_with_and_a_member_is_not() -> None:
    admission = told()
    role = master(admission)
    shake(role, 7, 2, "10.0.0.2:5000")
    shake(role, 8, 3, "10.0.0.3:5000")
    admission.learn({1: "10.0.0.1:10911"})
    assert fx.CloseLink in kinds(role.part_with_unregistered(5))
    assert list(role.links) == [7]


def test_a_link_from_elsewhere_that_came_first_gives_way_to_the_replica_at_once() -> None:
    role = master(told())
    # nobody was seen at home yet: it may be behind an address translation
    shake(role, 7, 2, "10.0.0.9:5000")
    role.link_data(7, SlaveAck(100).encode(), 10)
    assert fx.SendBytes in kinds(shake(role, 8, 2, "10.0.0.2:5000", 20))
    assert list(role.links) == [8]
    assert fx.CloseLink in kinds(shake(role, 9, 2, "10.0.0.9:5001", 30)) and list(role.links) == [8]


def test_what_a_stranger_acknowledged_in_its_name_makes_no_replica_one_that_lost_data() -> None:
    role = master(told(), members=(1, 3))
    shake(role, 7, 2, "10.0.0.9:5000")
    role.link_data(7, SlaveAck(100).encode(), 10)
    role.link_closed(7, "it has said enough", 20)
    shake(role, 8, 2, "10.0.0.2:5000", 30)
    assert fx.FindRecord not in kinds(role.link_data(8, SlaveAck(60).encode(), 40))
    role.link_data(8, SlaveAck(100).encode(), 50)
    role.link_closed(8, "its disk goes back in time", 60)
    shake(role, 9, 2, "10.0.0.2:5000", 70)
    assert fx.FindRecord in kinds(role.link_data(9, SlaveAck(60).encode(), 80))


def test_a_stranger_does_not_push_out_a_link_that_lives_nor_acknowledge_in_its_name() -> None:
    role = master(Admission())
    shake(role, 7, 2, "127.0.0.1:5000")
    role.link_data(7, SlaveAck(100).encode(), 10)
    assert fx.CloseLink in kinds(shake(role, 8, 2, "127.0.0.1:6000", 500))
    assert list(role.links) == [7]
    # silent by now: the slave may be back after a cut
    effects = shake(role, 9, 2, "127.0.0.1:6001", 10 + 1_500)
    assert fx.SendBytes in kinds(effects)
    assert list(role.links) == [9]


def test_who_was_at_home_once_is_not_spoken_for_from_another_host() -> None:
    role = master(told())
    shake(role, 7, 2, "10.0.0.2:5000")
    role.link_closed(7, "cut off", 5)
    effects = shake(role, 8, 2, "10.0.0.66:5000", 5_000)
    assert fx.SendBytes not in kinds(effects) and not role.links
    assert fx.SendBytes in kinds(shake(role, 9, 2, "10.0.0.2:5001", 5_001))


def test_behind_translated_addresses_and_after_a_move_replicas_link_as_before() -> None:
    admission = told()
    role = master(admission)
    assert fx.SendBytes in kinds(shake(role, 7, 2, "192.168.1.1:5000"))
    role.link_closed(7, "gone", 0)
    assert fx.SendBytes in kinds(shake(role, 8, 2, "10.0.0.2:5000", 1))
    role.link_closed(8, "gone", 1)
    admission.learn(REPLICAS | {2: "10.0.0.22:10911"})
    assert fx.SendBytes in kinds(shake(role, 9, 2, "10.0.0.22:5000", 2))


def test_who_opens_links_and_says_nothing_makes_room_itself_before_any_replica_does() -> None:
    role = master(told())
    role.link_opened(1, 0, "10.0.0.3:5000")  # a replica whose first packet is on the way
    for number in range(2, 64 + 1):
        role.link_opened(number, 0, f"6.6.6.6:{number}")
        assert (has_to_go(role.links, 64) is None) == (number < 64)
    assert has_to_go(role.links, 64) == 2
    shake(role, 99, 2, "10.0.0.2:5000")
    assert role.links[99].peer_id == 2 and has_to_go({99: role.links[99]}, 1) is None


def test_a_member_has_room_where_invented_ids_have_taken_all_there_is() -> None:
    role = master(Admission(), members=(1, 2))
    for number in range(100, 100 + 64):
        assert fx.SendBytes in kinds(shake(role, number, number, "6.6.6.6:5000"))
    assert fx.SendBytes not in kinds(shake(role, 200, 200, "6.6.6.6:5000"))
    assert fx.SendBytes in kinds(shake(role, 201, 2, "10.0.0.2:5000"))
