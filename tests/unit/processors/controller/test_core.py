"""The controller core against a fold in memory: requests, failover, leadership, as effects."""

import json

import pytest

from brokers.remoting.codes import RequestCode
from processors.controller import effects as fx
from tests.support.controller_rig import SET, Log, Rig


@pytest.fixture
def rig() -> Rig:
    return Rig().lead()


def test_the_first_controller_forms_the_cluster_and_leads() -> None:
    rig = Rig()
    rig.lead()
    assert rig.state.cluster_id == "cluster"
    assert (rig.state.term, rig.state.leader_id, rig.state.leader_address) == (1, "c1", "c1:9878")
    assert [one.kind for one in rig.published] == ["ClusterFormed", "ClaimLeadership"]


def test_a_broker_set_is_born(rig: Rig) -> None:
    answer = rig.join(1)
    assert answer.code == 0 and "masterBrokerId" not in answer.ext
    assert json.loads(answer.body) == {"syncStateSet": [], "syncStateSetEpoch": 0}
    elected = rig.elect(1)
    assert elected.code == 0 and elected.ext["masterBrokerId"] == "1"
    second = rig.join(2)
    assert second.ext["masterBrokerId"] == "1" and second.ext["masterAddress"] == "b1:10911"
    assert second.ext["regentMasterHaAddress"] == "b1:10912"


def test_a_dead_master_is_replaced_on_the_refused_probe(rig: Rig) -> None:
    rig.three()
    assert rig.close_connection(1) == ["b1:10911"]
    rig.now_ms += 2
    rig.probe_result("b1:10911", "refused")
    broker_set = rig.state.sets[SET]
    assert (broker_set.master_broker_id, broker_set.sync_state_set) == (2, (2, 3))
    notices = rig.take(fx.NotifyRole)
    assert sorted(one.address for one in notices) == ["b2:10911", "b3:10911"]
    assert notices[0].command.ext["masterBrokerId"] == "2"
    assert notices[0].command.is_oneway and json.loads(notices[0].command.body)["syncStateSet"] == [
        2,
        3,
    ]
    outcome = rig.published[-1]
    assert outcome.cause == "master_probe_refused"
    assert list(outcome.phases) == [
        "detected",
        "probed",
        "received",
        "appended",
        "applied",
        "notified",
    ]
    assert outcome.phases["probed"] - outcome.phases["detected"] == 2


def test_an_open_port_leaves_the_master_to_its_timeout(rig: Rig) -> None:
    rig.three()
    rig.close_connection(1)
    rig.probe_result("b1:10911", "open")
    assert rig.state.sets[SET].master_broker_id == 1
    for _ in range(16):
        rig.tick(200)
        rig.heartbeat(2)
        rig.heartbeat(3)
    assert rig.state.sets[SET].master_broker_id == 2
    assert rig.published[-1].cause == "master_heartbeat_expired"


def test_a_port_that_answered_while_dying_is_asked_again(rig: Rig) -> None:
    rig.three()
    rig.close_connection(1)
    rig.probe_result("b1:10911", "open")
    rig.tick(50)
    assert [probe.address for probe in rig.take(fx.Probe)] == ["b1:10911"]
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_broker_id == 2


def test_a_late_close_of_an_old_connection_harms_nobody(rig: Rig) -> None:
    rig.three()
    rig.heartbeat(1, conn=50)
    assert rig.close_connection(1) == []


def test_a_master_that_registers_again_gets_a_new_epoch_or_a_successor(rig: Rig) -> None:
    rig.three()
    before = rig.state.sets[SET].master_epoch
    answer = rig.register(1, incarnation="life-1b")
    assert "masterBrokerId" not in answer.ext
    assert rig.state.sets[SET].master_epoch > before
    assert rig.published[-1].cause == "master_restarted"


def test_nobody_electable_is_asked_again_only_when_the_evidence_changes(rig: Rig) -> None:
    for broker in (1, 2):
        rig.join(broker)
        if broker == 1:
            rig.elect(1)
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")  # broker 2 lives, but is not in the set
    tried = sum(1 for one in rig.published if one.kind == "ElectMaster")
    for _ in range(30):
        rig.tick(100)
        rig.heartbeat(2)
    assert sum(1 for one in rig.published if one.kind == "ElectMaster") == tried
    rig.heartbeat(1, conn=9)
    assert rig.state.sets[SET].master_broker_id == 1


def test_a_replica_that_comes_back_is_told_who_is_master(rig: Rig) -> None:
    rig.three()
    rig.close_connection(3)
    rig.probe_result("b3:10911", "refused")
    rig.sent.clear()
    rig.heartbeat(3, conn=30)
    assert [one.address for one in rig.take(fx.NotifyRole)] == ["b3:10911"]


