"""Reads at the active controller (design D5)."""

import pytest

from processors.controller import effects as fx
from processors.controller.overload import UNABLE_AFTER_MS, UNABLE_MAX_MS
from processors.controller.reads import QUESTION_EVERY_MS, LogAccess, ReadBarrier
from tests.support.controller_rig import SET, Rig


@pytest.fixture
def rig() -> Rig:
    made = Rig().lead().three()
    made.auto = False
    return made


def test_reads_that_arrive_together_share_one_question(rig: Rig) -> None:
    for conn in range(5):
        rig.request(1004, {"brokerName": SET}, conn=conn)
    first = rig.take(fx.AskEndOffset)
    assert len(first) == 1
    rig.perform(rig.core.on_end_offset(first[0].token, len(rig.log.records)))
    second = rig.take(fx.AskEndOffset)
    assert len(second) == 1, "those who came while the first question was under way"
    rig.perform(rig.core.on_end_offset(second[0].token, len(rig.log.records)))
    assert sorted(reply.conn_id for reply in rig.take(fx.Reply)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("code", "ext", "body"),
    [
        (1004, {"brokerName": SET}, b""),
        (1012, {"clusterName": "C", "brokerName": SET}, b""),
        (1006, {}, b'["a"]'),
    ],
)
def test_each_kind_of_read_waits_and_is_served(
    rig: Rig, code: int, ext: dict[str, str], body: bytes
) -> None:
    assert rig.request(code, ext, body) is None
    (question,) = rig.take(fx.AskEndOffset)
    rig.perform(rig.core.on_end_offset(question.token, len(rig.log.records)))
    assert [reply.response.code for reply in rig.take(fx.Reply)] == [0]


def test_a_log_that_does_not_answer_is_asked_at_the_next_tick_and_the_read_ends_in_code_1(
    rig: Rig,
) -> None:
    rig.request(1004, {"brokerName": SET})
    (question,) = rig.take(fx.AskEndOffset)
    rig.perform(rig.core.on_end_offset(question.token, None))
    assert rig.take(fx.AskEndOffset) == []
    rig.tick()
    assert len(rig.take(fx.AskEndOffset)) == 1
    rig.pass_time(2_600)
    (reply,) = rig.take(fx.Reply)
    assert reply.response.code == 1 and reply.response.remark


def test_the_status_shows_the_newest_end_that_was_learnt(rig: Rig) -> None:
    rig.request(1004, {"brokerName": SET})
    (question,) = rig.take(fx.AskEndOffset)
    rig.perform(rig.core.on_end_offset(question.token, 999))
    answer = rig.request(19002)
    assert answer is not None and b'"end_offset":999' in answer.body


def test_an_end_below_what_was_applied_proves_nothing(rig: Rig) -> None:
    """A node of Kafka that is behind, or that has not noticed that it leads no more."""
    rig.request(1004, {"brokerName": SET})
    (question,) = rig.take(fx.AskEndOffset)
    rig.perform(rig.core.on_end_offset(question.token, len(rig.log.records) - 1))
    assert rig.take(fx.Reply) == []
    rig.tick()
    (again,) = rig.take(fx.AskEndOffset)
    rig.perform(rig.core.on_end_offset(again.token, len(rig.log.records)))
    assert [reply.response.code for reply in rig.take(fx.Reply)] == [0]


def test_records_applied_while_the_answer_was_on_its_way_say_nothing_against_it(rig: Rig) -> None:
    """Under load there always are some; nobody would ever read, and the leader would count as cut
    from the log.
    """
    rig.request(1004, {"brokerName": SET})
    (question,) = rig.take(fx.AskEndOffset)
    end = len(rig.log.records)
    rig.auto = True
    rig.alter("1,2", 2)
    rig.auto = False
    rig.take(fx.Reply)
    assert len(rig.log.records) > end
    rig.perform(rig.core.on_end_offset(question.token, end))
    assert [reply.response.code for reply in rig.take(fx.Reply)] == [0]


def test_the_logs_end_is_asked_for_now_and_then_though_nobody_reads(rig: Rig) -> None:
    rig.pass_time(2 * QUESTION_EVERY_MS)
    assert len(rig.take(fx.AskEndOffset)) == 1


def test_a_read_that_turns_out_unreadable_is_answered_and_the_others_are_served(rig: Rig) -> None:
    rig.request(1004, {"brokerName": SET}, conn=1)
    (question,) = rig.take(fx.AskEndOffset)
    for conn, name in ((2, "x" * 300), (3, SET)):
        rig.request(19003, {"brokerName": name}, conn=conn)
    for _ in range(2):
        rig.perform(rig.core.on_end_offset(question.token, len(rig.log.records)))
        question = next(iter(rig.take(fx.AskEndOffset)), question)
    assert {reply.conn_id: reply.response.code for reply in rig.take(fx.Reply)} == {
        1: 0,
        2: 1,
        3: 0,
    }


def barrier(*reads: str, deadline_ms: int = 100) -> ReadBarrier[str]:
    made: ReadBarrier[str] = ReadBarrier()
    for read in reads:
        made.add(read, deadline_ms)
    return made


def test_one_question_answers_all_who_wait() -> None:
    reads = barrier("a", "b")
    token = reads.ask()
    assert token is not None and reads.ask() is None
    assert reads.answered(token, 5, applied_offset=4) == ["a", "b"]
    assert reads.ask() is None


