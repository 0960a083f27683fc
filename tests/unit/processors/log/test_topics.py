"""What a controller needs of its topics (design D13)."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigEntry, ConfigResource, PartitionMetadata, TopicMetadata

from events.topics import COMMANDS, OUTCOMES
from processors.log import topics
from processors.log.topics import TopicIdentity, TopicsUnfit, prepare, settings_of, unfit

FIT = {
    "retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete",
    "unclean.leader.election.enable": "false", "min.insync.replicas": "2",
    "flush.messages": "1",
}  # fmt: skip


def topic(partitions: int = 1, replicas: int = 3) -> TopicMetadata:
    made = TopicMetadata()
    for number in range(partitions):
        made.partitions[number] = PartitionMetadata()
        made.partitions[number].replicas = list(range(replicas))
    return made


def test_a_replicated_kept_topic_is_fit() -> None:
    assert unfit(COMMANDS, topic(), FIT, local_cluster=False) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "604800000"),
        ("retention.bytes", "1"),
        ("cleanup.policy", "compact"),
        ("unclean.leader.election.enable", "true"),
    ],
)
def test_history_that_could_go_away_is_refused_everywhere(name: str, value: str) -> None:
    for local in (True, False):
        (problem,) = unfit(COMMANDS, topic(), FIT | {name: value}, local)
        assert name in problem and "set it to" in problem


def test_two_partitions_have_no_order() -> None:
    assert "partitions" in unfit(COMMANDS, topic(partitions=2), FIT, local_cluster=True)[0]


@pytest.mark.parametrize("found", ["9223372036854775807", None])
def test_decisions_that_only_memory_holds_are_refused_with_the_very_command(
    found: str | None,
) -> None:
    """Two in-sync nodes that lose their power take them away silently; some Kafkas do not name the
    setting at all.
    """
    settings = {name: value for name, value in FIT.items() if name != "flush.messages"} | (
        {} if found is None else {"flush.messages": found}
    )
    for local in (True, False):
        (problem,) = unfit(COMMANDS, topic(), settings, local)
        assert f"flush.messages is {found}" in problem and "accept_unflushed_log" in problem
        assert (
            "--alter --entity-type topics --entity-name regent.commands --add-config "
            "flush.messages=1"
        ) in problem
        assert unfit(OUTCOMES, topic(), settings, local) == [], "outcomes can be folded again"


def test_a_kafka_that_refuses_the_setting_can_be_taken_knowingly() -> None:
    settings = FIT | {"flush.messages": "9223372036854775807"}
    assert unfit(COMMANDS, topic(), settings, local_cluster=False, accept_unflushed=True) == []
    (problem,) = unfit(
        COMMANDS,
        topic(),
        settings | {"retention.ms": "1"},
        local_cluster=False,
        accept_unflushed=True,
    )
    assert "retention.ms" in problem


def test_replication_is_asked_of_real_clusters_only() -> None:
    lonely = FIT | {"min.insync.replicas": "1"}
    assert unfit(COMMANDS, topic(replicas=1), lonely, local_cluster=True) == []
    problems = unfit(COMMANDS, topic(replicas=1), lonely, local_cluster=False)
    assert (
        len(problems) == 2
        and "replication 1" in problems[0]
        and ("min.insync.replicas is 1") in problems[1]
    )


class HearsLater:
    """A node that has not heard of a topic yet, or never will: Kafka's answers, as its client gives
    them.
    """

    def __init__(self, unknown_times: int, code: int = KafkaError.UNKNOWN_TOPIC_OR_PART) -> None:
        self.left, self.code = unknown_times, code

    def describe_configs(
        self, asked: list[ConfigResource], request_timeout: float
    ) -> dict[ConfigResource, Future[object]]:
        answers: dict[ConfigResource, Future[object]] = {one: Future() for one in asked}
        for answer in answers.values():
            if self.left:
                answer.set_exception(KafkaException(KafkaError(self.code)))
            else:
                answer.set_result({"flush.messages": ConfigEntry("flush.messages", "1")})
        self.left -= self.left > 0
        return answers


def test_a_node_that_has_not_heard_of_a_new_topic_is_asked_again() -> None:
    assert settings_of(HearsLater(3), ["regent.commands"]) == {
        "regent.commands": {"flush.messages": "1"}
    }


def test_a_topic_that_is_not_there_and_a_refusal_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TopicsUnfit, match="settings of topic regent.commands cannot be read"):
        settings_of(HearsLater(10**9, KafkaError.TOPIC_AUTHORIZATION_FAILED), ["regent.commands"])
    monkeypatch.setattr(topics, "ASK_TIMEOUT_S", 0.1)
    with pytest.raises(TopicsUnfit, match="Unknown topic"):
        settings_of(HearsLater(10**9), ["regent.commands"])


def test_a_kafka_that_is_not_there_is_said_with_its_address() -> None:
    with pytest.raises(TopicsUnfit, match="127.0.0.1:1 is not reachable"):
        prepare({"bootstrap.servers": "127.0.0.1:1"}, local_cluster=True, wait_ms=0)


def test_waiting_for_kafka_is_told_and_not_with_every_look(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks = iter([False] * 3)
    with pytest.raises(TopicsUnfit):
        prepare(
            {"bootstrap.servers": "127.0.0.1:1"},
            local_cluster=True,
            wait_ms=60_000,
            cancelled=lambda: next(looks, True),
        )
    (line,) = [record.message for record in caplog.records]
    assert line.startswith("Kafka at 127.0.0.1:1 does not answer (") and line.endswith(
        ": waiting for it"
    )


def test_a_kafka_that_does_not_answer_tells_no_id() -> None:
    assert TopicIdentity({"bootstrap.servers": "127.0.0.1:1"}).ask("t", timeout_s=0.1) is None
