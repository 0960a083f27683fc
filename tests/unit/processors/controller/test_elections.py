"""Calls, commands and pushes of the active controller (RULES 9)."""

import pytest
from msgspec.structs import replace

from processors.controller import effects as fx
from processors.controller.elections import Elections
from processors.liveness.role_taking import RoleTakings
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


def java(rig: Rig, *brokers: int) -> None:
    """These brokers are Java's from now on: they register, and beat, without an incarnation."""
    for broker in brokers:
        names = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": str(broker)}
        address = f"b{broker}:10911"
        rig.request(1003, names | {"brokerAddress": address}, conn=broker)
        beat = {"brokerAddr": address, "epoch": "1", "maxOffset": "100", "confirmOffset": "100"}
        rig.request(904, names | beat, conn=broker, oneway=True)
    rig.sent.clear()


class Asked:
    """A set of three under broker 2's new mastership, of which the given ones are Java's."""

    def __init__(self, rig: Rig, *brokers: int) -> None:
        self.rig = rig
        java(rig, *brokers)
        rig.elect(2, designate=True)

    def answered(self, question: fx.AskBroker, **ext: str) -> None:
        answer = question.request.reply(0, ext)
        self.rig.perform(self.rig.core.on_broker_answer(question.token, answer, self.rig.now_ms))

    def polled(self, conn: int) -> bool:
        """Whether a poll over that connection is answered at once; a Java broker does not say who
        it is.
        """
        return self.rig.request(1004, {"brokerName": SET}, conn=conn) is not None

    def questions(self) -> list[tuple[str, int]]:
        return [(one.address, one.request.code) for one in self.rig.take(fx.AskBroker)]


def test_java_slaves_hear_of_a_new_master_when_it_has_its_role(rig: Rig) -> None:
    asked = Asked(rig, 3)
    assert sorted(one.address for one in rig.take(fx.NotifyRole)) == ["b1:10911", "b2:10911"]
    (question,) = rig.take(fx.AskBroker)
    assert (question.address, question.request.code, question.request.ext) == ("b2:10911", 906, {})
    asked.answered(question)
    rig.pass_time(100, step=25)
    (question,) = rig.take(fx.AskBroker)
    asked.answered(question, masterHaAddress="b2:10912")
    assert asked.questions() == []
    rig.pass_time(400)
    (notice,) = rig.take(fx.AskBroker)
    assert (notice.address, notice.request.code) == ("b3:10911", 1008)
    assert not notice.request.is_oneway and notice.request.ext["masterBrokerId"] == "2"
    asked.answered(notice)
    (link,) = rig.take(fx.AskBroker)
    assert (link.address, link.request.code) == ("b3:10911", 906)
    assert link.request.ext["masterHaAddress"] == "b2:10912"
    asked.answered(link)
    rig.pass_time(600)
    (unlink,) = rig.take(fx.AskBroker)
    assert (unlink.request.code, unlink.request.ext["masterHaAddress"]) == (906, "")
    rig.alter("2,3", rig.state.sets[SET].sync_state_set_epoch, master=2)
    asked.answered(unlink)
    rig.pass_time(1_000)
    assert rig.take(fx.AskBroker) == []


def test_slaves_of_a_master_whose_port_is_closed_are_told_without_waiting_for_name_servers(
    rig: Rig,
) -> None:
    java(rig, 2, 3)
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_broker_id == 2
    (question,) = rig.take(fx.AskBroker)
    answer = question.request.reply(0, {"masterHaAddress": "b2:10912"})
    rig.perform(rig.core.on_broker_answer(question.token, answer, rig.now_ms))
    assert [(one.address, one.request.code) for one in rig.take(fx.AskBroker)] == [
        ("b3:10911", 1008)
    ]


def test_a_java_slave_that_polls_meanwhile_waits_for_its_answer_and_nobody_else_does(
    rig: Rig,
) -> None:
    asked = Asked(rig, 2, 3)
    assert not asked.polled(3)
    assert asked.polled(2), "the master itself"
    ours = {"brokerName": SET, "regentBrokerId": "1", "regentIncarnation": "life-1"}
    assert rig.request(1004, ours, conn=1) is not None
    names = {"clusterName": CLUSTER, "brokerName": SET}
    assert rig.request(1012, names, conn=3) is not None, "another question"
    (question,) = rig.take(fx.AskBroker)
    rig.take(fx.Reply)
    asked.answered(question, masterHaAddress="b2:10912")
    rig.pass_time(400)
    (answer,) = [one.response for one in rig.take(fx.Reply) if one.conn_id == 3]
    assert answer.ext["masterBrokerId"] == "2" and asked.polled(3)