def test_a_question_under_way_is_too_old_for_newcomers() -> None:
    reads = barrier("a")
    token = reads.ask()
    assert token is not None
    reads.add("b", 100)
    assert reads.answered(token, 0, applied_offset=-1) == ["a"]
    second = reads.ask()
    assert second is not None
    assert reads.answered(second, 0, applied_offset=-1) == ["b"]


def test_a_read_is_held_until_the_fold_has_passed_the_end() -> None:
    reads = barrier("a")
    token = reads.ask()
    assert token is not None
    assert reads.answered(token, 6, applied_offset=4) == []
    assert reads.after_apply(4) == []
    assert reads.after_apply(5) == ["a"]
    assert len(reads) == 0


def test_an_unanswered_question_is_asked_again() -> None:
    reads = barrier("a")
    token = reads.ask()
    assert token is not None
    assert reads.answered(token, None, applied_offset=9) == []
    again = reads.ask()
    assert again is not None and again != token
    assert reads.answered(token, 1, applied_offset=9) == [], "an answer to an old question"
    assert reads.answered(again, 1, applied_offset=9) == ["a"]


def test_deadlines_apply_wherever_a_read_waits() -> None:
    reads = barrier("asked")
    first = reads.ask()
    reads.add("unasked", 100)
    assert sorted(reads.expired(100)) == ["asked", "unasked"]
    assert len(reads) == 0
    assert first is not None and reads.answered(first, 1, applied_offset=0) == []


def test_held_reads_expire_too() -> None:
    reads = barrier("a")
    token = reads.ask()
    assert token is not None
    reads.answered(token, 6, applied_offset=0)
    assert reads.expired(99) == []
    assert reads.expired(100) == ["a"]


def test_reads_held_for_several_ends_are_each_served_at_their_own() -> None:
    reads = barrier("a")
    for name, end in (("a", 6), ("b", 9), ("c", 12)):
        token = reads.ask()
        assert token is not None
        assert reads.answered(token, end, applied_offset=4) == []
        reads.add({"a": "b", "b": "c", "c": "d"}[name], 100)
    assert [reads.after_apply(offset) for offset in range(5, 13)] == [
        ["a"],
        [],
        [],
        ["b"],
        [],
        [],
        ["c"],
        [],
    ]


def test_who_has_just_read_the_log_is_able_and_asks_after_a_while() -> None:
    access = LogAccess()
    assert access.is_able(10) and not access.is_question_due(10)
    assert not access.is_question_due(9 + QUESTION_EVERY_MS)
    assert access.is_question_due(10 + QUESTION_EVERY_MS)


def test_who_does_not_learn_the_end_any_more_is_not_able() -> None:
    access = LogAccess()
    access.answered(5, 4, 1_000)
    limit_ms = 1_000 + QUESTION_EVERY_MS + UNABLE_AFTER_MS
    assert access.is_able(limit_ms) and not access.is_able(limit_ms + 1)
    access.answered(5, 4, limit_ms + 10)
    assert access.is_able(limit_ms + 11)


def test_who_learns_the_end_and_does_not_get_what_stands_before_it_is_not_able() -> None:
    access = LogAccess()
    access.answered(5, 3, 1_000)
    for now_ms in range(1_500, 4_000, 500):
        access.answered(9, 3, now_ms)
    assert not access.is_able(1_001 + UNABLE_AFTER_MS)
    access.after_apply(4, 4_000)
    assert access.is_able(4_000)


def test_who_is_far_behind_but_comes_forward_is_able_for_long_but_not_current() -> None:
    access = LogAccess()
    access.answered(500, 0, 1_000)
    for now_ms in range(1_500, 1_000 + UNABLE_MAX_MS, 500):
        access.answered(500, 3, now_ms)
        access.after_apply(now_ms // 500, now_ms)
        assert access.is_able(now_ms)
    assert not access.is_current(1_001 + UNABLE_AFTER_MS)
    access.answered(500, 100, 1_001 + UNABLE_MAX_MS)
    access.after_apply(100, 1_001 + UNABLE_MAX_MS)
    assert not access.is_able(1_001 + UNABLE_MAX_MS), "another one may try"


def test_records_that_arrive_stand_in_for_word_of_the_end_for_a_while() -> None:
    access = LogAccess()
    access.answered(1, 0, 1_000)
    for now_ms in range(1_500, 1_000 + UNABLE_MAX_MS, 500):
        access.after_apply(now_ms // 500, now_ms)
        assert access.is_able(now_ms)
    late_ms = 1_001 + QUESTION_EVERY_MS + UNABLE_MAX_MS
    access.after_apply(999, late_ms)
    assert not access.is_able(late_ms)


def test_a_limit_that_is_longer_is_kept() -> None:
    access = LogAccess()
    access.answered(5, 3, 1_000)
    assert not access.is_able(3_500) and access.is_able(3_500, limit_ms=3_000)


def test_who_has_learnt_the_end_since_then_and_has_what_stands_before_it_is_current() -> None:
    access = LogAccess()
    access.answered(5, 4, 1_000)
    assert access.is_current(1_100, since_ms=1_000) and not access.is_current(1_100, since_ms=1_001)
    assert not access.is_current(1_001 + QUESTION_EVERY_MS + UNABLE_AFTER_MS)
