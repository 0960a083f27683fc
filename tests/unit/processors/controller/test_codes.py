"""Who speaks for a replica: it must know the check code that the id was given for, once it has told
it.
"""

from __future__ import annotations

import pytest

from brokers.remoting.command import RemotingCommand
from processors.controller import effects as fx
from processors.controller.codes import LEARNS_FOR_MS, NOTES_BURST, TOLD_FOR_MS
from tests.support.controller_rig import CLUSTER, SET, Log, Rig

NAMES = {"clusterName": CLUSTER, "brokerName": SET}
BEAT = NAMES | {"brokerAddr": "b1:10911", "brokerId": "1", "epoch": "1", "maxOffset": "100"}


def code_of(rig: Rig, broker: int = 1) -> str:
    replica = rig.state.sets[SET].replica(broker)
    assert replica is not None and replica.register_check_code
    return str(replica.register_check_code)


def ours(rig: Rig, life: str = "life-1") -> dict[str, str]:
    return BEAT | {"regentIncarnation": life, "regentCheckCode": code_of(rig)}


def spoken() -> Rig:
    """A set of three whose master has told its check code."""
    rig = Rig().lead().three()
    rig.request(904, ours(rig), conn=1, oneway=True)
    rig.take(fx.Note)
    return rig


def standing(rig: Rig) -> tuple[object, ...]:
    one = rig.state.sets[SET]
    master = one.replica(1)
    pulse = rig.core._context.liveness.pulse((CLUSTER, SET, 1))
    assert master is not None and pulse is not None
    return (
        one.master_broker_id,
        one.master_epoch,
        one.sync_state_set,
        master.incarnation,
        pulse.incarnation,
        pulse.conn_id,
        len(rig.log.records),
    )


def asked(
    rig: Rig, code: int, host: str = "6.6.6.6", body: bytes = b"", **ext: str
) -> RemotingCommand | None:
    """A request from `host`; its answer."""
    command = RemotingCommand.request(code, NAMES | ext, body)
    rig.perform(rig.core.on_request(66, f"{host}:4711", command, rig.now_ms, rig.wall_ms))
    replies = [one.response for one in rig.take(fx.Reply) if one.conn_id == 66]
    return replies[-1] if replies else None


STRANGERS = {
    "registers": (
        1003,
        {
            "brokerId": "1",
            "brokerAddress": "evil:1",
            "regentIncarnation": "stranger",
            "regentClean": "true",
        },
        b"",
    ),
    "empties the set": (
        1003,
        {
            "brokerId": "1",
            "brokerAddress": "b1:10911",
            "regentIncarnation": "stranger",
            "regentClean": "false",
        },
        b"",
    ),
    "asks to lead": (1002, {"brokerId": "1"}, b""),
    "drops the members": (
        1001,
        {"masterBrokerId": "1", "masterEpoch": "1"},
        b'{"syncStateSet":[1],"syncStateSetEpoch":2}',
    ),
}


@pytest.mark.parametrize(
    "told", [{}, {"regentCheckCode": "b1:10911;0"}], ids=["no code", "a wrong code"]
)
@pytest.mark.parametrize("case", STRANGERS.values(), ids=STRANGERS)
def test_a_strangers_request_in_the_masters_name_changes_nothing(
    case: tuple[int, dict[str, str], bytes], told: dict[str, str]
) -> None:
    rig = spoken()
    before = standing(rig)
    code, ext, body = case
    answer = asked(rig, code, body=body, **ext | told)
    assert answer is not None and answer.code == 1 and "check code" in str(answer.remark)
    assert standing(rig) == before
    assert rig.core._context.metrics.strange_requests == 1


def test_five_seconds_of_heartbeats_without_the_code_depose_nobody() -> None:
    rig = spoken()
    epoch = rig.state.sets[SET].master_epoch
    for _ in range(50):
        rig.request(
            904,
            BEAT | {"regentIncarnation": "life-1", "heartbeatTimeoutMills": "-1"},
            conn=99,
            oneway=True,
        )
        rig.request(904, ours(rig), conn=1, oneway=True)
        rig.heartbeat(2)
        rig.heartbeat(3)
        rig.tick(100)
    rig.close_connection(99)
    assert (rig.state.sets[SET].master_broker_id, rig.state.sets[SET].master_epoch) == (1, epoch)
    assert rig.core._context.metrics.strange_heartbeats == 50


def test_the_replica_itself_registers_proposes_and_asks_with_its_code() -> None:
    rig = spoken()
    told = {"regentCheckCode": code_of(rig)}
    set_epoch = rig.state.sets[SET].sync_state_set_epoch
    shrunk = asked(
        rig,
        1001,
        body=(b'{"syncStateSet":[1,2],"syncStateSetEpoch":%d}') % set_epoch,
        masterBrokerId="1",
        masterEpoch="1",
        **told,
    )
    assert shrunk is not None and shrunk.code == 0 and rig.state.sets[SET].sync_state_set == (1, 2)
    again = asked(
        rig,
        1003,
        brokerId="1",
        brokerAddress="b1:10911",
        regentIncarnation="second life",
        regentClean="true",
        **told,
    )
    assert again is not None and again.code == 0
    replica = rig.state.sets[SET].replica(1)
    assert replica is not None and replica.incarnation == "second life"


def test_who_has_never_told_a_code_is_not_asked_for_it() -> None:
    """RocketMQ's brokers, and those of a release that kept none, in a cluster with others that
    do.
    """
    rig = spoken()
    assert rig.register(2, "second life").code == 0
    rig.heartbeat(3)
    assert rig.core._context.metrics.strange_heartbeats == 0


