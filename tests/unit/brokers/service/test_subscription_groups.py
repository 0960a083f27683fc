"""The configuration of consumer groups."""

import pytest

from brokers.service.subscription_groups import SubscriptionGroups


def test_a_group_is_created_once_with_rocketmqs_defaults() -> None:
    groups = SubscriptionGroups()
    assert groups.ensure("g", 1) and not groups.ensure("g", 2)
    fields = groups.get("g")
    assert fields is not None and fields["retryMaxTimes"] == 16 and groups.retry_queues("g") == 1
    assert groups.consume_enabled("g") and groups.notify_enabled("g") and groups.version.counter == 1


def test_settings_are_changed_and_removed() -> None:
    groups = SubscriptionGroups()
    groups.put({"groupName": "g", "consumeEnable": False, "notifyConsumerIdsChangedEnable": False}, 1)
    assert not groups.consume_enabled("g") and not groups.notify_enabled("g")
    assert groups.remove("g", 2) and not groups.remove("g", 3)
    with pytest.raises(ValueError):
        groups.put({}, 4)


def test_a_slave_takes_the_table_over_once() -> None:
    master, slave = SubscriptionGroups(), SubscriptionGroups()
    master.ensure("g", 1)
    copy = SubscriptionGroups.from_wire(master.to_wire())
    assert slave.take_over(copy) and not slave.take_over(copy) and slave.get("g") == master.get("g")


@pytest.mark.parametrize("body", [None, {}, {"subscriptionGroupTable": []}, {"subscriptionGroupTable": {"g": 1}}])
def test_a_body_that_is_no_table_is_refused(body: object) -> None:
    with pytest.raises(ValueError):
        SubscriptionGroups.from_wire(body)
