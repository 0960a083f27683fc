"""What the doctor says of broker sets."""

from __future__ import annotations

import pytest

from infra.doctor import sets
from infra.doctor.commands import Commands
from infra.doctor.findings import FAIL, OK, WARN
from tests.support.brokers import free_port
from tests.support.controller_document import broker_set, document, replica
from tests.support.pasted import why_not

COMMANDS = Commands(where=("--controller", "h:1;h:2"))


def test_sets_without_a_living_master_fail_and_smaller_trouble_warns() -> None:
    well = broker_set(replicas=[replica(1), replica(2)], repeated_refusals=[])
    assert [one.verdict for one in sets.check(document(sets={"a": well}), {}, COMMANDS)] == [OK]
    assert [
        one.verdict
        for one in sets.check(document(sets={"a": {**well, "master": None}}), {}, COMMANDS)
    ] == [FAIL]
    unclaimed = {**well, "replicas": [*well["replicas"], replica(3, registered=False)]}
    (one,) = sets.check(document(sets={"a": unclaimed}), {}, COMMANDS)
    assert one.verdict == WARN and one.command.startswith("regent controller clean a --unclaimed")


def test_living_brokers_are_tried_at_the_addresses_that_others_are_told() -> None:
    gone = f"127.0.0.1:{free_port()}"
    one = broker_set(replicas=[replica(1, address=gone, ha_address=None), replica(2, alive=False)])
    (found,) = sets.reached(document(sets={"a": one}), COMMANDS)
    assert found.verdict == FAIL and found.text == f"a/1 at {gone}: Connection refused"


def test_replicas_that_are_out_of_sync_warn() -> None:
    one = broker_set(
        replicas=[replica(1), replica(2), replica(3)], sync_state_set=[1, 2], repeated_refusals=[]
    )
    (found,) = sets.check(document(sets={"a": one}), {}, COMMANDS)
    assert found.verdict == WARN and found.text == "a: replica(s) 3 not in sync, 2 are"


def test_one_address_of_two_replicas_fails() -> None:
    one = broker_set(replicas=[replica(1), replica(2, address="h:1"), replica(3, alive=False)])
    (found,) = sets.shared(document(sets={"a": one}), COMMANDS)
    assert found.verdict == FAIL and found.text.startswith("h:1 is the address of a/1 and a/2")


def test_a_learner_stays_out_and_is_no_trouble() -> None:
    one = broker_set(replicas=[replica(1), replica(2)], sync_state_set=[1], repeated_refusals=[])
    answers = {"a/2": {"async_learner": True}}
    assert [f.verdict for f in sets.check(document(sets={"a": one}), answers, COMMANDS)] == [OK]
    assert [f.verdict for f in sets.check(document(sets={"a": one}), {}, COMMANDS)] == [WARN]


def test_a_set_that_waits_for_a_person_fails_with_what_that_person_can_do() -> None:
    needed = {"reason": "replica 2 is gone", "way_out": "start replica 2"}
    one = broker_set(
        master=None,
        operator_needed=needed,
        sync_state_set=[1, 2],
        replicas=[replica(1), replica(2, alive=False)],
        repeated_refusals=[],
    )
    found = sets.check(document(sets={"a": one}), {}, COMMANDS)
    waits = next(f for f in found if f.text == "a waits for a person: replica 2 is gone")
    assert waits.verdict == FAIL and waits.way_out.startswith("Start replica 2.")


@pytest.mark.parametrize(
    "changed",
    [
        {"master": None},
        {"sync_state_set": [1]},
        {"at_risk": True},
        {"unclean_members": [2]},
        {"remembered": [2]},
        {"master_restarted": True},
        {"replicas": [replica(1, address="h:9"), replica(2, address="h:9")]},
        {"replicas": [replica(1, alive=False), replica(2), replica(3, registered=False)]},
    ],
    ids=str,
)
def test_each_way_out_is_a_command_that_can_be_pasted(changed: dict[str, object]) -> None:
    shown = document(sets={"a": broker_set(**changed)})
    found = [*sets.check(shown, {}, COMMANDS), *sets.shared(shown, COMMANDS)]
    told = [one for one in found if one.verdict != OK]
    assert told
    assert {one.command: why_not(one.command) for one in told} == {
        one.command: None for one in told
    }
