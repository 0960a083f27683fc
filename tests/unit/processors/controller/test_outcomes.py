"""Publishing outcomes while active (design D7)."""

import pytest

from events.outcomes import Outcome
from processors.controller import effects as fx
from processors.controller import outcomes
from processors.controller.context import CoreConfig, CoreContext
from processors.controller.outcomes import ASK_AGAIN_MS, Outcomes
from processors.fold.folder import Folder


def outcome(offset: int) -> Outcome:
    return Outcome(
        offset, offset.to_bytes(16, "big"), "cluster", 1, "ElectMaster", "a", "", True, None, 0
    )


def active_desk() -> tuple[CoreContext, Outcomes]:
    context = CoreContext(CoreConfig("c1", "h:1", "cluster"), Folder(), iter([]))
    context.leadership.note_state(1, "c1", own_claim=True, now_ms=0)
    return context, Outcomes(context)


def offsets(effects: list[fx.Effect]) -> list[int]:
    return [one.outcome.command_offset for one in effects if isinstance(one, fx.Publish)]


def test_publishing_goes_on_behind_the_newest_published_outcome() -> None:
    _, desk = active_desk()
    desk.preload([outcome(3), outcome(4), outcome(5)])
    (question,) = desk.start()
    assert isinstance(question, fx.AskLastPublished)
    assert offsets(desk.last_published(question.token, 4)) == [5]


def test_an_old_answer_is_ignored() -> None:
    _, desk = active_desk()
    desk.preload([outcome(0)])
    (question,) = desk.start()
    desk.start()
    assert desk.last_published(question.token, -1) == []


def test_what_is_not_kept_is_folded_again_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a start with more unpublished outcomes than memory is spent for."""
    monkeypatch.setattr(outcomes, "BACKLOG_MAX", 2)
    monkeypatch.setattr(outcomes, "FOLD_AGAIN_RECORDS", 2)
    context, desk = active_desk()
    context.folder.offset = 8  # type: ignore[misc]
    desk.preload([outcome(4), outcome(5)])
    (question,) = desk.start()
    *published, again = desk.last_published(question.token, 3)
    assert offsets(published) == [4, 5] and again == fx.FoldAgain(6, 8)
    assert desk.after_apply(outcome(9), {}, own=False) == [], (
        "one piece at a time, and what comes is not kept"
    )
    assert [type(one) for one in desk.folded_again(None)] == [], "the log is away: later"
    context.clock(outcomes.ASK_AGAIN_MS)
    assert desk.tick() == [fx.FoldAgain(6, 8)]
    *published, again = desk.folded_again([outcome(6), outcome(7)])
    assert offsets(published) == [6, 7] and again == fx.FoldAgain(8, 10)
    assert offsets(desk.folded_again([outcome(8), outcome(9)])) == [8, 9]
    for offset in range(4, 10):
        desk.result(offset, ok=True)
    assert offsets(desk.after_apply(outcome(10), {}, own=False)) == [10], "as if nothing had been"
    assert desk.published_offset == 9


def test_an_unanswered_question_is_asked_again() -> None:
    context, desk = active_desk()
    (question,) = desk.start()
    desk.last_published(question.token, None)
    assert desk.tick() == []
    context.clock(ASK_AGAIN_MS)
    assert [type(effect) for effect in desk.tick()] == [fx.AskLastPublished]


def test_a_failed_append_starts_again_behind_the_topics_end() -> None:
    context, desk = active_desk()
    desk.preload([outcome(0), outcome(1)])
    (question,) = desk.start()
    assert offsets(desk.last_published(question.token, -1)) == [0, 1]
    desk.result(0, ok=True)
    desk.result(1, ok=False)
    assert desk.publish() == []
    context.clock(ASK_AGAIN_MS)
    (again,) = desk.tick()
    assert isinstance(again, fx.AskLastPublished)
    assert offsets(desk.last_published(again.token, 0)) == [1]


def test_a_standby_keeps_outcomes_until_the_active_one_has_published_them() -> None:
    context, desk = active_desk()
    context.leadership.note_state(2, "c2", own_claim=False, now_ms=1)
    desk.stop()
    context.folder.offset = 5  # type: ignore[misc]
    desk.preload([outcome(4), outcome(5)])
    assert desk.publish() == []
    desk.published_elsewhere(4)
    assert desk.published_offset == 4
    desk.published_elsewhere(99)
    assert desk.published_offset == 5, "never beyond what was applied here"


def test_an_outcome_that_failed_is_not_hidden_by_later_ones_that_got_through() -> None:
    context, desk = active_desk()
    desk.preload([outcome(0), outcome(1), outcome(2)])
    (question,) = desk.start()
    assert offsets(desk.last_published(question.token, -1)) == [0, 1, 2]
    desk.result(0, ok=True)
    desk.result(1, ok=False)
    desk.result(2, ok=True)
    assert desk.published_offset == 0
    context.clock(ASK_AGAIN_MS)
    (again,) = desk.tick()
    assert isinstance(again, fx.AskLastPublished)
    assert offsets(desk.last_published(again.token, 2)) == [1, 2]
    desk.result(1, ok=True)
    desk.result(2, ok=True)
    assert desk.published_offset == 2


def test_what_another_controller_says_makes_no_hole_in_the_topic() -> None:
    """What was not kept because of it is folded again when the topic ends before it: a repeat harms
    nobody, a hole does.
    """
    context = CoreContext(CoreConfig("c1", "h:1", "cluster"), Folder(offset=9), iter([]))
    desk = Outcomes(context)
    desk.preload([outcome(8), outcome(9), outcome(10)])
    desk.published_elsewhere(9)
    context.leadership.note_state(2, "c1", own_claim=True, now_ms=0)
    (question,) = desk.start()
    context.folder.offset = 10  # type: ignore[misc]
    assert desk.last_published(question.token, 7) == [fx.FoldAgain(8, 11)]
    assert offsets(desk.folded_again([outcome(8), outcome(9), outcome(10)])) == [8, 9, 10]
    assert desk.published_offset == 7, "what it publishes counts when it is acknowledged"


def test_a_late_repeat_does_not_hide_what_was_published_when_this_controller_started() -> None:
    """A former leader that slept has its queue yet, and puts it behind what others published."""
    context = CoreContext(CoreConfig("c1", "h:1", "cluster"), Folder(offset=9), iter([]))
    context.leadership.note_state(1, "c1", own_claim=True, now_ms=0)
    for unpublished, first in (([outcome(9)], 9), ([], 10)):
        desk = Outcomes(context)
        desk.preload(unpublished)
        desk.after_apply(outcome(10), {}, own=False)
        (question,) = desk.start()
        assert offsets(desk.last_published(question.token, 5)) == list(range(first, 11))
