"""The header of a pop, and how long it waits."""

import pytest

from brokers.remoting.fields import BadField
from brokers.service.popping.pop_request import (
    INVISIBLE_MS_MAX,
    POLL_MS_MAX,
    parse,
    refusal_of_numbers,
)
from infra.features.pop_requests import pop_request

NOW = 1_795_413_789_348


def test_what_is_absent_counts_as_java_counts_it() -> None:
    pop = parse({"consumerGroup": "g", "topic": "T"})
    assert (pop.queue_id, pop.messages, pop.invisible_ms, pop.poll_ms) == (0, 0, 0, 0)
    assert (pop.expression, pop.expression_type, pop.ordered, pop.attempt) == (
        "*",
        "TAG",
        False,
        None,
    )
    assert not pop.from_end and parse(pop_request(initMode=1).ext).from_end


@pytest.mark.parametrize(
    "changes",
    [{"topic": ""}, {"topic": "t" * 256}, {"pollTime": "x"}, {"bornTime": "9" * 30},
     {"attemptId": "a" * 256}],
)  # fmt: skip
def test_hostile_headers_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(BadField):
        parse(pop_request(**changes).ext)


@pytest.mark.parametrize(
    ("changes", "wait_ms"),
    [
        ({}, 0),
        ({"pollTime": -5}, 0),
        ({"pollTime": 1_000}, 950),
        ({"pollTime": 1_000, "bornTime": NOW - 400}, 550),
        ({"pollTime": 1_000, "bornTime": NOW - 1_400}, 0),
        ({"pollTime": 1_000, "bornTime": NOW + 3_600_000}, 1_000),
        ({"pollTime": 1 << 60}, POLL_MS_MAX - 50),
    ],
)
def test_67_it_waits_from_when_it_was_born(changes: dict[str, object], wait_ms: int) -> None:
    assert parse(pop_request(**changes).ext).wait_ms(NOW) == wait_ms


@pytest.mark.parametrize(("age_ms", "late"), [(1_500, False), (1_501, True), (-1_000, False)])
def test_67_what_is_older_than_its_patience_is_too_late(age_ms: int, late: bool) -> None:
    pop = parse(pop_request(pollTime=1_000, bornTime=NOW - age_ms).ext)
    assert pop.too_late(NOW) is late


def test_58_numbers_have_limits() -> None:
    assert refusal_of_numbers(parse(pop_request(maxMsgNums=32).ext)) is None
    assert refusal_of_numbers(parse(pop_request(maxMsgNums=33).ext))
    assert refusal_of_numbers(parse(pop_request(invisibleTime=INVISIBLE_MS_MAX + 1).ext))