def test_a_java_slave_waits_no_longer_than_its_call_lasts(rig: Rig) -> None:
    asked = Asked(rig, 3)
    assert not asked.polled(3)
    rig.take(fx.Reply)
    rig.pass_time(1_500)
    assert [one.conn_id for one in rig.take(fx.Reply)] == [3]
    assert ("b3:10911", 1008) in asked.questions()


def test_a_set_of_ours_alone_is_asked_nothing_and_waits_for_nothing(rig: Rig) -> None:
    asked = Asked(rig)
    assert len(rig.take(fx.NotifyRole)) == 3 and asked.questions() == []
    assert asked.polled(3)


def test_a_java_master_of_slaves_of_ours_keeps_nobody_waiting(rig: Rig) -> None:
    asked = Asked(rig, 2)
    assert len(rig.take(fx.NotifyRole)) == 3 and asked.questions() == []
    assert asked.polled(3)


def test_a_new_leader_goes_on_with_java_slaves_that_are_no_members_yet(rig: Rig) -> None:
    Asked(rig, 2, 3)
    assert rig.state.sets[SET].sync_state_set == (2,)
    other = Rig("c2", rig.log, {"c1": "c1:9878"}, now_ms=rig.now_ms, seed=2)
    other.catch_up()
    other.heartbeat(2)
    other.heartbeat(3)
    other.tick()
    other.perform(other.core.on_peer_closed("c1:9878", True, other.now_ms))
    other.tick(200)
    assert other.core.is_active
    assert "b3:10911" not in [one.address for one in other.take(fx.NotifyRole)]
    assert [(one.address, one.request.code) for one in other.take(fx.AskBroker)] == [
        ("b2:10911", 906)
    ]


def test_pushes_can_be_switched_off() -> None:
    rig = Rig().lead()
    rig.request(19004, {}, b'{"settings":{"notifyBrokerRoleChanged":"false"}}')
    rig.three()
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_broker_id == 2 and rig.take(fx.NotifyRole) == []


def test_s6_a_restarted_master_that_beats_is_not_told_its_old_mastership(rig: Rig) -> None:
    """A Java broker knows no epoch after its start: it would lead again in the one that is over."""
    desk = Elections(rig.core._context.liveness, RoleTakings(), lambda name: False)
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
    desk = Elections(liveness, RoleTakings(), lambda name: False)

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


def test_a_broker_that_asks_before_the_master_could_be_heard_gets_the_present_one() -> None:
    """All controllers were away. The one that is back first is found by a restarted slave, which
    asks for a master, before the living master has connected to it.
    """
    before = Rig().lead().three()
    rig = Rig("c1", before.log, now_ms=before.now_ms, seed=2)
    rig.catch_up()
    rig.lead()
    assert rig.state.sets[SET].master_broker_id == 1
    rig.register(2, "second life")
    asked = rig.elect(2)
    assert (asked.code, asked.ext["masterBrokerId"]) == (2011, "1")
    assert (rig.state.sets[SET].master_broker_id, rig.state.sets[SET].master_epoch) == (1, 1)
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_broker_id == 2


def test_a_broker_that_asks_while_a_masters_closed_connection_is_looked_into_gets_it_too() -> None:
    rig = Rig().lead().three()
    assert rig.close_connection(1) == ["b1:10911"]
    rig.register(2, "second life")
    assert rig.elect(2).ext["masterBrokerId"] == "1"
    assert rig.state.sets[SET].master_epoch == 1
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_epoch == 2


def test_an_operator_is_not_kept_from_electing_by_a_master_that_was_not_heard_yet() -> None:
    before = Rig().lead().three()
    rig = Rig("c1", before.log, now_ms=before.now_ms, seed=2)
    rig.catch_up()
    rig.lead()
    rig.heartbeat(2)
    assert rig.elect(2, designate=True).code == 0
    assert rig.state.sets[SET].master_broker_id == 2
