"""A gapless run of outcomes on its way to the topic (design D7)."""

import pytest

from events.outcomes import Outcome
from processors.controller import outcomes
from processors.controller.outcomes import OutcomeBacklog


def outcome(offset: int) -> Outcome:
    return Outcome(
        offset, offset.to_bytes(16, "big"), "cluster", 1, "ElectMaster", "a", "", True, None, 0
    )


def backlog(*offsets: int) -> OutcomeBacklog:
    made = OutcomeBacklog()
    made.preload(outcome(offset) for offset in offsets)
    return made


def taken(made: OutcomeBacklog, now_ms: int = 0) -> list[int]:
    return [one.command_offset for one in made.take("c1", now_ms, 1_000)]


def test_nothing_leaves_before_the_topics_end_is_known() -> None:
    made = backlog(0, 1, 2)
    assert taken(made) == []
    made.resume(0)
    assert taken(made) == [1, 2]
    assert taken(made) == [], "each leaves once"


def test_a_run_that_does_not_reach_back_gives_way() -> None:
    made = backlog(5, 6)
    made.resume(3)
    assert (taken(made), made.missing(2), made.missing(9)) == ([], range(4, 6), range(4, 7))
    made.fill(outcome(offset) for offset in (4, 5))
    assert (taken(made), made.missing(9)) == ([4, 5], range(6, 7))
    for whole in (backlog(5, 6), backlog()):
        whole.resume(4)
        assert whole.missing(9) == range(0)


def test_of_too_many_the_oldest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "BACKLOG_MAX", 3)
    made = backlog(0, 1, 2, 3, 4)
    made.resume(-1)
    assert (taken(made), made.missing(1)) == ([0, 1, 2], range(3, 4))
    made.trim(1)
    made.add(outcome(5), {}, 0)
    assert taken(made) == [], "there is room, and it would leave a hole"
    made.fill(outcome(offset) for offset in (2, 3, 4, 5))
    made.add(outcome(6), {}, 0)
    assert taken(made) == [3, 4, 5]
    made.trim(5)
    assert made.missing(9) == range(6, 7)


def test_after_a_failure_what_is_not_confirmed_leaves_again() -> None:
    made = backlog(0, 1, 2)
    made.resume(-1)
    assert taken(made) == [0, 1, 2]
    made.trim(0)
    made.stop()
    assert taken(made) == []
    made.resume(0)
    assert taken(made) == [1, 2]
    assert made.published_offset == 0


def test_a_late_acknowledgement_is_waited_for_a_moment() -> None:
    made = backlog()
    made.resume(-1)
    made.add(outcome(0), {"received": 5}, hold_until_ms=100)
    made.add(outcome(1), {}, hold_until_ms=0)
    assert taken(made, now_ms=50) == [], "order is kept"
    made.stamp(outcome(0).command_id, "appended", 7)
    first, second = made.take("c1", 50, 1_000)
    assert dict(first.phases) == {"received": 5, "appended": 7}
    assert (first.publisher, first.published_at_ms, second.command_offset) == ("c1", 1_000, 1)


def test_the_wait_for_an_acknowledgement_ends() -> None:
    made = backlog()
    made.resume(-1)
    made.add(outcome(0), {}, hold_until_ms=100)
    assert taken(made, now_ms=100) == [0]


def test_unconfirmed_outcomes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outcomes, "IN_FLIGHT_MAX", 2)
    made = backlog(0, 1, 2, 3)
    made.resume(-1)
    assert taken(made) == [0, 1]
    made.trim(0)
    assert taken(made) == [2]


def test_the_backlog_is_bounded_and_then_says_that_it_has_a_hole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outcomes, "BACKLOG_MAX", 2)
    made = backlog(0, 1, 2)
    assert len(made) == 2
    assert not made.resume(-1)


@pytest.mark.parametrize(
    ("told", "last", "refolded", "leave"),
    [
        (1, 1, range(0), [2, 3]),
        (3, 3, range(0), []),
        (1, 0, range(1, 4), []),
        (3, 1, range(2, 4), []),
        (99, -1, range(4), []),
    ],
)
def test_hearsay_saves_memory_and_the_topic_decides(
    told: int, last: int, refolded: range, leave: list[int]
) -> None:
    made = backlog(0, 1, 2, 3)
    made.told(told)
    assert (
        made.known_offset == told and made.published_offset == -1 and len(made) == max(0, 3 - told)
    )
    made.resume(last)
    assert (taken(made), made.missing(9), made.known_offset) == (leave, refolded, last)


def test_what_is_applied_after_hearsay_is_kept() -> None:
    made = backlog(0, 1)
    made.told(1)
    made.add(outcome(2), {}, 0)
    made.resume(1)
    assert taken(made) == [2]
