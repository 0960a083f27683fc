"""The JSON shapes of the values in a route table."""

from processors.nameserver.records import BrokerGroup, DataVersion, TopicQueues


def test_a_data_version_has_the_keys_of_java():
    assert DataVersion(3, 2, 1_000).to_wire() == {
        "counter": 2,
        "stateVersion": 3,
        "timestamp": 1_000,
    }


def test_queues_closed_for_writes_keep_their_other_permissions():
    assert TopicQueues(4, 4, 7).without_write() == TopicQueues(4, 4, 5)
    assert TopicQueues(4, 4, 4).without_write() == TopicQueues(4, 4, 4)


def test_a_group_has_its_members_and_says_whether_a_slave_may_act():
    group = BrokerGroup("C", "b", acting_master=True, addresses={0: "a:1"})
    said = {"brokerName": "b", "cluster": "C", "enableActingMaster": True}
    assert group.to_wire() == {"brokerAddrs": {0: "a:1"}} | said
    assert group.to_wire({1: "a:1"}) == {"brokerAddrs": {1: "a:1"}} | said


def test_the_addresses_given_out_are_a_copy():
    group = BrokerGroup("C", "b", addresses={0: "a:1"})
    group.to_wire()["brokerAddrs"].clear()
    assert group.addresses == {0: "a:1"}
