"""The configuration of consumer groups."""

import pytest

from brokers.remoting import fastjson
from brokers.service.tables import subscription_groups
from brokers.service.tables.subscription_groups import SYSTEM_GROUPS, SubscriptionGroups


def test_a_group_is_created_once_with_rocketmqs_defaults() -> None:
    groups = SubscriptionGroups()
    assert groups.ensure("g", 1) and not groups.ensure("g", 2)
    fields = groups.get("g")
    assert fields is not None and fields["retryMaxTimes"] == 16 and groups.retry_queues("g") == 1
    assert (
        groups.consume_enabled("g") and groups.notify_enabled("g") and groups.version.counter == 1
    )


def test_settings_are_changed_and_removed() -> None:
    groups = SubscriptionGroups()
    groups.put(
        {"groupName": "g", "consumeEnable": False, "notifyConsumerIdsChangedEnable": False}, 1
    )
    assert not groups.consume_enabled("g") and not groups.notify_enabled("g")
    assert groups.remove("g", 2) and not groups.remove("g", 3)
    with pytest.raises(ValueError):
        groups.put({}, 4)


def test_a_slave_takes_the_table_over_once() -> None:
    master, slave = SubscriptionGroups(), SubscriptionGroups()
    master.ensure("g", 1)
    copy = SubscriptionGroups.from_wire(fastjson.loads(master.text()))
    assert slave.adopt(copy) and not slave.adopt(copy) and slave.get("g") == master.get("g")


def test_the_page_for_tools_has_the_systems_groups_and_the_table_has_not() -> None:
    groups = SubscriptionGroups()
    for made in ((), ("g",), ("g", "TOOLS_CONSUMER")):
        for name in made:
            groups.put({"groupName": name, "retryMaxTimes": 3}, 1)
        page, count = groups.page()
        shown = SubscriptionGroups.from_wire(fastjson.loads(page))
        assert shown.names() == sorted({*SYSTEM_GROUPS, *made}) and len(shown) == count
        assert all(shown.retry_max(name) == 3 for name in made)
        assert SubscriptionGroups.from_wire(fastjson.loads(groups.text())).names() == sorted(made)


@pytest.mark.parametrize("body", [None, {}, {"subscriptionGroupTable": []}])
def test_a_body_that_is_no_table_is_refused(body: object) -> None:
    with pytest.raises(ValueError):
        SubscriptionGroups.from_wire(body)


def test_names_that_rocketmq_does_not_allow_are_no_groups_and_leave_the_others_alone() -> None:
    groups = SubscriptionGroups()
    for name in ("my.group", "g/../../x", "g" * 256, ""):
        assert not groups.ensure(name, 1)
        with pytest.raises(ValueError):
            groups.put({"groupName": name}, 1)
    assert groups.ensure("g" * 255, 1)
    found = SubscriptionGroups.from_wire(
        {"subscriptionGroupTable": {"g": {}, "my.group": {}, "h": 1}}
    )
    assert (
        found.left_out == ("my.group", "h")
        and found.get("g") is not None
        and found.get("h") is None
    )


def test_settings_that_are_too_deep_or_too_long_enter_no_table() -> None:
    groups, nested = SubscriptionGroups(), 1
    for _ in range(900):
        nested = {"a": nested}
    for attributes in (nested, {"a": "9" * 20_000}):
        with pytest.raises(ValueError, match="settings of a group"):
            groups.put({"groupName": "g", "attributes": attributes}, 1)
    assert groups.get("g") is None
    assert SubscriptionGroups.from_wire(
        {"subscriptionGroupTable": {"g": {"attributes": nested}}}
    ).left_out == ("g",)


def test_the_bytes_of_all_groups_are_bounded_and_an_empty_table_replaces_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscription_groups, "TABLE_BYTES_MAX", 2_000)
    groups = SubscriptionGroups()
    made = [groups.ensure(f"g{number}", 1) for number in range(50)]
    assert made[0] and not made[-1]
    with pytest.raises(ValueError, match="bytes"):
        groups.put({"groupName": "more"}, 1)
    assert (
        groups.put({"groupName": "g0", "retryMaxTimes": 3}, 2)
        and groups.remove("g0", 3)
        and groups.ensure("more", 4)
    )
    assert not groups.adopt(SubscriptionGroups()) and groups.get("more") is not None
