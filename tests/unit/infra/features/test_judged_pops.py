"""Which hand-outs of a popped message are as promised."""

from infra.features.counts import Blow, Counts, Sent
from infra.features.judged_pops import Given, Unanswered, judge_pops

INVISIBLE_MS = 6_000
KILL = Blow(2_450, 2_500)


def given(at_ms: int, *, back: bool = False, done: bool = False) -> Given:
    return Given(back, at_ms, at_ms + INVISIBLE_MS, done, at_ms + 10 if done else None)


def judged(
    *times: Given, blows: tuple[Blow, ...] = (), unanswered: tuple[Unanswered, ...] = ()
) -> Counts:
    counts = Counts("pops")
    judge_pops(counts, {7: Sent(1_000, 1_000, 1, 1_010)}, {7: times}, unanswered, blows)
    return counts


def test_what_nobody_could_acknowledge_is_lost() -> None:
    assert judged().problem == "pops: 1 lost: 7"
    assert judged(given(2_000)).problem == "pops: 1 lost: 7"
    assert judged(given(2_000, done=True)).problem is None


def test_an_acknowledgement_without_an_answer_in_time_promises_nothing() -> None:
    late = Given(False, 2_000, 8_000, True, 7_950)
    silent = Given(False, 2_000, 8_000, True)
    for one in (late, silent):
        assert judged(one).problem is None
        assert judged(one, given(8_100, back=True, done=True)).problem is None


def test_what_was_left_comes_back_and_not_before_its_time() -> None:
    counts = judged(given(2_000), given(9_000, back=True, done=True))
    assert counts.problem is None and counts.late_ms == [1_000] and not counts.twice_ms
    early = judged(given(2_000), given(7_999, back=True, done=True))
    assert early.problem == "pops: 1 early, by 1 ms"


def test_what_was_acknowledged_comes_again_only_behind_a_blow() -> None:
    first, again = given(2_000, done=True), given(2_900, done=True)
    assert judged(first, again, blows=(KILL,)).twice_ms == [500]
    assert judged(first, again).problem == (
        "pops: 1 times wrong: 7 was acknowledged in time, comes again, nobody was hit"
    )


def test_what_was_left_and_given_again_behind_a_blow_comes_back_twice_at_most() -> None:
    left, again = given(2_000), given(3_000)
    backs = [given(8_100, back=True, done=True), given(9_100, back=True, done=True)]
    counts = judged(left, again, *backs, blows=(KILL,))
    assert counts.problem is None and counts.twice_ms == [500] and len(counts.late_ms) == 2
    more = judged(left, again, *backs, given(9_200, back=True, done=True), blows=(KILL,))
    assert more.twice_ms == [500, 500]


def test_what_comes_back_again_is_measured_from_where_it_came_back_first() -> None:
    backs = [given(8_100, back=True, done=True), given(9_100, back=True, done=True)]
    counts = judged(given(2_000), *backs, blows=(Blow(8_450, 8_500),))
    assert counts.problem is None and counts.twice_ms == [400]


def test_a_pop_without_an_answer_may_have_had_a_message_that_was_there() -> None:
    unknown = Unanswered(1_500, 2_400, INVISIBLE_MS)
    done, back = given(2_600, done=True), given(7_600, back=True, done=True)
    assert judged(done, back, unanswered=(unknown,)).problem is None
    assert judged(done, given(7_400, back=True, done=True), unanswered=(unknown,)).wrong
    older = Unanswered(100, 900, INVISIBLE_MS)
    assert judged(done, back, unanswered=(older,)).wrong


def test_a_message_that_nobody_sent_is_wrong() -> None:
    counts = Counts("pops")
    judge_pops(counts, {}, {8: [given(2_000)]}, (), ())
    assert counts.wrong == ["nobody sent 8"]
