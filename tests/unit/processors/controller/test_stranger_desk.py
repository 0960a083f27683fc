"""A log that is kept for ever cannot be grown from outside by invented names and senseless
wishes.
"""

import json
from collections import Counter

import pytest

from brokers.remoting.command import RemotingCommand
from processors.controller import effects as fx
from processors.controller.stranger_desk import (
    NEW_SETS_BURST,
    NEW_SETS_PER_SECOND,
    REFUSALS_BURST,
    REFUSALS_PER_SECOND,
)
from tests.support.controller_rig import CLUSTER, SET, Rig

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
    assert len(rig.core._strangers._rates) == 1
    assert (
        len(rig.core._repeats._of_strangers) <= REFUSALS_BURST
        and len(rig.core._repeats._memory) == 0
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
    rig.core._strangers._rates.take(
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
