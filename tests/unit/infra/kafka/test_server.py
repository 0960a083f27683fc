from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from infra.kafka import server
from infra.kafka.server import LocalKafka
from infra.problems import Problem


def test_settings_of_a_replicated_log_keep_what_was_acknowledged(tmp_path: Path) -> None:
    nodes = server.plan_nodes(tmp_path, 3)
    voters = {node.node_id: node.quorum for node in nodes}
    settings = server.properties_of(nodes[0], voters)
    assert settings["min.insync.replicas"] == "2" and settings["default.replication.factor"] == "3"
    assert (
        settings["unclean.leader.election.enable"] == "false"
        and settings["log.retention.ms"] == "-1"
    )
    assert settings["controller.quorum.voters"].count("@") == 3
    single = server.properties_of(nodes[0], {1: nodes[0].quorum})
    assert single["min.insync.replicas"] == single["default.replication.factor"] == "1"


def test_two_nodes_are_no_quorum(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="not a quorum"):
        server.plan_nodes(tmp_path, 2)


def test_the_format_file_is_written_once_and_tells_nodes_apart(tmp_path: Path) -> None:
    one, two, _ = server.plan_nodes(tmp_path, 3)
    for node in (one, two):
        server.write_files(node, {1: one.quorum}, "c", tmp_path / "log")
    texts = [(node.directory / "data/meta.properties").read_text() for node in (one, two)]
    lines = [dict(line.split("=", 1) for line in text.split()) for text in texts]
    assert lines[0]["cluster.id"] == lines[1]["cluster.id"] and len(lines[0]["cluster.id"]) == 22
    assert lines[0]["directory.id"] != lines[1]["directory.id"]
    server.write_files(one, {1: one.quorum}, "another", tmp_path / "log")
    assert (one.directory / "data/meta.properties").read_text() == texts[0]


def test_nobody_listening_is_not_ready() -> None:
    assert not server.is_ready("127.0.0.1:1", 1)


def test_a_node_that_dies_while_starting_ends_the_wait_with_its_words() -> None:
    with pytest.raises(Problem, match="ended while starting: no heap"):
        server.wait_ready("127.0.0.1:1", 1, lambda: "no heap")


@pytest.mark.kafka
def test_a_real_node_takes_topics_and_keeps_those_that_are_there(kafka: LocalKafka) -> None:
    wanted = [NewTopic("infra.kafka-server", num_partitions=2, replication_factor=1)]
    assert server.create_topics(kafka.bootstrap, wanted) == ["infra.kafka-server"]
    assert server.create_topics(kafka.bootstrap, wanted) == []
