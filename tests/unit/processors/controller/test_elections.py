"""Calls, commands and pushes of the active controller (RULES 9)."""

import pytest
from msgspec.structs import replace

from processors.controller import effects as fx
from processors.controller.elections import Elections
from tests.support.controller_rig import CLUSTER, SET, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig().lead().three()


def test_every_living_member_is_told_of_an_election_in_the_same_breath(rig: Rig) -> None:
    answer = rig.elect(2, designate=True)
    assert answer.code == 0
    notices = rig.take(fx.NotifyRole)
    assert sorted(notice.address for notice in notices) == ["b1:10911", "b2:10911", "b3:10911"]
    assert {notice.command.ext["masterBrokerId"] for notice in notices} == {"2"}
    assert {notice.command.ext["regentMasterHaAddress"] for notice in notices} == {"b2:10912"}


def test_an_accepted_alter_is_known_to_the_master_that_asked_and_pushed_to_nobody(rig: Rig) -> None:
    rig.alter("1,2", 2)
    assert rig.take(fx.NotifyRole) == []


def test_a_set_that_shrinks_by_an_unclean_start_is_pushed_to_its_master(rig: Rig) -> None:
    rig.register(3, incarnation="life-3b", clean="false")
    notices = rig.take(fx.NotifyRole)
    assert "b1:10911" in {notice.address for notice in notices}
    assert notices[0].command.ext["regentSyncStateSet"] == "1,2"


def test_replicas_that_only_have_an_id_are_told_nothing(rig: Rig) -> None:
    ext = {
        "clusterName": "C",
        "brokerName": SET,
        "appliedBrokerId": "4",
        "registerCheckCode": "b4:10911;1",
    }
    rig.request(1013, ext, conn=4)
    rig.elect(2, designate=True)
    assert "b4:10911" not in {notice.address for notice in rig.take(fx.NotifyRole)}


def test_the_new_leader_pushes_roles_the_former_may_not_have_pushed(rig: Rig) -> None:
    other = Rig("c2", rig.log, {"c1": "c1:9878"}, now_ms=rig.now_ms, seed=2)
    other.catch_up()
    other.tick()
    other.perform(other.core.on_peer_closed("c1:9878", True, other.now_ms))
    other.tick(200)
    assert other.core.is_active
    assert {notice.address for notice in other.take(fx.NotifyRole)} == {
        "b1:10911",
        "b2:10911",
        "b3:10911",
    }


def test_a_standby_pushes_nothing(rig: Rig) -> None:
    standby = Rig("c2", rig.log, {"c1": "c1:9878"}, now_ms=rig.now_ms, seed=2)
    standby.catch_up()
    rig.elect(2, designate=True)
    standby.catch_up()
    assert standby.take(fx.NotifyRole) == [] and standby.take(fx.Append) == []


def test_the_controllers_election_expects_the_epochs_it_saw(rig: Rig) -> None:
    rig.auto = False
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    rig.auto = True
    assert len(rig.held) == 1
    assert rig.elect(2, designate=True).code == 0
    rig.append(rig.held[0])
    outcome = rig.published[-1]
    assert (outcome.kind, outcome.accepted, outcome.refusal) == (
        "ElectMaster",
        False,
        "STATE_MOVED",
    )


def test_a_mastership_at_risk_is_told_to_brokers_and_in_answers(rig: Rig) -> None:
    for broker in (1, 2, 3):
        rig.register(broker, incarnation=f"life-{broker}b", clean="false")
    assert "AT_RISK" in rig.published[-1].labels, rig.published[-1]
    notices = rig.take(fx.NotifyRole)
    assert notices[-1].command.ext["regentAtRisk"] == "true"
    info = rig.request(1004, {"brokerName": SET})
    assert info is not None and info.ext["regentAtRisk"] == "true"


def test_a_java_slave_is_told_a_moment_after_the_new_master(rig: Rig) -> None:
    ext = {"clusterName": "C", "brokerName": SET, "brokerId": "3", "brokerAddress": "b3:10911"}
    rig.request(1003, ext, conn=3)  # registers without an incarnation: a Java broker
    rig.elect(2, designate=True)
    delays = {notice.address: notice.delay_ms for notice in rig.take(fx.NotifyRole)}
    assert delays["b1:10911"] == delays["b2:10911"] == 0 < delays["b3:10911"]


