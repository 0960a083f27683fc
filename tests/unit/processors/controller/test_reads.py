"""Reads at the active controller (design D5)."""

import pytest

from processors.controller import effects as fx
from processors.controller.log_access import QUESTION_EVERY_MS
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
