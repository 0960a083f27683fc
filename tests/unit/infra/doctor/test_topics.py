"""What `regent topics` makes is what controllers require."""

from __future__ import annotations

import shlex

import pytest

from events.topics import TOPICS
from infra.doctor import topics
from infra.kafka import log_topics


@pytest.mark.parametrize(("replication", "in_sync"), [(1, "1"), (2, "1"), (3, "2"), (5, "2")])
def test_each_topic_has_what_is_required_of_it(replication: int, in_sync: str) -> None:
    wanted = {one.topic: one for one in log_topics.wanted(replication)}
    assert set(wanted) == {spec.name for spec in TOPICS}
    for spec in TOPICS:
        one = wanted[spec.name]
        assert (one.num_partitions, one.replication_factor) == (spec.partitions, replication)
        assert {**spec.required, "min.insync.replicas": in_sync}.items() <= one.config.items()


def test_the_printed_commands_say_the_same() -> None:
    wanted = log_topics.wanted(3)
    for line, topic in zip(topics.printed("k1:9092", wanted), wanted, strict=True):
        words = shlex.split(line)
        assert words[words.index("--topic") + 1] == topic.topic
        assert {f"{name}={value}" for name, value in topic.config.items()} <= set(words)
