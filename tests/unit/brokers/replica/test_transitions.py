"""Taking and leaving roles, step by step."""

from __future__ import annotations

from brokers.ha.epochs import EpochHistory
from brokers.replica import effects as fx
from brokers.replica.config import ReplicaConfig
from brokers.replica.ha_address import HaAddressSource
from brokers.replica.replica_log import ReplicaLog
from brokers.replica.roles import Role, RoleNotice
from brokers.replica.transitions import RoleTransitions


def roles(
    *, clean: bool = True, epoch_seen: int = 1, none_of_seen: bool = False
) -> RoleTransitions:
    log = ReplicaLog(
        epochs=EpochHistory.of((1, 0)),
        end_offset=100,
        min_offset=0,
        confirm_offset=90,
        epoch_seen=epoch_seen,
        none_of_seen=none_of_seen,
    )
    return RoleTransitions(ReplicaConfig(file_bytes=1000), log, broker_id=1, clean=clean)


def notice(master: int | None, epoch: int, **kwargs: object) -> RoleNotice:
    fields = {
        "members": (1, 2),
        "set_epoch": epoch,
        "replicas": {1: "a:1", 2: "b:2"},
        "source": "test",
        **kwargs,
    }
    return RoleNotice(master, f"h:{master}", f"h:{master}9", epoch, **fields)


def promoted(one: RoleTransitions, epoch: int = 2) -> list[fx.Effect]:
    return one.on_notice(notice(1, epoch), 0) + one.cut_done(True, 100, 0)


def test_a_promotion_writes_its_entry_before_it_is_told() -> None:
    one = roles()
    effects = promoted(one)
    kinds = [type(item) for item in effects]
    assert kinds[0] is fx.CutIncompleteTail
    assert kinds.index(fx.WriteEpochs) < kinds.index(fx.RoleChanged)
    (changed,) = [item for item in effects if isinstance(item, fx.RoleChanged)]
    assert kinds.count(fx.FlushLog) == 1
    assert kinds.index(fx.WriteEpochs) < kinds.index(fx.FlushLog), (
        "clients wait for the epoch, nobody for the log"
    )
    assert changed == fx.RoleChanged("MASTER", 2, 1, "h:1", (1, 2), 2, {1: "a:1", 2: "b:2"}, "test")


def test_a_newer_notice_overtakes_a_promotion_under_way() -> None:
    one = roles()
    one.on_notice(notice(1, 2), 0)
    one.on_notice(notice(2, 3), 0)
    assert one.role is Role.SLAVE
    one.cut_done(True, 100, 0)
    assert one.role is Role.SLAVE and one.master is None


def test_who_is_chosen_without_being_trusted_says_so_and_asks_for_another_election() -> None:
    one = roles(clean=False)
    effects = promoted(one)
    assert one.role is Role.FENCED
    assert effects[-2:] == [fx.RegisterAgain(), fx.AskController(True)]


def test_tokens_of_proposals_never_repeat_over_masterships() -> None:
    one = roles()
    promoted(one, 2)
    first = next(one._tokens)
    promoted(one, 3)
    assert next(one._tokens) > first


def test_stepping_down_leaves_nothing_behind() -> None:
    one = roles()
    promoted(one)
    one.master.link_opened(7, 0)
    effects = one.step_down("test", "test", 1)
    assert [type(item) for item in effects][:2] == [fx.CloseLink, fx.AbortWaiters]
    assert one.role is Role.FENCED and one.sync_state_set == (1, 2)


def test_distrust_lasts_until_it_caught_up() -> None:
    one = roles()
    one.distrust("disk", "storage_failed", 0)
    assert not one.clean
    one.on_notice(notice(2, 2), 0)
    assert one.role is Role.SLAVE and not one.clean
    one.slave.caught_up = True
    assert one.clean
    one.step_down("test", "test", 0)
    assert one.clean  # remembered after the role


def test_while_fenced_it_asks_again_and_stops_asking_in_a_role() -> None:
    one = roles(clean=False)
    assert one.on_notice(notice(1, 2), 1000)[-1] == fx.AskController(True)
    assert one.tick_fenced(1500) == []
    assert one.tick_fenced(2000) == [fx.AskController(True)]
    one.on_notice(notice(2, 3), 2100)
    one.step_down("test", "test", 2200)
    assert one.tick_fenced(9000) == []


