"""Repeats that are known, and sets that ask too often."""

import json

import pytest

from processors.controller import effects as fx
from tests.support.controller_rig import CLUSTER, SET, Rig

HOUR_S = 3_600


def waiting_set() -> Rig:
    """Broker 1 was the only member and is dead; broker 2 lives outside of the set and asks."""
    rig = Rig().lead()
    for broker in (1, 2):
        rig.join(broker)
        if broker == 1:
            rig.elect(1)
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_broker_id is None
    return rig


def settled(rig: Rig) -> Rig:
    rig.sent.clear()
    rig.auto = False
    return rig


def test_a_set_without_master_that_asks_for_an_hour_leaves_a_bounded_history() -> None:
    rig = waiting_set()
    before = len(rig.log.records)
    for second in range(HOUR_S):
        rig.tick(1_000)
        rig.heartbeat(2, conn=2)
        answer = rig.request(
            1002,
            {"clusterName": CLUSTER, "brokerName": SET, "brokerId": "2", "invokeTime": str(second)},
            conn=2,
        )
        assert answer is not None and answer.code == 2012
        again = rig.register(2)
        assert again.code == 0 and "masterBrokerId" not in again.ext
    assert len(rig.log.records) - before <= 3
    document = json.loads(rig.request(19003, {"brokerName": SET}).body)  # type: ignore[union-attr]
    (row,) = document["sets"][SET]["repeated_refusals"]
    assert (row["code"], row["refusal"]) == (1002, "ELECT_MASTER_FAILED") and row[
        "count"
    ] >= HOUR_S - 3


def test_brokers_that_come_and_go_do_not_make_the_controller_call_without_end() -> None:
    rig = waiting_set()
    rig.join(3)
    before = len(rig.log.records)
    for turn in range(HOUR_S // 4):
        comes, goes = (2, 3) if turn % 2 else (3, 2)
        rig.tick(2_000)
        rig.heartbeat(comes)
        rig.tick(2_000)
        rig.close_connection(goes)
        rig.probe_result(f"b{goes}:10911", "refused")
    assert len(rig.log.records) - before <= 10 + HOUR_S // 10
    rig.pass_time(10_000)
    rig.heartbeat(1, conn=11)
    assert rig.state.sets[SET].master_broker_id == 1


def test_the_answer_from_memory_waits_for_the_log() -> None:
    rig = waiting_set()
    assert rig.elect(2).code == 2012
    settled(rig)
    ext = {"clusterName": CLUSTER, "brokerName": SET, "brokerId": "2", "designateElect": "false"}
    assert rig.request(1002, ext, conn=2) is None
    (question,) = rig.take(fx.AskEndOffset)
    rig.perform(rig.core.on_end_offset(question.token, len(rig.log.records)))
    assert [reply.response.code for reply in rig.take(fx.Reply)] == [2012] and rig.held == []


def test_a_change_that_comes_before_the_barrier_is_passed_makes_it_a_command_again() -> None:
    rig = waiting_set()
    assert rig.elect(2).code == 2012
    settled(rig)
    rig.request(
        1002,
        {"clusterName": CLUSTER, "brokerName": SET, "brokerId": "2", "designateElect": "false"},
        conn=2,
    )
    (question,) = rig.take(fx.AskEndOffset)
    rig.heartbeat(1, conn=11)
    rig.held.clear()
    rig.perform(rig.core.on_end_offset(question.token, len(rig.log.records)))
    assert len(rig.held) == 1 and rig.take(fx.Reply) == []


def test_a_member_that_returns_is_elected_at_once_after_many_refusals() -> None:
    rig = waiting_set()
    for _ in range(20):
        assert rig.elect(2).code == 2012
    rig.heartbeat(1, conn=11)
    assert rig.state.sets[SET].master_broker_id == 1
    assert rig.elect(2).code == 2011


def test_an_operators_setting_makes_refused_elections_possible() -> None:
    rig = waiting_set()
    assert rig.elect(2).code == 2012
    rig.request(19004, {}, b'{"settings":{"enableElectUncleanMaster":"true"}}')
    rig.tick(250)
    assert rig.state.sets[SET].master_broker_id == 2


def test_a_fenced_master_and_equal_sets_are_recorded_once() -> None:
    rig = Rig().lead().three()
    before = len(rig.log.records)
    for _ in range(50):
        assert rig.alter("1,2,3", 2).code == 2013
        assert rig.alter("1,2", 2, master=2).code == 2002
    assert len(rig.log.records) - before == 2
    assert rig.alter("1,2", 2).code == 0


def test_a_set_is_held_to_its_rate_and_others_are_not() -> None:
    rig = Rig().lead()
    names = {"clusterName": CLUSTER, "brokerName": "busy"}
    codes = []
    for number in range(150):
        apply = names | {"appliedBrokerId": str(number + 1), "registerCheckCode": f"h:{number};1"}
        answer = rig.request(1013, apply)
        assert answer is not None
        codes.append(answer.code)
    assert codes[:101] == [0] * 101 and set(codes[101:]) == {2}, "the first one made the set"
    other = rig.request(
        1013,
        {
            "clusterName": CLUSTER,
            "brokerName": "calm",
            "appliedBrokerId": "1",
            "registerCheckCode": "h:1;1",
        },
    )
    assert other is not None and other.code == 0
    rig.tick(100)
    late = rig.request(1013, names | {"appliedBrokerId": "102", "registerCheckCode": "h:x;1"})
    assert late is not None and late.code == 0


def test_a_master_that_proposes_without_end_keeps_nobody_of_its_set_from_registering() -> None:
    rig = Rig().lead().three()
    codes = [rig.alter("1,2", base_epoch).code for base_epoch in range(100, 250)]
    assert codes[-1] == 2
    assert rig.register(3, "the next life").code == 0
    assert rig.elect(1).code != 2


@pytest.mark.parametrize("forwarded", [True, False])
def test_a_registration_from_memory_is_still_a_sign_of_life(forwarded: bool) -> None:
    rig = Rig().lead().three()
    for _ in range(3):
        rig.register(2)
    before = len(rig.log.records)
    rig.tick(1_000)
    ext = {
        "clusterName": CLUSTER,
        "brokerName": SET,
        "brokerId": "2",
        "brokerAddress": "b2:10911",
        "regentIncarnation": "life-2",
        "regentClean": "true",
        "regentHaAddress": "b2:10912",
        "regentLastEpoch": "0",
        "regentEndOffset": "100",
    }
    answer = rig.request(1003, ext | ({"regentForwardedFor": "x:1"} if forwarded else {}), conn=2)
    assert answer is not None and answer.code == 0 and len(rig.log.records) == before
    document = json.loads(rig.request(19003, {"brokerName": SET}).body)  # type: ignore[union-attr]
    silent = {one["id"]: one["silent_ms"] for one in document["sets"][SET]["replicas"]}[2]
    assert (silent == 1_000) is forwarded
