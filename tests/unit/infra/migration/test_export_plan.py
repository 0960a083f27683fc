"""May a set go to a Java controller, what must it show afterwards, and may the brokers be told."""

from dataclasses import replace
from typing import Any

import pytest

from infra.migration import export_plan
from infra.migration.export_plan import DONE, EPOCH_MARGIN, FRESH, OCCUPIED
from infra.migration.plan import BrokerFacts, JavaReplica, JavaSet
from tests.support.controller_document import broker_set, replica
from tests.support.java_controller_model import JavaControllerModel

NOW = 1_700_000_000_000
BROKERS: dict[str, BrokerFacts | None] = {
    "h:1": BrokerFacts("h:1", "c", "b", 0, 4, 900),
    "h:2": BrokerFacts("h:2", "c", "b", 2, 4, 900),
}


def failed(plan: export_plan.SetPlan) -> list[str]:
    return [one.name for one in plan.checks if not one.ok]


def exported(here: dict[str, Any]) -> JavaSet:
    model = JavaControllerModel()
    plan = export_plan.plan_set("b", here, BROKERS, None, NOW)
    assert plan.presence == FRESH and plan.is_ready
    assert [model.send(ask) for ask in plan.drive] == [ask.answers for ask in plan.drive]
    model.hang_up()
    assert [model.send(ask) for ask in plan.clean] == [ask.answers for ask in plan.clean]
    seen = model.seen("b")
    assert seen is not None and plan.goal is not None and export_plan.verify(plan.goal, seen).ok
    return seen


def test_a_sound_set_goes_with_its_registered_ids_and_epochs_above_ours() -> None:
    seen = exported(broker_set())
    assert [(one.broker_id, one.address) for one in seen.replicas] == [(1, "h:1"), (2, "h:2")]
    assert seen.next_broker_id == 4 and seen.sync_state_set == (1,) and seen.master_id is None
    assert seen.master_epoch == 4 + EPOCH_MARGIN and seen.sync_state_set_epoch >= 9 + EPOCH_MARGIN


def test_the_epoch_goes_above_what_any_broker_has() -> None:
    brokers = {**BROKERS, "h:2": BrokerFacts("h:2", "c", "b", 2, 90, 900)}
    goal = export_plan.goal_of("b", broker_set(), brokers)
    assert goal is not None and goal.epoch == 90 + EPOCH_MARGIN


def test_a_second_run_finds_the_work_done_also_when_our_epoch_has_moved_a_little() -> None:
    seen = exported(broker_set())
    moved = broker_set(master_epoch=6, highest_epoch_seen=6, sync_state_set_epoch=11)
    for here in (broker_set(), moved):
        plan = export_plan.plan_set("b", here, BROKERS, seen, NOW)
        assert plan.presence == DONE and plan.is_ready and not plan.drive and not plan.forget


@pytest.mark.parametrize("replace_it", [False, True])
def test_another_set_of_that_name_is_forgotten_only_when_wanted(replace_it: bool) -> None:
    there = JavaSet("b", 2, 3, (2,), 3, (JavaReplica(2, "h:2", False),), 3)
    plan = export_plan.plan_set("b", broker_set(), BROKERS, there, NOW, replace=replace_it)
    assert plan.presence == OCCUPIED and plan.is_ready == replace_it
    assert bool(plan.forget) == bool(plan.drive) == replace_it


def test_a_set_that_lives_there_is_never_forgotten() -> None:
    there = JavaSet("b", 2, 3, (2,), 3, (JavaReplica(2, "h:2", True),), 3)
    assert failed(export_plan.plan_set("b", broker_set(), BROKERS, there, NOW, replace=True)) == [
        "place"
    ]


@pytest.mark.parametrize(
    ("here", "brokers", "names"),
    [
        (None, BROKERS, ["here"]),
        (broker_set(tombstone=True, replicas=[], master=None), BROKERS, ["here"]),
        (broker_set(master=None), BROKERS, ["master alive", "master serves"]),
        (broker_set(replicas=[replica(1, alive=False), replica(2)]), BROKERS, ["master alive"]),
        (broker_set(master_restarted=True), BROKERS, ["master alive"]),
        (broker_set(), {**BROKERS, "h:2": None}, ["replicas"]),
        (
            broker_set(),
            {
                "h:1": BrokerFacts("h:1", "c", "b", 1, 4, 0),
                "h:2": BrokerFacts("h:2", "c", "b", 0, 5, 0),
            },
            ["master serves"],
        ),
        (broker_set(sync_state_set_epoch=2_147_483_640), BROKERS, ["range"]),
    ],
)
def test_what_is_not_sound_does_not_go_and_says_why(
    here: Any, brokers: dict[str, BrokerFacts | None], names: list[str]
) -> None:
    plan = export_plan.plan_set("b", here, brokers, None, NOW)
    assert failed(plan) == names and not plan.drive
    assert all(one.way_out for one in plan.checks if not one.ok)