def test_a_retry_with_the_same_command_id_gets_the_first_outcome(rig: Rig) -> None:
    names = {"clusterName": "C", "brokerName": "b", "regentCommandId": "ab" * 16}
    apply = names | {"appliedBrokerId": "1", "registerCheckCode": "h:1;1"}
    first = rig.request(1013, apply)
    again = rig.request(1013, apply)
    assert first is not None and again is not None and (first.code, again.code) == (0, 0)
    assert rig.published[-1].labels == ("REPEAT",)
    assert rig.state.sets["b"].next_broker_id == 2


def test_a_retry_while_the_first_is_under_way_waits_with_it(rig: Rig) -> None:
    rig.auto = False
    apply = {
        "clusterName": "C",
        "brokerName": "b",
        "appliedBrokerId": "1",
        "registerCheckCode": "h:1;1",
        "regentCommandId": "ab" * 16,
    }
    assert rig.request(1013, apply, conn=1) is None
    assert rig.request(1013, apply, conn=2) is None
    assert len(rig.held) == 1
    rig.append(rig.held[0])
    assert [reply.conn_id for reply in rig.take(fx.Reply)] == [1, 2]


def test_no_answer_from_the_log_is_told_as_unknown(rig: Rig) -> None:
    rig.auto = False
    apply = {
        "clusterName": "C",
        "brokerName": "b",
        "appliedBrokerId": "1",
        "registerCheckCode": "h:1;1",
    }
    rig.request(1013, apply)
    rig.perform(rig.core.on_append_result(rig.held[0].command_id, None, rig.now_ms))
    rig.pass_time(2_600)
    (reply,) = rig.take(fx.Reply)
    assert reply.response.code == 1 and "unknown" in (reply.response.remark or "")


def test_a_read_waits_for_the_end_of_the_log_of_its_arrival(rig: Rig) -> None:
    rig.three()
    rig.auto = False
    assert rig.request(1004, {"brokerName": SET}) is None
    (question,) = rig.take(fx.AskEndOffset)
    rig.log.records.append(b"a record of somebody else")
    rig.perform(rig.core.on_end_offset(question.token, len(rig.log.records)))
    assert rig.take(fx.Reply) == []
    rig.catch_up()
    (reply,) = rig.take(fx.Reply)
    assert reply.response.code == 0 and reply.response.ext["masterEpoch"] == "1"


def test_unknown_codes_are_answered_with_3_as_rocketmq_does(rig: Rig) -> None:
    answer = rig.request(9999)
    assert answer is not None and answer.code == 3
    assert answer.remark == " request type 9999 not supported"


@pytest.mark.parametrize(
    ("code", "ext", "body"),
    [
        (1013, {"clusterName": "C", "brokerName": "b"}, b""),
        (
            1013,
            {
                "clusterName": "C",
                "brokerName": "b",
                "appliedBrokerId": "x",
                "registerCheckCode": "h;1",
            },
            b"",
        ),
        (1003, {"clusterName": "C", "brokerName": "b"}, b""),
        (1001, {"brokerName": "a", "masterBrokerId": "1", "masterEpoch": "1"}, b""),
        (1001, {"brokerName": "a", "masterBrokerId": "1", "masterEpoch": "1"}, b"[1]"),
        (1006, {}, b""),
        (1006, {}, b"[]"),
        (1011, {}, b""),
    ],
)
def test_unreadable_requests_get_code_1_with_a_text(
    rig: Rig, code: int, ext: dict[str, str], body: bytes
) -> None:
    answer = rig.request(code, ext, body)
    assert answer is not None and answer.code == 1 and answer.remark
    assert rig.take(fx.Append) == []


def test_a_one_way_request_is_never_answered(rig: Rig) -> None:
    assert rig.request(904, {}, oneway=True) is None
    assert rig.request(1005, oneway=True) is None
    two_way = rig.request(904, {})
    assert two_way is not None and two_way.code == 2005


def test_a_standby_forwards_to_the_leader_it_knows_and_gives_its_answer_back() -> None:
    log = Log()
    leader = Rig("c1", log, {"c2": "c2:9878"}).lead()
    standby = Rig("c2", log, {"c1": "c1:9878"}, now_ms=leader.now_ms, seed=2)
    standby.catch_up()
    apply = {
        "clusterName": "C",
        "brokerName": "b",
        "appliedBrokerId": "1",
        "registerCheckCode": "h:1;1",
    }
    assert standby.request(1013, apply) is None
    (forward,) = standby.take(fx.ForwardToLeader)
    assert forward.address == "c1:9878" and forward.request.ext["regentForwardedFor"] == "peer:1"
    answer = leader.request(1013, forward.request.ext)
    assert answer is not None and answer.code == 0
    standby.perform(standby.core.on_reply_from_leader(forward.token, answer, standby.now_ms))
    (reply,) = standby.take(fx.Reply)
    assert reply.response.code == 0 and reply.response.opaque == 4711


