"""When a set waits for a person, and what it says that person can do."""

from __future__ import annotations

import json

from events.codec import encode
from events.commands import DoubtBrokerSet
from processors.controller.operator_needed import OperatorNeeded, operator_needed
from processors.fold.decide_doubt import LIFTED_BY
from tests.support.controller_rig import SET, Rig


def needed(rig: Rig) -> OperatorNeeded | None:
    return operator_needed(rig.state.sets[SET], rig.core._context)


def only(rig: Rig, *living: int) -> Rig:
    """Time passes with heartbeats of these only."""
    for _ in range(20):
        rig.pass_time(500)
        for broker in living:
            rig.heartbeat(broker, 100 + broker)
    return rig


def test_a_set_that_helps_itself_needs_nobody() -> None:
    rig = Rig().lead()
    rig.join(1)
    assert needed(rig) is None  # before the first election
    rig = Rig().lead().three()
    assert needed(rig) is None
    assert needed(only(rig, 2, 3)) is None  # a member was elected


def test_a_set_whose_member_is_gone_and_whose_others_were_no_members() -> None:
    rig = Rig().lead().three()
    rig.alter("1", rig.state.sets[SET].sync_state_set_epoch)
    found = needed(only(rig, 2, 3))
    assert found is not None
    assert found.reason == "no member of the SyncStateSet (1) is alive"
    assert found.way_out == (
        "start replica 1 with its own data, or, if that cannot be: regent controller config set "
        "enableElectUncleanMaster=true, then regent controller elect a 3 (acknowledged messages "
        "may be missing)"
    )


def remembering() -> Rig:
    """1 leads alone, below the minimum of two; 2 held everything when it left, 3 never was a
    member.
    """
    rig = Rig().lead()
    for broker in (1, 2, 3):
        rig.join(broker)
        if broker == 1:
            assert rig.elect(1).code == 0
        rig.register(broker, minimum="2")
    for members in ("1,2", "1"):
        assert rig.alter(members, rig.state.sets[SET].sync_state_set_epoch).code == 0
    assert rig.state.sets[SET].remembered == (2,)
    return rig


def test_a_set_that_remembers_somebody_names_it_too() -> None:
    found = needed(only(remembering(), 3))
    assert found is not None
    assert found.reason == (
        "no member of the SyncStateSet (1) is alive, nor who else holds all that was acknowledged "
        "(2)"
    )
    assert found.way_out.startswith(
        "start one of replicas 1,2 with their own data, or, if that cannot be: "
    )


def test_who_is_remembered_is_elected_when_an_operator_names_it() -> None:
    """As `regent controller elect a 2` asks, while the only member lives."""
    rig = remembering()
    for broker in (1, 2):
        rig.heartbeat(broker)
    assert rig.elect(2, designate=True).code == 0
    assert rig.state.sets[SET].master_broker_id == 2
    assert not rig.state.sets[SET].at_risk


def test_a_time_to_wait_is_told_and_ends_the_wait_by_itself() -> None:
    rig = Rig().lead().three()
    assert rig.request(1009, {}, b"atRiskWaitMs=20000").code == 0
    rig.register(3, "again-3", clean="false")
    only(rig)
    for turn in range(10):  # of 2.5 s each
        for broker in (1, 2):
            rig.register(broker, f"again-{broker}", clean="false")
        found = needed(rig)
        assert (found is None) == (rig.state.sets[SET].master_broker_id is not None) == (turn >= 8)
        if found is not None:
            assert found.way_out.endswith("by itself when 20000 ms have passed (atRiskWaitMs)")
        rig.pass_time(2_500)
    assert rig.state.sets[SET].at_risk


def test_a_set_of_which_nobody_lives() -> None:
    found = needed(only(Rig().lead().three()))
    assert found == OperatorNeeded(
        "none of replicas 1,2,3 is alive", "start replicas 1,2,3 with their own data"
    )


def test_members_that_all_lost_power_wait_for_the_one_that_did_not_come_back() -> None:
    rig = Rig().lead().three()
    only(rig)
    rig.register(3, "again-3", clean="false")
    only(rig)
    for broker in (1, 2):
        rig.register(broker, f"again-{broker}", clean="false")
    found = needed(rig)
    assert found is not None and found.reason == (
        "all members (1,2,3) lost power or a disk, and replica 3 did not come back"
    )
    assert (
        "start replica 3 with its own data"
    ) in found.way_out and "regent controller elect a 1" in found.way_out


def test_status_and_figures_tell_it() -> None:
    rig = only(Rig().lead().three())
    answer = rig.request(19002)
    assert answer is not None
    assert json.loads(answer.body)["sets"][SET]["operator_needed"]["reason"] == (
        "none of replicas 1,2,3 is alive"
    )


def test_an_uncertain_set_waits_for_whoever_has_not_reported() -> None:
    rig = only(Rig().lead().three(), 1, 2)
    command = DoubtBrokerSet(rig.core._context.envelope(bytes(15) + b"d", "test"), SET, LIFTED_BY)
    rig.log.records.append(encode(command))
    rig.catch_up()
    for broker in (1, 2):
        told = {
            "brokerAddr": f"b{broker}:10911",
            "brokerId": str(broker),
            "regentIncarnation": f"life-{broker}",
            "epoch": "1",
        }
        seen = {
            "regentEpochSeen": str(rig.state.sets[SET].master_epoch),
            "clusterName": "C",
            "brokerName": SET,
        }
        rig.request(904, told | seen, conn=broker)
    found = needed(rig)
    assert found is not None and found.reason == (
        "the log lost its newest decisions, and replica 3 did not come back"
    )
    assert (
        "start replica 3 with its own data"
    ) in found.way_out and "regent controller elect a" in found.way_out