def bad(seen: JavaSet | None, brokers: dict[str, BrokerFacts | None]) -> list[str]:
    return [one.name for one in export_plan.proof("b", seen, brokers) if not one.ok]


def test_the_brokers_prove_that_our_master_is_the_one_that_will_be_elected() -> None:
    assert bad(exported(broker_set()), BROKERS) == []
    assert bad(None, BROKERS) == ["exported"]


def test_a_failover_before_ours_stopped_is_found() -> None:
    brokers: dict[str, BrokerFacts | None] = {
        "h:1": BrokerFacts("h:1", "c", "b", 1, 5, 0),
        "h:2": BrokerFacts("h:2", "c", "b", 0, 5, 0),
    }
    assert bad(exported(broker_set()), brokers) == ["master serves"]


def test_a_broker_that_came_as_far_as_the_new_epoch_is_found() -> None:
    seen = exported(broker_set())
    brokers = {**BROKERS, "h:2": BrokerFacts("h:2", "c", "b", 2, seen.master_epoch, 0)}
    assert bad(seen, brokers) == ["epochs"]


def test_once_the_master_has_arrived_the_proof_still_holds() -> None:
    seen = replace(exported(broker_set()), master_id=1, master_epoch=15, sync_state_set=(1, 2))
    brokers: dict[str, BrokerFacts | None] = {
        "h:1": BrokerFacts("h:1", "c", "b", 0, 15, 0),
        "h:2": BrokerFacts("h:2", "c", "b", 2, 15, 0),
    }
    assert bad(seen, brokers) == []


def test_the_steps_tell_brokers_after_our_controllers_stopped_and_the_master_first() -> None:
    here = broker_set(replicas=[replica(1, is_regent=False), replica(2, is_regent=False)])
    goal = export_plan.goal_of("b", here, BROKERS)
    assert goal is not None
    steps = export_plan.steps([goal], ["j:1"], ["r:1", "r:2"], "j:1")
    stop = next(
        i for i, one in enumerate(steps) if one.title.startswith("Stop every Regent controller")
    )
    tell = next(
        i
        for i, one in enumerate(steps)
        if any("updateBrokerConfig" in line for line in one.commands)
    )
    assert stop < tell and [line.split()[3] for line in steps[tell].commands] == ["h:1", "h:2"]


def test_brokers_of_ours_are_restarted_with_the_new_address() -> None:
    goal = export_plan.goal_of("b", broker_set(), BROKERS)
    assert goal is not None
    text = "\n".join(one.title for one in export_plan.steps([goal], ["j:1"], ["r:1"], "j:1"))
    assert "restart the master first" in text and "updateBrokerConfig" not in text


ENDLESS = {
    "epoch": broker_set(master_epoch=2_000_000_000, highest_epoch_seen=2_000_000_000),
    "set epoch": broker_set(sync_state_set_epoch=2_000_000_000),
    "ids": broker_set(next_broker_id=2**60),
}


@pytest.mark.parametrize("here", ENDLESS.values(), ids=ENDLESS)
def test_what_would_never_end_is_refused_at_once_whoever_allows_it(here: dict[str, Any]) -> None:
    plan = export_plan.plan_set("b", here, BROKERS, None, NOW, requests_max=2**62)
    assert failed(plan) == ["length"] and not plan.drive
    assert "never sent" in plan.checks[-1].way_out


def test_many_requests_are_sent_only_when_the_operator_allows_them() -> None:
    here = broker_set(sync_state_set_epoch=export_plan.REQUESTS_MAX)
    plan = export_plan.plan_set("b", here, BROKERS, None, NOW)
    assert failed(plan) == ["length"] and not plan.drive
    words = plan.checks[-1].way_out.split()
    allowed = int(words[words.index("--requests-max") + 1].rstrip(";"))
    plan = export_plan.plan_set("b", here, BROKERS, None, NOW, requests_max=allowed)
    assert plan.is_ready and len(plan.drive) == allowed
