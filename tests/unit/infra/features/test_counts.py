"""What counts as lost, early, late and twice of messages that become visible once."""

from infra.features.counts import Blow, Counts, Sent, judge_copies

BLOW = Blow(4_950, 5_000)


def judged(sent: Sent, *copies: int) -> Counts:
    counts = Counts("timed")
    judge_copies(counts, {7: sent}, {7: list(copies)} if copies else {}, [BLOW])
    return counts


def good(due_ms: int | None = 4_000, calls: int = 1) -> Sent:
    return Sent(1_000, due_ms, calls, 1_010)


def test_what_was_acknowledged_and_never_came_is_lost() -> None:
    assert judged(good()).problem == "timed: 1 lost: 7"
    unknown = judged(Sent(1_000, 4_000, 1), 4_100)
    assert not unknown.lost and unknown.problem == "timed: nothing was acknowledged"


def test_a_copy_before_its_time_is_early_and_one_behind_it_late() -> None:
    assert judged(good(), 3_990).problem == "timed: 1 early, by 10 ms"
    late = judged(good(), 4_900)
    assert late.problem is None and late.late_ms == [900]


def test_what_comes_again_behind_a_blow_is_counted_with_its_distance_from_it() -> None:
    counts = judged(good(), 4_200, 7_000)
    assert counts.problem is None and counts.twice_ms == [800]
    assert "1 twice (first up to 0.8 s before the blow)" in counts.text()
    assert counts.document()["twice_before_blow_ms_max"] == 800


def test_a_copy_that_was_made_while_the_blow_fell_came_before_it() -> None:
    assert judged(good(), 4_960, 4_990).twice_ms == [40]


def test_what_comes_again_without_a_blow_between_is_wrong() -> None:
    assert judged(good(), 4_200, 4_300).problem == (
        "timed: 1 times wrong: 7 came twice, and nobody was hit between"
    )


def test_a_message_that_was_sent_twice_may_be_there_twice() -> None:
    counts = judged(good(calls=2), 4_200, 4_300)
    assert counts.problem is None and not counts.twice_ms


def test_what_must_never_be_visible_is_wrong_when_it_is() -> None:
    assert judged(good(due_ms=None)).problem is None
    assert judged(good(due_ms=None), 4_200).wrong == ["7 is visible and should never be"]


def test_a_message_that_nobody_sent_is_wrong() -> None:
    counts = Counts("timed")
    judge_copies(counts, {7: good()}, {7: [4_100], 8: [4_100]}, [])
    assert counts.wrong == ["nobody sent 8"]


def test_who_takes_over_may_repeat_itself_until_it_has_settled() -> None:
    counts = Counts("timed")
    judge_copies(counts, {7: good()}, {7: [5_200, 5_900]}, [Blow(4_950, 5_000, 6_000)])
    assert counts.problem is None and counts.twice_ms == [0]
    late = Counts("timed")
    judge_copies(late, {7: good()}, {7: [6_100, 6_900]}, [Blow(4_950, 5_000, 6_000)])
    assert late.unhit == [7]