def test_a_forwarded_request_is_never_forwarded_again() -> None:
    standby = Rig("c2", Log(), {"c1": "c1:9878"})
    answer = standby.request(1004, {"brokerName": "a", "regentForwardedFor": "x:1"})
    assert answer is not None and answer.code == 2007 and answer.ext == {}


def test_without_a_leader_a_request_waits_a_moment_and_then_gets_2007() -> None:
    log = Log()
    Rig("c1", log).lead()
    standby = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    standby.auto = False
    standby.catch_up()
    standby.tick()
    standby.perform(standby.core.on_peer_closed("c1:9878", True, standby.now_ms))
    assert standby.request(1004, {"brokerName": "a"}) is None
    standby.pass_time(1_100)
    (reply,) = standby.take(fx.Reply)
    assert reply.response.code == 2007
    assert reply.response.remark == "The controller is not in leader state"


def test_a_refused_leader_is_succeeded_at_once_and_what_waited_is_answered() -> None:
    log = Log()
    leader = Rig("c1", log, {"c2": "c2:9878"}).lead().three()
    standby = Rig("c2", log, {"c1": "c1:9878"}, now_ms=leader.now_ms, seed=2)
    standby.catch_up()
    standby.tick()
    standby.heartbeat(2)
    standby.heartbeat(3)
    standby.request(1004, {"brokerName": SET})
    (forward,) = standby.take(fx.ForwardToLeader)
    standby.perform(standby.core.on_reply_from_leader(forward.token, None, standby.now_ms))
    standby.perform(standby.core.on_peer_closed("c1:9878", False, standby.now_ms))
    assert [probe.address for probe in standby.take(fx.Probe)] == ["c1:9878"]
    standby.probe_result("c1:9878", "refused")
    assert standby.core.is_active and standby.state.term == 2
    assert [reply.response.code for reply in standby.take(fx.Reply)] == [0]
    assert [probe.address for probe in standby.take(fx.Probe)] == ["b1:10911"], (
        "unheard masters are probed at once"
    )
    standby.probe_result("b1:10911", "refused")
    assert standby.state.sets[SET].master_broker_id == 2


def test_a_deposed_leader_hands_undecided_commands_to_the_new_one() -> None:
    log = Log()
    old = Rig("c1", log, {"c2": "c2:9878"}).lead()
    new = Rig("c2", log, {"c1": "c1:9878"}, now_ms=old.now_ms, seed=2)
    new.catch_up()
    old.auto = False
    apply = {
        "clusterName": "C",
        "brokerName": "b",
        "appliedBrokerId": "1",
        "registerCheckCode": "h:1;1",
    }
    assert old.request(1013, apply) is None
    new.tick()
    new.perform(new.core.on_peer_closed("c1:9878", True, new.now_ms))
    new.tick(200)
    assert new.core.is_active
    old.append(old.held[0])
    assert not old.core.is_active
    (forward,) = old.take(fx.ForwardToLeader)
    assert forward.address == "c2:9878"
    answer = new.request(1013, forward.request.ext)
    assert answer is not None and answer.code == 0


def test_a_commanded_digest_that_differs_halts_the_controller() -> None:
    log = Log()
    rig = Rig("c1", log).lead().three()
    other = Rig("c2", Log(), seed=2)
    for record in log.records[:-1]:
        other.log.records.append(record)
        other.catch_up()
    other.folder.digest = bytes(32)
    other.folder._digests[other.folder.offset] = bytes(32)
    envelope_knows = rig.folder.offset
    rig.tick()
    rig.request(
        1013,
        {
            "clusterName": "C",
            "brokerName": "z",
            "appliedBrokerId": "1",
            "registerCheckCode": "h:1;1",
        },
    )
    assert rig.folder.offset == envelope_knows + 1
    other.log.records.append(log.records[-2])
    other.catch_up()
    other.log.records.append(log.records[-1])
    other.catch_up()
    assert other.take(fx.Halt)


def test_a_leader_restarted_from_a_former_life_does_not_lead_by_itself() -> None:
    log = Log()
    Rig("c1", log).lead()
    again = Rig("c1", log, seed=3)
    again.catch_up()
    assert again.state.leader_id == "c1" and not again.core.is_active
    again.lead()
    assert again.state.term == 2


def test_the_new_leader_publishes_without_a_hole() -> None:
    log = Log()
    old = Rig("c1", log, {"c2": "c2:9878"}).lead().three()
    new = Rig("c2", log, {"c1": "c1:9878"}, now_ms=old.now_ms, seed=2)
    new.catch_up()
    published_by_old = old.published[:-3]
    new.published = list(published_by_old)
    new.tick()
    new.perform(new.core.on_peer_closed("c1:9878", True, new.now_ms))
    new.tick(200)
    offsets = [outcome.command_offset for outcome in new.published]
    assert offsets == list(range(len(log.records)))
    assert {outcome.publisher for outcome in new.published[len(published_by_old) :]} == {"c2"}


