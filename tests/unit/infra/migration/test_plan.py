"""What Java controllers and brokers answer, read into facts."""

import pytest

from infra.migration import plan
from infra.migration.plan import BrokerFacts, Check, ControllerFacts, OddAnswer

LISTED = {
    "inSyncReplicas": [{"alive": True, "brokerAddress": "h1:1", "brokerId": 1, "brokerName": "b"}],
    "masterAddress": "h1:1",
    "masterBrokerId": 1,
    "masterEpoch": 4,
    "notInSyncReplicas": [
        {"alive": False, "brokerAddress": "h2:1", "brokerId": 2, "brokerName": "b"}
    ],
    "syncStateSetEpoch": 7,
}


def broker(address: str, role_id: int, epoch: int = 4, name: str = "b") -> BrokerFacts:
    return BrokerFacts(address, "c", name, role_id, epoch, 100)


@pytest.mark.parametrize(
    "peers", ["n0:10.0.0.1:9878;n1:10.0.0.2:9878;", "10.0.0.1:9878;10.0.0.2:9878;"]
)
def test_the_peers_of_both_kernels_are_addresses(peers: str) -> None:
    facts = plan.controller_facts(
        "10.0.0.1:9878", {"peers": peers, "controllerLeaderAddress": "10.0.0.2:9878"}
    )
    assert facts == ControllerFacts(
        "10.0.0.1:9878", "10.0.0.2:9878", ("10.0.0.1:9878", "10.0.0.2:9878")
    )


def test_a_set_has_its_members_from_the_raw_answer_also_one_that_is_not_registered() -> None:
    seen = plan.java_set("b", LISTED, {"syncStateSet": [3, 1], "syncStateSetEpoch": 7}, 4)
    assert (
        seen.master_id,
        seen.master_epoch,
        seen.sync_state_set,
        seen.sync_state_set_epoch,
        seen.next_broker_id,
    ) == (1, 4, (1, 3), 7, 4)
    assert [(one.broker_id, one.alive) for one in seen.replicas] == [(1, True), (2, False)]
    assert seen.anyone_alive


def test_a_set_without_a_master_has_none() -> None:
    listed = {key: value for key, value in LISTED.items() if not key.startswith("master")}
    assert (
        plan.java_set("b", listed, {"syncStateSet": [], "syncStateSetEpoch": 0}, 1).master_id
        is None
    )


@pytest.mark.parametrize("raw", [None, [], "x"])
def test_an_odd_answer_of_a_controller_is_named(raw: object) -> None:
    with pytest.raises(OddAnswer, match="set b"):
        plan.java_set("b", LISTED, raw, 4)


def test_a_broker_shows_its_last_epoch_and_role() -> None:
    body = {
        "brokerId": 0,
        "brokerName": "b",
        "clusterName": "c",
        "maxOffset": 3140,
        "epochList": [
            {"endOffset": 1570, "epoch": 1, "startOffset": 0},
            {"endOffset": 2**63 - 1, "epoch": 2, "startOffset": 1570},
        ],
    }
    facts = plan.broker_facts("h1:1", body)
    assert (facts.is_master, facts.last_epoch, facts.max_offset) == (True, 2, 3140)
    assert plan.broker_facts("h1:1", {**body, "epochList": []}).last_epoch == -1


@pytest.mark.parametrize("body", [None, {}, {"brokerId": "x"}, {"brokerId": 1, "epochList": [{}]}])
def test_an_odd_answer_of_a_broker_is_named(body: object) -> None:
    with pytest.raises(OddAnswer, match="h1:1"):
        plan.broker_facts("h1:1", body)


def test_controllers_must_agree_on_one_leader() -> None:
    asked = ControllerFacts("a:1", "a:1")
    assert plan.leader_check(asked, [ControllerFacts("b:1", "a:1"), ControllerFacts("c:1", "")]).ok
    assert not plan.leader_check(asked, [ControllerFacts("b:1", "b:1")]).ok
    assert not plan.leader_check(ControllerFacts("a:1", ""), []).ok


def test_only_the_recorded_master_may_serve_as_master() -> None:
    facts = {"h1:1": broker("h1:1", 0), "h2:1": broker("h2:1", 2), "h3:1": None}
    assert plan.masters_check("b", "h1:1", facts).ok
    assert not plan.masters_check("b", "h2:1", facts).ok
    assert not plan.masters_check("b", "h1:1", {**facts, "h2:1": broker("h2:1", 0)}).ok


def test_every_replica_must_answer_and_be_of_the_set() -> None:
    wanted = [(1, "h1:1"), (2, "h2:1")]
    assert plan.reached_check(
        "b", wanted, {"h1:1": broker("h1:1", 0), "h2:1": broker("h2:1", 2)}, ""
    ).ok
    silent = plan.reached_check("b", wanted, {"h1:1": broker("h1:1", 0), "h2:1": None}, "start it")
    assert not silent.ok and "id 2 at h2:1" in silent.what and silent.way_out == "start it"
    assert not plan.reached_check(
        "b", wanted, {"h1:1": broker("h1:1", 0), "h2:1": broker("h2:1", 2, name="x")}, ""
    ).ok


def test_a_warning_forbids_nothing() -> None:
    checks = [
        Check("a", False, "", fatal=False),
        Check("b", True, ""),
        Check("c", False, "", "do this"),
    ]
    assert plan.failed(checks) == [checks[2]]
    assert checks[2].as_dict()["way_out"] == "do this" and checks[1].as_dict()["way_out"] == ""
