"""May a set change over, who becomes what, and what proves that it did."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from brokers.changeover.order import Kind, Lines, Order
from infra.changeover import plan
from infra.changeover.facts import NO_ANSWER, NOT_OURS, Found, Look
from infra.changeover.plan import BEGUN, DONE, FRESH, Changeover, SetPlan

MEMBERS = {0: "h0:1", 1: "h1:1", 5: "h5:1"}
CONTROLLERS = ["k:1", "k:2"]
NEW = Changeover("c1", {address: f"{address};code" for address in MEMBERS.values()})


def fixed(number: int, **changes: Any) -> Look:
    leads = number == 0
    one = Look(
        "regent",
        "a",
        f"h{number}:1",
        Kind.FIXED,
        number,
        leads,
        "MASTER" if leads else "SLAVE",
        "",
        2,
        False,
        ("n:1",),
        "/store",
        Lines(number),
    )
    return replace(one, **changes)


def looks(**changes: Any) -> dict[str, Found]:
    found: dict[str, Found] = {f"h{key}:1": fixed(key) for key in MEMBERS}
    return {**found, **{f"{key}:1": one for key, one in changes.items()}}


def adoption(found: dict[str, Found] | None = None, here: dict[str, Any] | None = None) -> SetPlan:
    found = looks() if found is None else found
    return plan.plan_adoption("a", MEMBERS, found, here, CONTROLLERS, NEW)


def refused(found: SetPlan) -> set[str]:
    return {one.name for one in found.checks if one.fatal and not one.ok}


def test_ids_begin_at_1_in_the_order_of_the_fixed_ones_and_nobody_is_master() -> None:
    found = adoption()
    assert (found.stage, found.is_ready, found.leader) == (FRESH, True, "h0:1")
    assert [(one.address, one.broker_id) for one in found.orders] == [
        ("h0:1", 1),
        ("h1:1", 2),
        ("h5:1", 3),
    ]
    first = found.orders[0]
    assert (first.kind, first.copies, first.epoch, first.controllers) == (
        Kind.CONTROLLERS,
        2,
        1,
        ("k:1", "k:2"),
    )
    assert found.fields is not None and found.fields["master_broker_id"] is None
    assert found.fields["sync_state_set"] == [1, 2, 3] and found.fields["next_broker_id"] == 4
    codes = [one["register_check_code"] for one in found.fields["replicas"]]
    assert codes == [one.check_code for one in found.orders] and len(set(codes)) == 3


def test_what_a_cleaned_set_of_that_name_left_is_not_undercut() -> None:
    left = {"tombstone": True, "imported": False, "replicas": []}
    numbers = {"next_broker_id": 9, "highest_epoch_seen": 7, "sync_state_set_epoch": 20}
    fields = adoption(here={**left, **numbers}).fields
    assert fields is not None
    assert (fields["next_broker_id"], fields["master_epoch"]) == (9, 8)
    assert fields["sync_state_set_epoch"] == 21


def test_an_adoption_that_never_began_is_written_again() -> None:
    replica = {"alive": False, "reason": "never_seen"}
    left = {"tombstone": False, "imported": True, "replicas": [replica]}
    numbers = {"next_broker_id": 4, "highest_epoch_seen": 1, "sync_state_set_epoch": 1}
    found = adoption(here={**left, **numbers})
    assert found.fields is not None and found.fields["master_epoch"] == 1
    assert found.fields["sync_state_set_epoch"] == 2


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"h1": NO_ANSWER}, "replicas"),
        ({"h1": NOT_OURS}, "kind"),
        ({"h0": fixed(0, serving=False, role="FENCED")}, "master"),
        ({"h0": NO_ANSWER}, "master"),
        ({"h1": fixed(1, kind=Kind.CONTROLLERS)}, "places"),
        ({"h1": fixed(1, role="FENCED")}, "slaves"),
        ({"h1": fixed(1, broker_id=0)}, "slaves"),
        ({"h0": fixed(0, copies=4)}, "copies"),
        ({"h1": fixed(1, cluster_name="other")}, "names"),
        ({"h0": fixed(0, acts=True, total_replicas=4)}, "all there"),
    ],
    ids=[
        "one is silent",
        "one is of RocketMQ",
        "nobody leads",
        "the master is silent",
        "one is with controllers already",
        "one follows nobody",
        "two have id 0",
        "fewer replicas than copies",
        "two clusters",
        "one of those that act is away",
    ],
)
def test_what_is_not_sound_is_refused_with_a_way_out(changes: dict[str, Found], check: str) -> None:
    found = adoption(looks(**changes))
    assert check in refused(found) and not found.orders and found.fields is None
    assert all(one.way_out for one in found.checks if not one.ok)


def test_a_set_that_controllers_run_is_not_adopted_a_second_time() -> None:
    alive = {"tombstone": False, "imported": False, "replicas": []}
    assert refused(adoption(here=alive)) == {"place"}
    arrived = [{"alive": True, "reason": "heartbeat"}]
    assert refused(adoption(here={**alive, "imported": True, "replicas": arrived})) == {"place"}


def test_what_waits_longer_is_said_and_hinders_nothing() -> None:
    found = adoption(looks(h0=fixed(0, copies=3, acts=True, total_replicas=3)))
    assert found.is_ready
    assert {one.name for one in found.checks if not one.ok} == {"spare", "acting"}


def gave_up(kind: Kind, orders: tuple[Order, ...], leader: Look) -> Look:
    return replace(leader, kind=kind, change=orders[0].change, orders=orders)


def test_an_adoption_that_was_interrupted_goes_on_with_the_orders_of_then() -> None:
    orders = adoption().orders
    found = looks(h0=gave_up(Kind.CONTROLLERS, orders, fixed(0)))
    again = adoption(found, here={"tombstone": False, "imported": True, "replicas": []})
    assert (again.stage, again.orders, again.is_ready) == (BEGUN, orders, True)
    assert plan.left_of(orders, found) == ["h1:1", "h5:1"]
    for address in ("h1:1", "h5:1"):
        found[address] = replace(found[address], kind=Kind.CONTROLLERS)  # type: ignore[type-var]
    assert adoption(found).stage == DONE


def test_an_adopted_set_is_proven_by_its_replicas_and_by_the_controllers() -> None:
    orders = adoption().orders
    there = {at: replace(one, kind=Kind.CONTROLLERS) for at, one in looks().items()}  # type: ignore[type-var]
    here = {"master": 2, "sync_state_set": [1, 2, 3]}
    assert all(one.ok for one in plan.adopted("a", orders, there, here))
    for wrong, failing in (
        ({**here, "master": None}, "master"),
        ({**here, "sync_state_set": [2, 3]}, "in sync"),
    ):
        checks = plan.adopted("a", orders, there, wrong)
        assert [one.name for one in checks if not one.ok] == [failing]
    checks = plan.adopted("a", orders, {**there, "h5:1": NO_ANSWER}, here)
    assert [one.name for one in checks if not one.ok] == ["followed"]


# -- the way back ----------------------------------------------------------------------------------

HERE: dict[str, Any] = {
    "cluster": "regent",
    "tombstone": False,
    "master": 2,
    "sync_state_set": [1, 2, 3],
    "replicas": [
        {"id": number, "address": address} for number, address in enumerate(MEMBERS.values(), 1)
    ],
}


def members(**changes: Any) -> dict[str, Found]:
    leads = {"serving": True, "role": "MASTER"}
    follows = {"serving": False, "role": "SLAVE"}
    found: dict[str, Found] = {
        one.address: replace(
            one, kind=Kind.CONTROLLERS, **(leads if one.address == "h1:1" else follows)
        )
        for one in looks().values()
        if isinstance(one, Look)
    }
    return {**found, **{f"{key}:1": one for key, one in changes.items()}}


def release(found: dict[str, Found] | None = None, here: Any = HERE) -> SetPlan:
    return plan.plan_release("a", members() if found is None else found, here, NEW)


def test_who_leads_gets_id_0_and_the_others_follow_in_their_order() -> None:
    found = release()
    assert (found.stage, found.is_ready, found.leader) == (FRESH, True, "h1:1")
    ids = {one.address: one.broker_id for one in found.orders}
    assert ids == {"h1:1": 0, "h0:1": 1, "h5:1": 2}
    assert {(one.kind, one.copies, one.controllers) for one in found.orders} == {
        (Kind.FIXED, 2, ())
    }


@pytest.mark.parametrize(
    ("found", "here", "check"),
    [
        (members(), None, "here"),
        (members(), {**HERE, "tombstone": True}, "here"),
        ({}, None, "here"),
        (members(h0=NO_ANSWER), HERE, "replicas"),
        (members(h0=NOT_OURS), HERE, "kind"),
        (members(), {**HERE, "master": None}, "master"),
        (members(), {**HERE, "master": 1}, "master"),
        (members(), {**HERE, "sync_state_set": [2, 3]}, "in sync"),
        (members(h5=fixed(5, kind=Kind.CONTROLLERS, name_servers=())), HERE, "name servers"),
    ],
    ids=[
        "other controllers run it",
        "it was cleaned here, and other controllers run it",
        "nobody knows it",
        "one is silent",
        "one is of RocketMQ",
        "no master",
        "another one serves",
        "one is behind",
        "one has no name servers",
    ],
)
def test_a_set_that_is_not_whole_is_not_released(
    found: dict[str, Found], here: Any, check: str
) -> None:
    one = release(found, here)
    assert check in refused(one) and not one.orders


@pytest.mark.parametrize(
    ("found", "here", "leads"),
    [
        (looks(), {**HERE, "tombstone": True, "replicas": []}, True),
        (looks(), None, True),
        ({}, {**HERE, "tombstone": True, "replicas": []}, False),
        (looks(h0=NO_ANSWER), {**HERE, "tombstone": True, "replicas": []}, False),
    ],
    ids=["released", "it never left its fixed ids", "no broker was asked", "its master is silent"],
)
def test_a_set_that_nobody_elects_for_is_released_already(
    found: dict[str, Found], here: Any, leads: bool
) -> None:
    one = release(found, here)
    assert one.stage == DONE and one.is_ready and not one.orders
    assert next(check.ok for check in one.checks if check.name == "master") is leads


def test_who_left_in_an_attempt_that_failed_is_taken_along() -> None:
    left = fixed(0, change="c0", role="FENCED", serving=False)
    found = release(members(h0=left), {**HERE, "sync_state_set": [2, 3]})
    assert found.is_ready and len(found.orders) == 3


def test_a_release_is_done_when_who_led_leads_again_and_the_others_are_linked() -> None:
    orders = release().orders
    there: dict[str, Found] = {
        at: replace(one, kind=Kind.FIXED)  # type: ignore[type-var]
        for at, one in members().items()
    }
    there["h1:1"] = gave_up(Kind.FIXED, orders, there["h1:1"])  # type: ignore[arg-type]
    assert release(there).stage == DONE and release(there).orders == orders
    assert all(one.ok for one in plan.released("a", orders, there, 2))
    assert [one.name for one in plan.released("a", orders, there, 1) if not one.ok] == ["linked"]
    assert [one.name for one in plan.released("a", orders, members(), 2) if not one.ok] == [
        "followed",
        "master",
    ]


@pytest.mark.parametrize("found", [adoption(), release()], ids=["adopt", "release"])
def test_the_steps_name_who_holds_and_which_lines_change_on_which_host(found: SetPlan) -> None:
    steps = plan.steps(found, "regent controller it")
    assert [command for one in steps for command in one.commands][0] == "regent controller it"
    assert any(found.leader in one.title for one in steps)
    lines = "\n".join(steps[-1].commands)
    for order in found.orders:
        assert order.address in lines
    assert ('controllers = ["k:1", "k:2"]' in lines) is (found.kind is Kind.CONTROLLERS)
    assert ("broker_id = 0" in lines) is (found.kind is Kind.FIXED)


def test_a_file_that_is_right_is_not_to_be_changed() -> None:
    order = release().orders[0]
    assert plan.lines_to_change(order, Lines(0)) == ["h1:1 (broker_id 0): its file says it already"]
    assert len(plan.lines_to_change(order, Lines(1))) == 2