def test_a_java_master_is_told_at_once(rig: Rig) -> None:
    ext = {"clusterName": "C", "brokerName": SET, "brokerId": "2", "brokerAddress": "b2:10911"}
    rig.request(1003, ext, conn=2)
    rig.elect(2, designate=True)
    delays = {notice.address: notice.delay_ms for notice in rig.take(fx.NotifyRole)}
    assert set(delays.values()) == {0}


def test_pushes_can_be_switched_off() -> None:
    rig = Rig().lead()
    rig.request(19004, {}, b'{"settings":{"notifyBrokerRoleChanged":"false"}}')
    rig.three()
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_broker_id == 2 and rig.take(fx.NotifyRole) == []


def test_s6_a_restarted_master_that_beats_is_not_told_its_old_mastership(rig: Rig) -> None:
    """A Java broker knows no epoch after its start: it would lead again in the one that is over."""
    desk = Elections(rig.core._context.liveness, lambda name: False)
    known = rig.state.sets[SET]
    assert known.master_broker_id is not None
    assert len(desk.tell_one(rig.state, SET, known.master_broker_id, rig.now_ms)) == 1
    restarted = rig.state.with_set(replace(known, master_restarted=True))
    assert desk.tell_one(restarted, SET, known.master_broker_id, rig.now_ms) == []


def test_s6_a_java_master_that_registers_again_is_told_nothing_before_the_log_knows_of_its_start(
    rig: Rig,
) -> None:
    """The notice of a takeover and the registration of a new start may cross: it would lead in the
    epoch of its former life.
    """
    ext = {"clusterName": "C", "brokerName": SET, "brokerId": "2", "brokerAddress": "b2:10911"}
    rig.request(1003, ext, conn=2)
    rig.elect(2, designate=True)
    rig.heartbeat(2)
    liveness = rig.core._context.liveness
    desk = Elections(liveness, lambda name: False)

    def told() -> set[str]:
        one = [notice.address for notice in desk.tell_one(rig.state, SET, 2, rig.now_ms)]
        assert ("b2:10911" in one) == (
            "b2:10911" in {notice.address for notice in desk.tell(rig.state, [SET], rig.now_ms)}
        )
        return set(one)

    assert told() == {"b2:10911"}
    liveness.introduced(("C", SET, 2), "b2:10911", None, None, 77, rig.now_ms)
    assert told() == set()
    rig.heartbeat(2)
    assert told() == {"b2:10911"}


def test_a_notice_repeats_the_token_of_the_start_that_it_goes_to() -> None:
    rig = Rig().lead().three()
    beat = {
        "clusterName": CLUSTER,
        "brokerName": SET,
        "brokerAddr": "b2:10911",
        "brokerId": "2",
        "regentIncarnation": "life-2",
    }
    rig.request(904, beat | {"regentNoticeToken": "two"}, conn=2, oneway=True)
    rig.register(3, "second life")
    rig.take(fx.NotifyRole)
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    told = {
        notice.address: notice.command.ext.get("regentNoticeToken")
        for notice in rig.take(fx.NotifyRole)
    }
    assert told == {"b2:10911": "two", "b3:10911": None}


def test_a_registration_tells_the_token_too_and_another_start_voids_the_one_before() -> None:
    rig = Rig().lead().three()
    names = {
        "clusterName": CLUSTER,
        "brokerName": SET,
        "brokerId": "2",
        "brokerAddress": "b2:10911",
    }
    for token in ({"regentNoticeToken": "first"}, {"regentNoticeToken": "second"}, {}):
        rig.request(1003, names | token | {"regentIncarnation": f"life {token}"}, conn=2)
        pulse = rig.core._context.liveness.pulse((CLUSTER, SET, 2))
        assert pulse is not None and pulse.notice_token == token.get("regentNoticeToken")
