"""The rules of the route table, row by row."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from processors.nameserver import routes
from processors.nameserver.records import DataVersion, Registration, TopicQueues, Verdict
from processors.nameserver.routes import RouteTable
from tests.support.examples import examples

QUEUES = TopicQueues(4, 4, 6)
A, B, C = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"


def registration(broker_id=0, address=A, state_version=1, topics=("T", "TBW102"), **fields):
    fields = {"cluster_name": "C", "broker_name": "b", "ha_address": f"{address}-ha"} | fields
    table = topics if isinstance(topics, dict) else dict.fromkeys(topics, QUEUES)
    return Registration(
        broker_id=broker_id,
        address=address,
        version=DataVersion(state_version, 1, 1_000),
        topics=table,
        **fields,
    )


def closed(table, connection_id):
    """The brokers that leave with a connection."""
    return [live for live, _ in table.remove(table.connection_closed(connection_id)).brokers]


def expired(table, now_ms):
    return [live for live, _ in table.remove(table.overdue(now_ms)).brokers]


def unregistered(table, name, address, connection_id=99):
    departure = table.said_goodbye(name, address, connection_id)
    return departure is not None and bool(table.remove([departure]).brokers)


def addresses(table, topic="T"):
    route = table.route(topic)
    return None if route is None else route["brokerDatas"][0]["brokerAddrs"]


def test_the_route_of_a_registered_topic_has_its_broker_and_queues():
    table = RouteTable()
    assert table.register(registration(), 1, 0).verdict is Verdict.ACCEPTED
    assert table.route("T") == {
        "brokerDatas": [
            {"brokerAddrs": {0: A}, "brokerName": "b", "cluster": "C", "enableActingMaster": False}
        ],
        "filterServerTable": {},
        "queueDatas": [
            {
                "brokerName": "b",
                "perm": 6,
                "readQueueNums": 4,
                "topicSysFlag": 0,
                "writeQueueNums": 4,
            }
        ],
    }


def test_an_unknown_topic_has_no_route():
    assert RouteTable().route("T") is None


def test_a_topic_on_two_broker_names_has_both_in_order():
    table = RouteTable()
    table.register(registration(broker_name="b2", address=B), 2, 0)
    table.register(registration(broker_name="b1", address=A), 1, 0)
    assert [data["brokerName"] for data in table.route("T")["brokerDatas"]] == ["b1", "b2"]


def test_a_slave_is_told_its_master_and_adds_only_its_address():
    table = RouteTable()
    table.register(registration(), 1, 0)
    result = table.register(
        registration(2, B, topics=("T", "OnlyOnSlave"), acting_master=False), 2, 0
    )
    assert (result.master_address, result.master_ha_address) == (A, f"{A}-ha")
    assert addresses(table) == {0: A, 2: B}
    assert table.route("OnlyOnSlave") is None


def test_a_slave_without_a_master_is_told_nothing():
    result = RouteTable().register(registration(2, B), 2, 0)
    assert (result.verdict, result.master_address) == (Verdict.ACCEPTED, None)


def test_the_smallest_slave_brings_its_topics_when_it_knows_acting_masters():
    table = RouteTable()
    table.register(registration(2, B, acting_master=False), 2, 0)
    assert addresses(table) == {2: B}
    assert table.route("T")["queueDatas"][0]["perm"] == 6


def test_a_slave_of_an_old_release_brings_no_topics():
    table = RouteTable()
    table.register(registration(2, B, acting_master=None), 2, 0)
    assert table.route("T") is None


def test_with_acting_master_on_a_slave_alone_offers_its_topics_for_reading_only():
    table = RouteTable()
    table.register(registration(2, B, acting_master=True), 2, 0)
    assert table.route("T")["queueDatas"][0]["perm"] == 4
    assert table.route("T")["brokerDatas"][0]["enableActingMaster"] is True


def test_with_acting_masters_a_lost_master_closes_its_topics_for_writes():
    table = RouteTable()
    table.register(registration(acting_master=True), 1, 0)
    table.register(registration(2, B, acting_master=True), 2, 0)
    closed(table, 1)
    assert table.route("T")["queueDatas"][0]["perm"] == 4
    table.register(registration(acting_master=True), 3, 0)
    assert table.route("T")["queueDatas"][0]["perm"] == 6


def test_the_last_registrant_decides_whether_acting_master_is_on():
    table = RouteTable()
    table.register(registration(acting_master=True), 1, 0)
    table.register(registration(2, B, acting_master=None), 2, 0)
    assert table.route("T")["brokerDatas"][0]["enableActingMaster"] is False


@pytest.mark.parametrize("known", [False, True])
def test_a_first_registration_with_exactly_one_topic_is_refused(known):
    table = RouteTable()
    if known:
        table.register(registration(), 1, 0)
    result = table.register(registration(2, B, topics=("T",)), 2, 0)
    assert result.verdict is Verdict.SINGLE_TOPIC
    assert len(table.brokers) == int(known)
    assert table.cluster_info()["clusterAddrTable"] == ({"C": ["b"]} if known else {})


def test_a_later_registration_with_one_topic_adds_it_and_removes_none():
    table = RouteTable()
    table.register(registration(), 1, 0)
    assert table.register(registration(topics=("New",)), 1, 0).verdict is Verdict.ACCEPTED
    assert table.topics == ("New", "T", "TBW102")


def test_a_registration_without_topics_is_accepted():
    assert RouteTable().register(registration(topics=()), 1, 0).verdict is Verdict.ACCEPTED


def test_a_topic_of_another_version_has_the_new_queues():
    table = RouteTable()
    table.register(registration(), 1, 0)
    new = {"T": TopicQueues(8, 8, 4, 1)}
    table.register(registration(topics=new), 1, 0)
    assert table.route("T")["queueDatas"][0]["perm"] == 6
    table.register(registration(topics=new, state_version=2), 1, 0)
    assert table.route("T")["queueDatas"][0] == {
        "brokerName": "b",
        "perm": 4,
        "readQueueNums": 8,
        "topicSysFlag": 1,
        "writeQueueNums": 8,
    }


def test_an_address_that_registers_under_another_id_leaves_its_old_one():
    table = RouteTable()
    table.register(registration(), 1, 0)
    table.register(registration(2, B), 2, 0)
    table.register(registration(0, B, state_version=2), 2, 0)
    assert addresses(table) == {0: B}


def test_an_address_that_registers_under_another_name_leaves_its_old_one():
    table = RouteTable()
    table.register(registration(), 1, 0)
    table.register(registration(broker_name="other"), 1, 0)
    assert set(table.cluster_info()["brokerAddrTable"]) == {"other"}


def test_the_same_id_from_a_new_address_replaces_the_old_one_at_once():
    table = RouteTable()
    table.register(registration(), 1, 0)
    table.register(registration(address=B, state_version=2), 2, 0)
    assert addresses(table) == {0: B}
    assert [live.address for live in table.brokers] == [B]
    closed(table, 1)
    assert addresses(table) == {0: B}


def test_an_equal_state_version_from_another_address_replaces_too():
    table = RouteTable()
    table.register(registration(), 1, 0)
    table.register(registration(address=B), 2, 0)
    assert addresses(table) == {0: B}


def test_an_old_master_does_not_take_the_route_back():
    table = RouteTable()
    table.register(registration(address=B, state_version=3), 2, 0)
    result = table.register(registration(address=A, state_version=2), 1, 0)
    assert (result.verdict, result.master_address) == (Verdict.STALE, None)
    assert addresses(table) == {0: B}
    assert [live.address for live in table.brokers] == [B]


def test_an_old_master_does_not_take_the_route_back_after_the_new_one_was_lost_either():
    table = RouteTable()
    table.register(registration(2, C), 3, 0)
    table.register(registration(address=B, state_version=3), 2, 0)
    closed(table, 2)
    assert table.register(registration(address=A, state_version=2), 1, 0).verdict is Verdict.STALE
    assert addresses(table) == {2: C}
    assert (
        table.register(registration(address=A, state_version=4), 1, 0).verdict is Verdict.ACCEPTED
    )
    assert addresses(table) == {0: A, 2: C}


def test_a_master_without_a_controller_is_not_measured_by_a_lost_ones_epoch():
    table = RouteTable()
    table.register(registration(2, C), 3, 0)
    table.register(registration(state_version=3), 1, 0)
    closed(table, 1)
    assert (
        table.register(registration(address=B, state_version=0), 2, 0).verdict is Verdict.ACCEPTED
    )


def test_a_name_that_has_no_broker_any_more_starts_over():
    table = RouteTable()
    table.register(registration(state_version=9), 1, 0)
    closed(table, 1)
    assert (
        table.register(registration(address=B, state_version=1), 2, 0).verdict is Verdict.ACCEPTED
    )


def test_the_master_itself_may_come_with_a_lower_state_version():
    table = RouteTable()
    table.register(registration(state_version=3), 1, 0)
    assert table.register(registration(state_version=2), 1, 0).verdict is Verdict.ACCEPTED


def test_an_old_master_that_still_stood_as_a_slave_leaves_that_entry():
    table = RouteTable()
    table.register(registration(address=B, state_version=3), 2, 0)
    table.register(registration(2, A, state_version=3), 1, 0)
    table.register(registration(0, A, state_version=2), 1, 0)
    assert addresses(table) == {0: B}


def test_a_slave_id_with_a_higher_state_version_keeps_its_address():
    table = RouteTable()
    table.register(registration(2, B, state_version=3), 2, 0)
    assert table.register(registration(2, C, state_version=2), 3, 0).verdict is Verdict.STALE


def test_a_promoted_slave_replaces_the_master_and_its_own_old_entry():
    table = RouteTable()
    table.register(registration(), 1, 0)
    table.register(registration(2, B), 2, 0)
    table.register(registration(3, C), 3, 0)
    table.register(registration(0, B, state_version=2), 2, 0)
    assert addresses(table) == {0: B, 3: C}
    table.register(registration(1, A, state_version=2), 4, 0)
    assert addresses(table) == {0: B, 1: A, 3: C}


def test_a_closed_connection_removes_its_brokers_at_once_and_the_rest_is_served():
    table = RouteTable()
    table.register(registration(), 1, 0)
    table.register(registration(2, B), 2, 0)
    assert [live.address for live in closed(table, 1)] == [A]
    assert addresses(table) == {2: B}
    assert closed(table, 1) == []


def test_one_connection_may_carry_several_brokers():
    table = RouteTable()
    table.register(registration(broker_name="b1", address=A), 1, 0)
    table.register(registration(broker_name="b2", address=B), 1, 0)
    assert len(closed(table, 1)) == 2
    assert table.route("T") is None and table.topics == ()


def test_the_old_connection_of_a_broker_that_registered_again_no_longer_counts():
    table = RouteTable()
    table.register(registration(), 1, 0)
    table.register(registration(), 2, 0)
    assert closed(table, 1) == []
    assert addresses(table) == {0: A}


def test_the_last_broker_of_a_name_takes_the_topics_along():
    table = RouteTable()
    table.register(registration(), 1, 0)
    table.register(registration(broker_name="b2", address=B, topics=("T", "U")), 2, 0)
    assert unregistered(table, "b", A)
    assert table.topics == ("T", "U")
    assert table.cluster_info()["clusterAddrTable"] == {"C": ["b2"]}


def test_unregistering_needs_the_right_name():
    table = RouteTable()
    table.register(registration(), 1, 0)
    assert not unregistered(table, "other", A)
    assert not unregistered(table, "b", B)
    assert addresses(table) == {0: A}


def test_a_broker_expires_when_it_was_silent_for_longer_than_it_said():
    table = RouteTable()
    table.register(registration(timeout_ms=1_000), 1, 500)
    table.register(registration(2, B, timeout_ms=5_000), 2, 500)
    assert expired(table, 1_500) == []
    assert [live.address for live in expired(table, 1_501)] == [A]
    assert addresses(table) == {2: B}


def test_a_heartbeat_keeps_a_known_broker_and_does_not_bring_back_another():
    table = RouteTable()
    table.register(registration(timeout_ms=1_000), 1, 0)
    assert table.heartbeat("C", A, 1, 900)
    assert expired(table, 1_500) == []
    assert not table.heartbeat("C", B, 1, 900)


def test_a_data_version_question_says_whether_it_changed_and_keeps_the_broker():
    table = RouteTable()
    table.register(registration(timeout_ms=1_000), 1, 0)
    known = DataVersion(1, 1, 1_000)
    assert table.query_data_version("C", A, known, 1, 900) == (False, known)
    assert table.query_data_version("C", A, DataVersion(1, 2, 1_000), 1, 900) == (True, known)
    assert table.query_data_version("C", B, known, 1, 900) == (True, None)
    assert expired(table, 1_500) == []


def test_cluster_info_lists_groups_and_names():
    table = RouteTable()
    table.register(registration(), 1, 0)
    table.register(registration(2, B), 2, 0)
    assert table.cluster_info() == {
        "brokerAddrTable": {
            "b": {
                "brokerAddrs": {0: A, 2: B},
                "brokerName": "b",
                "cluster": "C",
                "enableActingMaster": False,
            }
        },
        "clusterAddrTable": {"C": ["b"]},
    }


def test_the_member_group_of_an_unknown_name_is_empty_and_repeats_the_question():
    table = RouteTable()
    table.register(registration(), 1, 0)
    assert table.member_group("X", "b")["brokerMemberGroup"] == {
        "brokerAddrs": {0: A},
        "brokerName": "b",
        "cluster": "X",
    }
    assert table.member_group("X", "none")["brokerMemberGroup"]["brokerAddrs"] == {}


def test_the_tables_are_bounded(monkeypatch):
    monkeypatch.setattr(routes, "BROKERS_MAX", 1)
    monkeypatch.setattr(routes, "TOPICS_MAX", 2)
    table = RouteTable()
    table.register(registration(topics=("T1", "T2", "T3")), 1, 0)
    assert table.topics == ("T1", "T2")
    assert table.register(registration(2, B), 2, 0).verdict is Verdict.TABLE_FULL
    assert table.register(registration(), 1, 0).verdict is Verdict.ACCEPTED


class TableMachine(RuleBasedStateMachine):
    """Any order of what brokers do keeps the table whole."""

    def __init__(self):
        super().__init__()
        self.table, self.now_ms = RouteTable(), 0

    @rule(
        name=st.sampled_from(["b1", "b2"]),
        broker_id=st.integers(0, 3),
        address=st.sampled_from([A, B, C]),
        version=st.integers(0, 4),
        topics=st.sets(st.sampled_from(["T", "U", "V"])),
        acting=st.sampled_from([None, False, True]),
        connection=st.integers(1, 4),
    )
    def register(self, name, broker_id, address, version, topics, acting, connection):
        said = registration(
            broker_id,
            address,
            version,
            sorted(topics),
            broker_name=name,
            acting_master=acting,
            timeout_ms=50,
        )
        self.table.register(said, connection, self.now_ms)

    @rule(connection=st.integers(1, 4))
    def close(self, connection):
        closed(self.table, connection)

    @rule(name=st.sampled_from(["b1", "b2"]), address=st.sampled_from([A, B, C]))
    def unregister(self, name, address):
        unregistered(self.table, name, address)

    @rule(passed_ms=st.integers(1, 60))
    def time_passes(self, passed_ms):
        self.now_ms += passed_ms
        expired(self.table, self.now_ms)

    @invariant()
    def groups_and_live_brokers_are_the_same_and_every_route_has_an_address(self):
        groups = self.table.cluster_info()["brokerAddrTable"]
        placed = {
            (name, i, address)
            for name, group in groups.items()
            for i, address in group["brokerAddrs"].items()
        }
        assert placed == {
            (live.broker_name, live.broker_id, live.address) for live in self.table.brokers
        }
        assert len({address for *_, address in placed}) == len(placed)
        for topic in self.table.topics:
            assert all(data["brokerAddrs"] for data in self.table.route(topic)["brokerDatas"])


TestAnyOrder = TableMachine.TestCase
TestAnyOrder.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
