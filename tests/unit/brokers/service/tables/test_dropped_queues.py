"""Queues that were taken away on purpose."""

import pytest

from brokers.service.tables import dropped_queues
from brokers.service.tables.dropped_queues import DroppedQueues


def test_a_topic_that_comes_again_keeps_its_mark_until_it_has_all_its_queues() -> None:
    dropped = DroppedQueues()
    dropped.changed("T", 8, 2)
    dropped.changed("T", 2, 0)
    assert dropped.covers("T", 7) and not dropped.covers("T", 8) and not dropped.covers("U", 0)
    dropped.changed("T", 0, 4)
    assert dropped.counts == {"T": 8}
    dropped.changed("T", 4, 8)
    assert not dropped.counts


def test_there_are_never_more_than_allowed_and_the_oldest_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dropped_queues, "TOPICS_MAX", 2)
    dropped = DroppedQueues()
    for topic in "abc":
        dropped.changed(topic, 1, 0)
    assert list(dropped.counts) == ["b", "c"]


def test_who_says_nothing_of_them_is_told_from_who_has_none() -> None:
    assert DroppedQueues.from_wire(None) is None and DroppedQueues.from_wire({}) is not None
    found = DroppedQueues.from_wire({"T": 4, "U": "4", "V": -1, "W": 2**40})
    assert found is not None and found.counts == {"T": 4}
