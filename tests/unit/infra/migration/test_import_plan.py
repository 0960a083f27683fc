"""May a set of a Java controller be taken over, with which fields, and is it still so
afterwards.
"""

from dataclasses import replace
from typing import Any

import pytest

from infra.migration import import_plan
from infra.migration.import_plan import AGAIN, CONFLICT, NEW, SAME, HaFacts
from infra.migration.plan import BrokerFacts, JavaReplica, JavaSet

SEEN = JavaSet(
    "b",
    2,
    5,
    (1, 2),
    9,
    (JavaReplica(1, "h1:1", True), JavaReplica(2, "h2:1", True), JavaReplica(3, "h3:1", True)),
    5,
)
BROKERS = {
    "h1:1": BrokerFacts("h1:1", "c", "b", 1, 5, 100),
    "h2:1": BrokerFacts("h2:1", "c", "b", 0, 5, 100),
    "h3:1": BrokerFacts("h3:1", "c", "b", 3, 3, 50),
}


def here(**changes: Any) -> dict[str, Any]:
    replicas = [
        {
            "id": i,
            "address": f"h{i}:1",
            "alive": i == 2,
            "reason": "awaited" if i == 2 else "never_seen",
        }
        for i in (1, 2, 3)
    ]
    return {
        "cluster": "c",
        "tombstone": False,
        "next_broker_id": 5,
        "master": 2,
        "master_epoch": 5,
        "sync_state_set": [1, 2],
        "sync_state_set_epoch": 9,
        "highest_epoch_seen": 5,
        "imported": False,
        "replicas": replicas,
        **changes,
    }


def failed(plan: import_plan.SetPlan) -> list[str]:
    return [one.name for one in plan.checks if not one.ok and one.fatal]


def test_a_sound_set_is_imported_with_its_ids_addresses_and_both_epochs() -> None:
    plan = import_plan.plan_set(SEEN, BROKERS, None, "j:1")
    assert plan.is_ready and plan.presence == NEW and plan.fields is not None
    assert {
        key: plan.fields[key]
        for key in (
            "cluster_name",
            "broker_name",
            "next_broker_id",
            "master_broker_id",
            "master_epoch",
            "sync_state_set",
            "sync_state_set_epoch",
            "source",
            "evidence_epoch",
        )
    } == {
        "cluster_name": "c",
        "broker_name": "b",
        "next_broker_id": 5,
        "master_broker_id": 2,
        "master_epoch": 5,
        "sync_state_set": [1, 2],
        "sync_state_set_epoch": 9,
        "source": "j:1",
        "evidence_epoch": 5,
    }
    assert [(one["broker_id"], one["address"]) for one in plan.fields["replicas"]] == [
        (1, "h1:1"),
        (2, "h2:1"),
        (3, "h3:1"),
    ]


def test_who_is_not_in_sync_is_a_warning() -> None:
    plan = import_plan.plan_set(SEEN, BROKERS, None, "j:1")
    assert [one.name for one in plan.checks if not one.ok] == ["all in sync"]


@pytest.mark.parametrize(
    ("seen", "brokers", "names"),
    [
        (
            replace(SEEN, master_id=None),
            BROKERS,
            ["master alive", "master in set", "master serves"],
        ),
        (
            replace(
                SEEN, replicas=(*SEEN.replicas[:1], JavaReplica(2, "h2:1", False), SEEN.replicas[2])
            ),
            BROKERS,
            ["master alive"],
        ),
        (replace(SEEN, sync_state_set=(1,)), BROKERS, ["master in set"]),
        (replace(SEEN, sync_state_set=(1, 2, 4)), BROKERS, ["members known"]),
        (replace(SEEN, next_broker_id=3), BROKERS, ["ids"]),
        (SEEN, {**BROKERS, "h3:1": None}, ["replicas"]),
        (SEEN, {**BROKERS, "h3:1": replace(BROKERS["h3:1"], broker_name="x")}, ["replicas"]),
        (SEEN, {**BROKERS, "h3:1": replace(BROKERS["h3:1"], cluster_name="x")}, ["cluster"]),
        (SEEN, {**BROKERS, "h1:1": replace(BROKERS["h1:1"], role_id=0)}, ["master serves"]),
        (SEEN, {**BROKERS, "h1:1": replace(BROKERS["h1:1"], last_epoch=6)}, ["epochs"]),
    ],
)
def test_what_is_not_sound_is_refused_and_says_why(
    seen: JavaSet, brokers: dict[str, BrokerFacts | None], names: list[str]
) -> None:
    plan = import_plan.plan_set(seen, brokers, None, "j:1")
    assert failed(plan) == names and plan.fields is None
    assert all(one.way_out for one in plan.checks if not one.ok)


def test_a_second_run_finds_the_set_as_it_is() -> None:
    plan = import_plan.plan_set(SEEN, BROKERS, here(), "j:1")
    assert plan.is_ready and plan.presence == SAME


@pytest.mark.parametrize(
    "change",
    [
        {"master": 1, "master_epoch": 4},
        {"master_epoch": 4},
        {"sync_state_set": [2], "sync_state_set_epoch": 8},
        {"next_broker_id": 4},
    ],
)
def test_what_was_imported_and_not_touched_since_is_read_again(change: dict[str, Any]) -> None:
    plan = import_plan.plan_set(SEEN, BROKERS, here(imported=True, **change), "j:1")
    assert plan.presence == AGAIN and plan.is_ready