def test_of_a_java_master_only_its_own_present_address_is_heard() -> None:
    one = roles()
    effects = one.on_notice(notice(2, 2, regent_master=False), 0)
    assert effects[-1] == fx.AskHaAddress("h:2")
    # a name server that knows the old master
    assert one.ha_address_told("h:1", "h:77", HaAddressSource.NAME_SERVER, 1) == []
    assert one.ha_address_told("h:2", "h:88", HaAddressSource.NAME_SERVER, 2) == [
        fx.ConnectHa("h:88")
    ]
    # the controller's guess moves nothing
    assert one.on_notice(notice(2, 2, regent_master=False), 3) == []


def test_only_another_master_than_before_can_have_written_other_bytes_under_an_old_label() -> None:
    one = roles()
    one.on_notice(notice(2, 2, regent_master=False), 0)
    assert one.slave is not None and one.slave._led_epoch == 2
    one._log.agreed()
    # perhaps heard of late: its bytes may be here already
    one.on_notice(notice(2, 3, regent_master=False), 1)
    assert one.slave._led_epoch is None
    one.on_notice(notice(3, 4, regent_master=False), 2)
    assert one.slave._led_epoch == 4
    one.on_notice(notice(2, 5), 3)  # a Regent master has an entry of its own for every epoch
    assert one.slave._led_epoch is None


def test_without_a_link_no_byte_of_the_epoch_is_here_whatever_happens_meanwhile() -> None:
    """Killed between hearing of a Java master and its link: the own bytes still are the dead
    master's.
    """
    one = roles()
    one.on_notice(notice(2, 2, regent_master=False), 0)
    assert one._log.none_of_seen
    again = roles(epoch_seen=2, none_of_seen=True)
    again.on_notice(notice(2, 2, regent_master=False), 0)
    assert again.slave is not None and again.slave._led_epoch == 2
    again.on_notice(notice(2, 3, regent_master=False), 1)
    assert again.slave._led_epoch == 3
    linked = roles(epoch_seen=2, none_of_seen=False)
    linked.on_notice(notice(2, 2, regent_master=False), 0)
    assert linked.slave is not None and linked.slave._led_epoch is None


def test_where_a_regent_master_takes_links_only_the_controller_says() -> None:
    one = roles()
    assert one.on_notice(notice(2, 2), 0)[-1] == fx.ConnectHa("h:29")
    assert one.ha_address_told("h:2", "h:88", HaAddressSource.MASTER, 2) == []


def test_an_address_told_to_a_master_or_a_fenced_replica_is_no_news() -> None:
    one = roles()
    assert one.ha_address_told("h:2", "h:88", HaAddressSource.MASTER, 0) == []
    promoted(one)
    assert one.ha_address_told("h:1", "h:88", HaAddressSource.MASTER, 0) == []


def test_an_older_set_is_not_taken_over_by_a_follower() -> None:
    one = roles()
    one.on_notice(notice(2, 2, members=(1, 2), set_epoch=8), 0)
    one.on_notice(notice(2, 2, members=(2,), set_epoch=7), 0)
    assert one.sync_state_set == (1, 2) and one.set_epoch == 8


def test_who_cannot_even_cut_its_log_for_want_of_room_does_not_lead_but_asks_again() -> None:
    one = roles()
    one.on_notice(notice(1, 2), 0)
    effects = one.disk_full("no room", 0)
    assert one.role is Role.FENCED and one.clean
    assert fx.AskController(True) in effects
    assert one.cut_done(True, 100, 0) == [] and one.master is None


def test_while_the_disk_hangs_another_master_ends_the_role_and_nothing_is_written() -> None:
    one = roles()
    promoted(one)
    effects = one.on_notice(notice(2, 3), 0, disk_hangs=True)
    kinds = [type(item) for item in effects]
    assert fx.WriteEpochs not in kinds and fx.ConnectHa not in kinds and fx.AbortWaiters in kinds
    (changed,) = [item for item in effects if isinstance(item, fx.RoleChanged)]
    assert (changed.role, changed.master_epoch, changed.master_address) == ("SLAVE", 3, "h:2")
    assert one.role is Role.FENCED
    assert one.on_notice(notice(2, 3), 10, disk_hangs=True) == [], "it is told once"


def test_once_the_disk_answers_the_next_notice_is_followed() -> None:
    one = roles()
    promoted(one)
    one.on_notice(notice(2, 3), 0, disk_hangs=True)
    kinds = [type(item) for item in one.on_notice(notice(2, 3), 10)]
    assert kinds[0] is fx.WriteEpochs and one.role is Role.SLAVE