def test_a_wrong_code_is_refused_from_who_has_told_none_too() -> None:
    rig = spoken()
    answer = asked(
        rig, 1003, brokerId="2", brokerAddress="b2:10911", regentCheckCode=code_of(rig, 1)
    )
    assert answer is not None and answer.code == 1


def test_a_code_that_the_controllers_do_not_know_is_not_compared() -> None:
    rig = Rig().lead()
    body = (
        b'{"source":"java","cluster_name":"C","broker_name":"a","next_broker_id":2,'
        b'"master_broker_id":1,"master_epoch":3,'
        b'"sync_state_set":[1],"sync_state_set_epoch":4,"replicas":[{"broker_id":1,"address":"b1:'
        b'10911","register_check_code":""}]}'
    )
    imported = rig.request(19006, body=body)
    assert imported is not None and imported.code == 0, imported
    answer = asked(
        rig,
        1003,
        brokerId="1",
        brokerAddress="b1:10911",
        regentIncarnation="x",
        regentCheckCode="b1:10911;5;abc",
    )
    assert answer is not None and answer.code == 0
    without = asked(rig, 1003, brokerId="1", brokerAddress="b1:10911", regentIncarnation="y")
    assert without is not None and without.code == 0


def test_a_new_leader_asks_for_a_code_that_it_heard_as_a_standby() -> None:
    log = Log()
    leader = Rig("c1", log, {"c2": "c2:9878"}).lead().three()
    standby = Rig("c2", log, {"c1": "c1:9878"}, now_ms=leader.now_ms, seed=2)
    standby.catch_up()
    standby.tick()
    standby.request(904, ours(leader), conn=1, oneway=True)
    standby.pass_time(2_000)
    standby.request(904, ours(leader), conn=1, oneway=True)
    assert standby.core.is_active
    answer = asked(
        standby, 1003, brokerId="1", brokerAddress="evil:1", regentIncarnation="stranger"
    )
    assert answer is not None and answer.code == 1


def begun_anew() -> Rig:
    """A controller that leads and has heard no broker yet; the master registered from 10.0.0.1."""
    log = Log()
    leader = Rig("c1", log, {"c2": "c2:9878"}).lead().three()
    asked(
        leader,
        1003,
        brokerId="1",
        brokerAddress="10.0.0.1:10911",
        regentIncarnation="life-2",
        regentCheckCode=code_of(leader),
    )
    rig = Rig("c2", log, {"c1": "c1:9878"}, now_ms=leader.now_ms, seed=2)
    rig.catch_up()
    rig.tick()
    rig.pass_time(2_000)
    assert rig.core.is_active
    return rig


def test_before_codes_are_told_again_a_request_without_one_from_elsewhere_waits() -> None:
    rig = begun_anew()
    stranger = {
        "brokerId": "1",
        "brokerAddress": "evil:1",
        "regentIncarnation": "stranger",
        "regentClean": "false",
    }
    for code, ext, body in STRANGERS.values():
        answer = asked(rig, code, body=body, **stranger | ext)
        assert answer is not None and answer.code == 1 and "begun to listen" in str(answer.remark)
    replica = rig.state.sets[SET].replica(1)
    assert replica is not None and (replica.address, replica.incarnation) == (
        "10.0.0.1:10911",
        "life-2",
    )
    rig.request(904, ours(rig, "life-2"), conn=1, oneway=True)
    rig.now_ms += LEARNS_FOR_MS
    late = asked(rig, 1003, **stranger)
    assert late is not None and late.code == 1 and "has told its own" in str(late.remark)


@pytest.mark.parametrize(
    ("host", "after_ms"),
    [("10.0.0.1", 0), ("192.168.0.1", LEARNS_FOR_MS)],
    ids=["its host", "translated"],
)
def test_a_broker_that_knows_no_code_registers_at_a_controller_that_began_anew(
    host: str, after_ms: int
) -> None:
    rig = begun_anew()
    asked(rig, 1003, host, brokerId="9")
    rig.now_ms += after_ms
    answer = asked(rig, 1003, host, brokerId="1", brokerAddress="10.0.0.1:10911")
    assert answer is not None and answer.code == 0


def test_a_java_broker_goes_on_in_the_folder_of_one_of_ours_when_that_is_gone() -> None:
    rig = spoken()
    rig.close_connection(1)
    elsewhere = asked(rig, 1003, brokerId="1", brokerAddress="b1:10911")
    assert elsewhere is not None and elsewhere.code == 1
    at_home = asked(rig, 1003, host="b1", brokerId="1", brokerAddress="b1:10911")
    assert at_home is not None and at_home.code == 0
    rig.request(904, BEAT, conn=77, oneway=True)
    pulse = rig.core._context.liveness.pulse((CLUSTER, SET, 1))
    assert pulse is not None and pulse.conn_id == 77


def test_what_was_told_is_forgotten_after_an_hour_of_silence() -> None:
    rig = spoken()
    for ms, code in ((TOLD_FOR_MS - 1, 1), (1, 0)):
        rig.now_ms += ms
        answer = asked(rig, 1003, brokerId="1", brokerAddress="b1:10911", regentIncarnation="x")
        assert answer is not None and answer.code == code


def test_an_operators_wish_names_whom_he_wants_and_needs_no_code() -> None:
    rig = spoken()
    answer = asked(rig, 1002, brokerId="1", designateElect="true")
    assert answer is not None and "check code" not in str(answer.remark)


def test_a_flood_is_logged_a_few_times_and_answered_each_time() -> None:
    rig = spoken()
    for _ in range(100):
        answer = asked(rig, 1003, brokerId="1", brokerAddress="evil:1")
        assert answer is not None and answer.code == 1
    told = [note.text for note in rig.take(fx.Note) if "check code" in note.text]
    assert len(told) == NOTES_BURST and "6.6.6.6:4711" in told[0] and SET in told[0]
