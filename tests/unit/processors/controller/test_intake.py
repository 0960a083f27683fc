"""Repeats that are known, and sets that ask too often."""

import json
from collections import Counter

import pytest

from brokers.remoting.command import RemotingCommand
from processors.controller import effects as fx
from processors.controller.intake import (
    NEW_SETS_BURST,
    NEW_SETS_PER_SECOND,
    REFUSALS_BURST,
    REFUSALS_PER_SECOND,
)
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


MANY = 3_000
SECONDS = 20


def asked(
    rig: Rig, code: int, ext: dict[str, str] | None = None, body: bytes = b""
) -> RemotingCommand:
    answer = rig.request(code, ext, body)
    assert answer is not None, "a two-way call is never left unanswered"
    return answer


def invented(code: int, number: int) -> tuple[dict[str, str], bytes]:
    name = {"clusterName": CLUSTER, "brokerName": f"no-{number}"}
    return {
        1001: (
            name | {"masterBrokerId": "1", "masterEpoch": "1"},
            b'{"syncStateSet":[1],"syncStateSetEpoch":1}',
        ),
        1002: (name | {"brokerId": "1"}, b""),
        1003: (name | {"brokerId": "1", "brokerAddress": "h:1"}, b""),
        1011: (name | {"brokerControllerIdsToClean": "1"}, b""),
        1013: (name | {"appliedBrokerId": "7", "registerCheckCode": "h:1;1"}, b""),
    }[code]