@pytest.mark.parametrize(
    "document",
    [
        here(master=1),
        here(imported=True, master_epoch=6),
        here(imported=True, master=1),
        here(imported=True, sync_state_set=[2]),
        here(imported=True, next_broker_id=6),
        here(imported=True, sync_state_set_epoch=10),
        here(
            imported=True,
            master=1,
            replicas=[{"id": 1, "address": "h1:1", "alive": True, "reason": "heartbeat"}],
        ),
        here(tombstone=True, highest_epoch_seen=5),
        here(tombstone=True, highest_epoch_seen=4, next_broker_id=6),
        here(tombstone=True, highest_epoch_seen=4, sync_state_set_epoch=9),
    ],
)
def test_a_set_that_lives_here_or_would_fall_back_is_a_conflict(document: dict[str, Any]) -> None:
    plan = import_plan.plan_set(SEEN, BROKERS, document, "j:1")
    assert plan.presence == CONFLICT and failed(plan) == ["place"]


def test_what_was_cleaned_away_comes_back_with_higher_epochs() -> None:
    plan = import_plan.plan_set(
        SEEN, BROKERS, here(tombstone=True, highest_epoch_seen=4, sync_state_set_epoch=8), "j:1"
    )
    assert plan.presence == NEW and plan.is_ready


def links(**changes: HaFacts | None) -> dict[str, HaFacts | None]:
    found: dict[str, HaFacts | None] = {
        "h1:1": HaFacts("h1:1", False, 100, 0, 0, 0, "h2:2"),
        "h2:1": HaFacts("h2:1", True, 100, 1, 1, 2, ""),
    }
    return {**found, **{key.replace("_", ":"): value for key, value in changes.items()}}


def bad(checks: list[import_plan.Check]) -> list[str]:
    return [one.name for one in checks if not one.ok]


def test_afterwards_the_brokers_prove_that_nothing_changed() -> None:
    assert bad(import_plan.proof("b", here(), BROKERS, links())) == []


def test_a_member_that_the_master_dropped_before_the_other_controller_stopped_is_found() -> None:
    master = HaFacts("h2:1", True, 100, 0, 0, 1, "")
    assert bad(import_plan.proof("b", here(), BROKERS, links(h2_1=master))) == ["members"]


def test_a_failover_before_the_other_controller_stopped_is_found() -> None:
    brokers = {**BROKERS, "h1:1": replace(BROKERS["h1:1"], role_id=0, last_epoch=6)}
    assert set(bad(import_plan.proof("b", here(), brokers, links()))) == {"master serves", "epochs"}


def test_a_member_that_is_behind_or_alone_is_found() -> None:
    assert bad(
        import_plan.proof(
            "b", here(), BROKERS, links(h1_1=HaFacts("h1:1", False, 99, 0, 0, 0, "h2:2"))
        )
    ) == ["slave 1"]
    assert bad(
        import_plan.proof(
            "b", here(), BROKERS, links(h1_1=HaFacts("h1:1", False, 100, 0, 0, 0, ""))
        )
    ) == ["slave 1"]
    assert bad(import_plan.proof("b", here(), BROKERS, links(h1_1=None))) == ["slave 1"]


def test_the_ha_status_of_a_master_and_of_a_slave_is_read() -> None:
    conns = [{"inSync": True, "addr": "h1:5"}, {"inSync": False, "addr": "h3:5"}]
    body = {
        "master": True,
        "masterCommitLogMaxOffset": 100,
        "inSyncSlaveNums": 1,
        "haConnectionInfo": conns,
    }
    assert import_plan.ha_facts("h2:1", body) == HaFacts("h2:1", True, 100, 1, 1, 2, "")
    body = {
        "master": False,
        "haClientRuntimeInfo": {"masterAddr": "h2:2", "maxOffset": 70},
        "haConnectionInfo": [],
    }
    assert import_plan.ha_facts("h1:1", body) == HaFacts("h1:1", False, 70, 0, 0, 0, "h2:2")
    assert import_plan.ha_facts("h1:1", None) is None


def test_the_steps_tell_every_broker_after_the_java_controllers_stopped() -> None:
    plan = import_plan.plan_set(SEEN, BROKERS, None, "j:1")
    steps = import_plan.steps([plan], ["j:1", "j:2"], ["r:1", "r:2"], "j:1")
    titles = [one.title for one in steps]
    stop = next(
        i for i, title in enumerate(titles) if title.startswith("Stop every Java controller")
    )
    tell = next(
        i
        for i, one in enumerate(steps)
        if any("updateBrokerConfig" in line for line in one.commands)
    )
    assert stop < tell
    assert [line.split()[3] for line in steps[tell].commands] == ["h2:1", "h1:1", "h3:1"]
    assert all("'r:1;r:2'" in line for line in steps[tell].commands)


def test_who_has_arrived_is_who_is_heard() -> None:
    document = here()
    assert import_plan.arrived(document) == []
    document["replicas"][2] |= {"alive": True, "reason": "heartbeat"}
    assert import_plan.arrived(document) == [3]
