"""Names of pop consumption, as RocketMQ builds them."""

import pytest

from brokers.service.popping.names import (
    kind_of,
    no_retry_name,
    real_topic,
    retry_topic,
    shared_retry_name,
)
from brokers.service.tables.topics import name_refusal


@pytest.mark.parametrize(
    ("kind", "name"), [("1", "%RETRY%G1_P1"), ("2", "%RETRY%G1+P1")], ids=["71-V1", "71-V2"]
)
def test_retry_topics_have_both_forms(kind: str, name: str) -> None:
    assert retry_topic("G1", "P1", kind) == name == real_topic(kind, "G1", "P1")
    assert kind_of(name) == kind and kind_of("P1") == "0" and real_topic("0", "G1", "P1") == "P1"
    assert name_refusal(name) is None


def test_a_plus_belongs_into_names_of_retry_topics_only() -> None:
    assert name_refusal("a+b") and name_refusal("%DLQ%a+b") and name_refusal("%RETRY%a+b+c")


def test_a_group_whose_copies_could_have_no_topic_is_refused() -> None:
    assert no_retry_name("g" * 120, "t" * 127) is None
    assert no_retry_name("g" * 121, "t" * 127)


def test_a_group_whose_copies_another_one_would_take_is_refused() -> None:
    reads = {("g", "a_b"), ("h", "b")}

    def known(group: str, topic: str) -> bool:
        return (group, topic) in reads

    assert retry_topic("g_a", "b") == retry_topic("g", "a_b")
    assert shared_retry_name("g_a", "b", known)
    assert shared_retry_name("g", "a_b", known) is None
    assert shared_retry_name("h", "a_b", known) is None
