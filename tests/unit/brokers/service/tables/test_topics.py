"""Topics: names, creation on first send, what the log restores, and the JSON both peers read."""

import pytest

from brokers.membership.namesrv_client import RouteEntry, register_request
from brokers.remoting import fastjson
from brokers.remoting.codec import FRAME_BYTES_MAX, encode
from brokers.service.tables.data_version import DataVersion
from brokers.service.tables.topics import (
    DEFAULT_TOPIC,
    TOPICS_MAX,
    TopicConfig,
    TopicTable,
    name_refusal,
    system_topics,
)


def table() -> TopicTable:
    return TopicTable(system_topics("c", "b", auto_create=True))


@pytest.mark.parametrize("name", ["T", "a-b_c|d%e", "x" * 127, "%RETRY%" + "g" * 248])
def test_valid_names(name: str) -> None:
    assert name_refusal(name) is None


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "T\n", "ü", "x" * 128, "%DLQ%" + "g" * 251, "a/../b"]
)
def test_invalid_names(name: str) -> None:
    assert name_refusal(name) is not None


def test_a_broker_starts_with_more_than_one_topic_and_the_default_one_can_be_inherited() -> None:
    default = table().get(DEFAULT_TOPIC)
    assert default is not None and (default.write_queues, default.perm) == (8, 7)
    assert len(table().configs) > 10
    assert TopicTable(system_topics("c", "b", auto_create=False)).get(DEFAULT_TOPIC) is None


@pytest.mark.parametrize(
    ("topic", "queues", "unit", "expected"),
    [
        ("T", 4, False, TopicConfig("T", 4, 4, 6)),
        ("T", 100, False, TopicConfig("T", 8, 8, 6)),
        ("T", 0, True, TopicConfig("T", 1, 1, 6, sys_flag=1)),
        ("%RETRY%g", 4, False, TopicConfig("%RETRY%g", 1, 1, 6)),
    ],
)
def test_a_first_send_creates_the_topic_from_the_default_one(
    topic: str, queues: int, unit: bool, expected: TopicConfig
) -> None:
    assert table().for_first_send(topic, DEFAULT_TOPIC, queues, unit) == expected


def test_without_an_inheritable_default_topic_nothing_is_created() -> None:
    assert table().for_first_send("T", "BenchmarkTest", 4, False) is None
    assert table().for_first_send("T", "absent", 4, False) is None


def test_each_change_moves_the_version_and_an_equal_config_does_not() -> None:
    topics = TopicTable()
    assert topics.put([TopicConfig("T")], 10)
    assert not topics.put([TopicConfig("T")], 11)
    assert topics.remove("T", 12) and not topics.remove("T", 13)
    assert topics.version == DataVersion(0, 12, 2)


def test_a_mastership_shows_in_the_state_version_of_this_and_later_changes() -> None:
    topics = table()
    topics.mastership_began(3, 10)
    topics.put([TopicConfig("T")], 11)
    assert topics.version == DataVersion(3, 11, 2)


def test_the_state_version_stays_when_a_set_leaves_its_controllers() -> None:
    """Replicas and name servers keep what has the larger one."""
    topics = table()
    topics.mastership_began(3, 10)
    topics.mastership_began(0, 11)
    assert topics.version.state_version == topics.state_version == 3


def test_topics_that_only_the_log_holds_are_restored_with_all_their_queues() -> None:
    topics = TopicTable([TopicConfig("A", 2, 2), TopicConfig("B", 4, 4)])
    restored = topics.missing_for([("A", 5), ("B", 3), ("C", 0), ("C", 2)])
    assert restored == [TopicConfig("A", 6, 6), TopicConfig("C", 3, 3)]


def test_a_table_reads_what_it_writes_and_is_taken_over_once() -> None:
    topics = table()
    topics.put([TopicConfig("T", 4, 4, attributes={"k": "v"}, order=True)], 10)
    copy = TopicTable.from_wire(topics.to_wire())
    assert copy.configs == topics.configs and copy.version == topics.version
    slave = TopicTable()
    assert slave.adopt(copy) and not slave.adopt(copy)
    assert slave.configs == topics.configs


def test_the_text_of_a_table_is_its_document_after_any_change() -> None:
    topics = table()
    changes = [
        lambda: topics.put([TopicConfig("T", attributes={"k": "\u00e9"}), TopicConfig("U")], 1),
        lambda: topics.put([TopicConfig("U", 3, 3)], 2),
        lambda: topics.mastership_began(7, 3),
        lambda: topics.remove("T", 4),
        lambda: topics.adopt(TopicTable([TopicConfig("U"), TopicConfig("V")])),
    ]
    for change in changes:
        change()
        assert fastjson.loads(topics.text().document()) == topics.to_wire()
        copy = TopicTable(reversed(topics.configs.values()))
        copy.dropped = topics.dropped
        assert (
            copy.text().digest
            == topics.text().digest
            != TopicTable(list(topics.configs.values())[1:]).text().digest
        )


@pytest.mark.parametrize("body", [None, [], {}, {"topicConfigTable": []}])
def test_a_body_that_is_no_table_is_refused(body: object) -> None:
    with pytest.raises(ValueError):
        TopicTable.from_wire(body)


@pytest.mark.parametrize(
    "entry", [{"U": 1}, {"a b": {}}, {"U": {"perm": 99}}, {"U": {"readQueueNums": "4"}}]
)
def test_an_entry_that_is_no_topic_is_left_out_and_named(entry: dict[str, object]) -> None:
    table = TopicTable.from_wire({"topicConfigTable": {"T": {}, **entry}})
    assert list(table.configs) == ["T"] and table.left_out == tuple(entry)


def test_the_largest_table_fits_one_frame_of_a_registration() -> None:
    """Else a stranger who names enough topics would push the whole broker out of the routes."""
    configs = [
        TopicConfig(f"%RETRY%{number:0248d}", 65_535, 65_535, 15, 2**31 - 1)
        for number in range(TOPICS_MAX)
    ]
    entry = RouteEntry("c", "b", 0, "h:1", "h:2", 1, TopicTable(configs).text())
    assert len(encode(register_request(entry))) <= FRAME_BYTES_MAX


def test_a_name_that_no_replica_would_take_does_not_enter_the_table() -> None:
    table = TopicTable()
    with pytest.raises(ValueError, match="my.topic"):
        table.put([TopicConfig("fine"), TopicConfig("my.topic")], 1)
    assert not table.configs and [
        config.name for config in table.missing_for([("my.topic", 0), ("T", 0)])
    ] == ["T"]


def test_attributes_and_filter_types_have_their_bounds() -> None:
    for row in ({"attributes": {"reserve.time": "9" * 9_000}}, {"topicFilterType": "x" * 256}):
        with pytest.raises(ValueError, match="characters"):
            TopicConfig.from_wire({"topicName": "T", **row})


def test_a_queue_that_no_topic_can_have_makes_no_topic_unusable() -> None:
    table = TopicTable()
    assert table.missing_for([("T", 1 << 26)]) == []
    assert [one.read_queues for one in table.missing_for([("T", 2), ("T", 65_535)])] == [3]