@pytest.mark.parametrize(
    ("code", "said"), [(1001, 2013), (1002, 2010), (1003, 2010), (1011, 2009), (1013, 2014)]
)
def test_invented_names_get_the_answer_of_the_rules_and_hardly_a_record(
    code: int, said: int
) -> None:
    rig = Rig().lead()
    before = len(rig.log.records)
    first = asked(rig, code, *invented(code, 0))
    answers = [first]
    for number in range(1, MANY):
        answers.append(asked(rig, code, *invented(code, number)))
        if number % (MANY // SECONDS) == 0:
            rig.tick(1_000)
    assert Counter(answer.code for answer in answers) == {said: MANY}
    recorded = len(rig.log.records) - before
    assert 0 < recorded <= REFUSALS_BURST + SECONDS * REFUSALS_PER_SECOND
    last = answers[-1]
    assert (first.ext.keys(), first.body) == (last.ext.keys(), last.body), (
        "with and without a record the same"
    )
    assert (
        "not recorded" in (last.remark or "")
        and (first.remark or "").split()[0] == (last.remark or "").split()[0]
    )
    assert rig.core._context.metrics.unrecorded_refusals == MANY - recorded


def test_what_it_remembers_does_not_grow_with_the_names() -> None:
    rig = Rig().lead()
    for number in range(MANY):
        asked(rig, 1003, *invented(1003, number))
    assert len(rig.core._unknown_sets._rates) == 1
    assert (
        len(rig.core._broker_requests._of_strangers) <= REFUSALS_BURST
        and len(rig.core._broker_requests._memory) == 0
    )


def test_invented_names_push_no_known_sets_refusal_out_of_memory() -> None:
    rig = Rig().lead().three()
    assert rig.alter("1,2,3", 2).code == 2013
    for number in range(MANY):
        asked(rig, 1002, *invented(1002, number))
    before = len(rig.log.records)
    assert rig.alter("1,2,3", 2).code == 2013 and len(rig.log.records) == before
    assert rig.elect(1).code == 2011, "and known sets are served as ever"


def exhausted(rig: Rig) -> Rig:
    for number in range(REFUSALS_BURST):
        asked(rig, 1003, *invented(1003, number))
    return rig


def test_a_refusal_without_a_record_waits_for_the_log_and_for_a_set_in_it() -> None:
    rig = exhausted(Rig().lead())
    rig.sent.clear()
    rig.auto = False
    assert (
        rig.request(
            1003,
            {
                "clusterName": CLUSTER,
                "brokerName": SET,
                "brokerId": "1",
                "brokerAddress": "b1:10911",
            },
            conn=5,
        )
        is None
    )
    (question,) = rig.take(fx.AskEndOffset)
    rig.request(
        1013,
        {
            "clusterName": CLUSTER,
            "brokerName": SET,
            "appliedBrokerId": "1",
            "registerCheckCode": "b1:10911;1",
        },
        conn=6,
    )
    (append,) = rig.held
    end = len(rig.log.records) + 1
    rig.append(append)
    rig.perform(rig.core.on_end_offset(question.token, end))
    assert {reply.conn_id: reply.response.code for reply in rig.take(fx.Reply)} == {5: 2, 6: 0}
    rig.auto = True
    assert rig.register(1).code == 0


def test_thousands_of_new_sets_come_at_once_and_invented_ones_end_at_a_rate() -> None:
    rig = Rig().lead()
    rig.core._unknown_sets._rates.take(
        "new sets", rig.now_ms, rate_per_s=1, burst=NEW_SETS_BURST, cost=NEW_SETS_BURST - 1_500
    )

    def apply(number: int) -> int:
        names = {"clusterName": CLUSTER, "brokerName": f"new-{number}"}
        return asked(rig, 1013, names | {"appliedBrokerId": "1", "registerCheckCode": "h:1;1"}).code

    codes = Counter(apply(number) for number in range(1_600))
    assert codes == {0: 1_500, 2: 100}
    rig.tick(1_000)
    assert Counter(apply(number) for number in range(1_600, 1_700)) == {
        0: NEW_SETS_PER_SECOND,
        2: 100 - NEW_SETS_PER_SECOND,
    }
    assert apply(0) == 0, "a set that is known has a rate of its own"


def import_of(name: str) -> bytes:
    fields = {
        "cluster_name": CLUSTER,
        "broker_name": name,
        "next_broker_id": 2,
        "master_broker_id": 1,
        "master_epoch": 4,
        "sync_state_set": [1],
        "sync_state_set_epoch": 6,
        "source": "test",
        "replicas": [{"broker_id": 1, "address": "h1:1"}],
    }
    return json.dumps(fields).encode()


WISHES = {
    "rules that count already": (19005, b'{"rules_version": 2}', 1),
    "a set that is here": (19006, import_of(SET), 1),
}


@pytest.mark.parametrize(("code", "body", "said"), WISHES.values(), ids=WISHES)
def test_wishes_that_the_rules_refuse_share_the_rate_and_are_told_to_wait(
    code: int, body: bytes, said: int
) -> None:
    rig = Rig().lead().three()
    before = len(rig.log.records)
    codes = [asked(rig, code, {}, body).code for _ in range(MANY)]
    recorded = len(rig.log.records) - before
    assert recorded <= REFUSALS_BURST
    assert set(codes[:10]) == {said} and codes[-1] == 2 and codes.count(2) == MANY - recorded
    rig.tick(1_000)
    assert asked(rig, code, {}, body).code == said


def test_a_setting_that_goes_to_and_fro_is_held_to_the_rate_of_a_set() -> None:
    rig = Rig().lead()
    before = len(rig.log.records)
    codes = Counter(
        asked(
            rig,
            19004,
            {},
            json.dumps(
                {"settings": {"notifyBrokerRoleChanged": str(number % 2 == 1).lower()}}
            ).encode(),
        ).code
        for number in range(1_000)
    )
    assert len(rig.log.records) - before == 100 and codes.keys() == {0, 2}
    rig.tick(1_000)
    body = b'{"settings":{"enableElectUncleanMaster":"true"}}'
    assert asked(rig, 19004, {}, body).code == 0


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (1009, b"enableElectUncleanMaster=perhaps\n"),
        (19004, b'{"settings":{"massSilenceHoldMs":"never"}}'),
        (19004, b'{"settings":{"nothing":"1"}}'),
    ],
)
def test_a_setting_that_can_never_be_is_no_command(code: int, body: bytes) -> None:
    rig = Rig().lead()
    before = len(rig.log.records)
    assert {asked(rig, code, {}, body).code for _ in range(MANY)} == {1}
    assert len(rig.log.records) == before