def test_the_status_is_one_json_document(rig: Rig) -> None:
    rig.three()
    answer = rig.request(19002)
    assert answer is not None
    status = json.loads(answer.body)
    assert (status["role"], status["term"], status["leader"], status["ready"]) == (
        "active",
        1,
        "c1",
        True,
    )
    assert status["digest"] == rig.folder.digest.hex()
    assert status["sets"][SET]["sync_state_set"] == [1, 2, 3]
    assert [member["alive"] for member in status["sets"][SET]["members"]] == [True, True, True]


@pytest.mark.parametrize(
    "code", [904, 1001, 1002, 1003, 1004, 1005, 1006, 1011, 1012, 1013, 19002, 9999]
)
def test_a_one_way_request_is_never_answered_however_late(rig: Rig, code: int) -> None:
    rig.three()
    ext = {
        "clusterName": "C",
        "brokerName": SET,
        "brokerId": "1",
        "brokerAddr": "b1:10911",
        "brokerAddress": "b1:10911",
        "appliedBrokerId": "9",
        "registerCheckCode": "h:1;1",
        "masterBrokerId": "1",
        "masterEpoch": "1",
    }
    rig.request(code, ext, b'{"syncStateSet":[1],"syncStateSetEpoch":1}', oneway=True)
    rig.request(code, {}, b"garbage", oneway=True)
    rig.pass_time(4_000)
    assert rig.take(fx.Reply) == []


def test_everybody_who_waits_is_answered_when_the_process_ends() -> None:
    log = Log()
    rig = Rig("c1", log, {"c2": "c2:9878"}).lead()
    rig.auto = False
    apply = {
        "clusterName": "C",
        "brokerName": "b",
        "appliedBrokerId": "1",
        "registerCheckCode": "h:1;1",
    }
    rig.request(1013, apply, conn=1)
    rig.request(1004, {"brokerName": "b"}, conn=2)
    rig.perform(rig.core.stop(rig.now_ms))
    told = {reply.conn_id: reply.response for reply in rig.take(fx.Reply)}
    assert {conn: response.code for conn, response in told.items()} == {
        1: 1,
        2: 1,
    } and "unknown" in (told[1].remark or "")

    standby = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    standby.catch_up()
    standby.request(1013, apply, conn=3)
    assert len(standby.take(fx.ForwardToLeader)) == 1
    alone = Rig("c3", Log(), {"c1": "c1:9878"}, seed=3)
    alone.auto = False
    alone.request(1013, apply, conn=4)
    for one, code in ((standby, 1), (alone, 2007)):
        one.perform(one.core.stop(one.now_ms))
        assert [reply.response.code for reply in one.take(fx.Reply)] == [code]


NAMED = {
    "clusterName": "C",
    "brokerName": SET,
    "brokerId": "1",
    "brokerAddr": "b1:10911",
    "brokerAddress": "b1:10911",
    "appliedBrokerId": "9",
    "registerCheckCode": "h:1;1",
    "masterBrokerId": "1",
    "masterEpoch": "1",
    "controllerId": "c2",
    "level": "DEBUG",
    "claimInTerm": "1",
    "term": "1",
}
SERVED = sorted({*Rig().core._here, *Rig().core._led})
BODIES = {
    "nothing": b"",
    "garbage": b"\xff{",
    "a set": (b'{"syncStateSet":[1],"syncStateSetEpoch":1}'),
    "names": b'["a"]',
    "wish": b'{"settings":{}}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize(
    "ext",
    [{}, NAMED, dict.fromkeys(NAMED, ""), dict.fromkeys(NAMED, "x" * 300)],
    ids=["none", "all", "empty", "senseless"],
)
@pytest.mark.parametrize("code", [*SERVED, RequestCode.SEND_MESSAGE, 4_711])
def test_a_two_way_call_gets_one_answer_whoever_takes_it_and_whatever_it_says(
    code: int, ext: dict[str, str], body: bytes
) -> None:
    log = Log()
    leader = Rig("c1", log, {"c2": "c2:9878"}).lead()
    standby = Rig("c2", log, {"c1": "c1:9878"}, now_ms=leader.now_ms, seed=2)
    standby.catch_up()
    cut_off = Rig("c3", Log(), {"c1": "c1:9878"}, seed=3)
    cut_off.auto = False
    for rig in (leader, standby, cut_off):
        rig.request(code, ext, body, conn=55)
        rig.pass_time(4_000)
        assert len([reply for reply in rig.take(fx.Reply) if reply.conn_id == 55]) == 1, rig.name
