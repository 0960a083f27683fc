"""Java slaves hear of a new master when it has its role, and then where it takes links."""

from __future__ import annotations

import pytest

from processors.liveness import role_taking
from processors.liveness.role_taking import Asked, Question, RoleTakings

SET, EPOCH, MASTER, MARGIN_MS = "a", 7, 1, 300
HA = "b1:10912"


class Takings:
    """One set under a new master with Java slaves 2 and 3, and a clock."""

    def __init__(self, registers_ms: int = MARGIN_MS) -> None:
        self.now_ms = 1_000
        self.epoch: int | None = EPOCH
        self.members: tuple[int, ...] = (MASTER,)
        self.takings = RoleTakings()
        assert self.takings.begin(SET, EPOCH, MASTER, [3, 2], registers_ms, self.now_ms)

    def due(self) -> list[Question]:
        return self.takings.due(lambda name: (self.epoch, self.members), self.now_ms)

    def after(self, ms: int) -> list[Question]:
        self.now_ms += ms
        return self.due()

    def answer(self, question: Question, ha_address: str | None) -> None:
        self.takings.answered(question.token, ha_address, self.now_ms)

    def keeps(self) -> bool:
        return self.takings.keeps(SET, self.epoch, self.now_ms)


@pytest.fixture
def one() -> Takings:
    return Takings()


def whom(questions: list[Question]) -> list[tuple[Asked, int]]:
    return [(question.asked, question.broker_id) for question in questions]


def test_the_master_is_asked_again_and_again_until_it_has_its_role(one: Takings) -> None:
    (first,) = one.due()
    assert (first.asked, first.broker_id) == (Asked.MASTER, MASTER)
    assert one.due() == [], "one question at a time"
    one.answer(first, "")
    assert one.due() == [] and one.keeps()
    (second,) = one.after(role_taking.ASK_EVERY_MS)
    one.answer(second, None)
    (third,) = one.after(role_taking.ASK_EVERY_MS)
    one.answer(third, HA)
    assert one.after(role_taking.ASK_EVERY_MS) == [], "it has said so"


def test_slaves_are_told_once_name_servers_may_know_the_master(one: Takings) -> None:
    (question,) = one.due()
    one.answer(question, HA)
    assert one.after(MARGIN_MS - 1) == [] and one.keeps()
    told = one.after(1)
    assert whom(told) == [(Asked.NOTICE, 2), (Asked.NOTICE, 3)] and not one.keeps()
    assert one.after(1) == [], "each is told once"


def test_where_the_old_master_is_gone_nobody_waits_for_name_servers() -> None:
    one = Takings(registers_ms=0)
    (question,) = one.due()
    one.answer(question, HA)
    assert whom(one.due()) == [(Asked.NOTICE, 2), (Asked.NOTICE, 3)]


def test_a_slave_hears_of_links_when_it_has_taken_its_role_and_not_before(one: Takings) -> None:
    (question,) = one.due()
    one.answer(question, HA)
    second, third = one.after(MARGIN_MS)
    one.answer(third, "")
    (link,) = one.due()
    assert (link.asked, link.broker_id, link.ha_address) == (Asked.LINK, 3, HA)
    one.answer(second, "")
    (link,) = one.due()
    assert (link.asked, link.broker_id) == (Asked.LINK, 2)


def test_a_slave_that_is_no_member_yet_is_made_to_link_again_and_again(one: Takings) -> None:
    (question,) = one.due()
    one.answer(question, HA)
    for notice in one.after(MARGIN_MS):
        one.answer(notice, "")
    for _ in range(3):
        links = one.due()
        assert whom(links) == [(Asked.LINK, 2), (Asked.LINK, 3)]
        assert {link.ha_address for link in links} == {HA}
        for link in links:
            one.answer(link, "")
        assert one.due() == []
        unlinks = one.after(role_taking.LINK_AGAIN_MS)
        assert whom(unlinks) == [(Asked.UNLINK, 2), (Asked.UNLINK, 3)]
        assert {unlink.ha_address for unlink in unlinks} == {""}
        for unlink in unlinks:
            one.answer(unlink, "")
    one.members = (MASTER, 2)
    assert whom(one.due()) == [(Asked.LINK, 3)]
    one.members = (MASTER, 2, 3)
    assert one.after(role_taking.LINK_AGAIN_MS) == [] and one.takings._sets == {}


def test_a_master_that_does_not_take_its_role_keeps_nobody_from_the_news_for_long(
    one: Takings,
) -> None:
    (question,) = one.due()
    told = one.after(role_taking.KEPT_MS)
    assert whom(told) == [(Asked.NOTICE, 2), (Asked.NOTICE, 3)] and not one.keeps()
    for notice in told:
        one.answer(notice, "")
    assert one.after(1) == [], "nobody knows where it takes links"
    one.answer(question, HA)
    assert whom(one.due()) == [(Asked.LINK, 2), (Asked.LINK, 3)]


def test_a_slave_that_does_not_answer_is_told_again_a_few_times(one: Takings) -> None:
    (question,) = one.due()
    one.answer(question, HA)
    (notice, other) = one.after(MARGIN_MS)
    one.answer(other, "")
    one.members = (MASTER, 3)
    told = 1
    while one.takings._sets:
        one.answer(notice, None)
        again = one.after(role_taking.TELL_AGAIN_MS)
        told += len(again)
        notice = again[0] if again else notice
    assert told == role_taking.TELLS_MAX


def test_another_epoch_ends_it_and_late_answers_mean_nothing(one: Takings) -> None:
    (question,) = one.due()
    one.epoch = EPOCH + 1
    assert one.due() == [] and not one.keeps()
    one.answer(question, HA)
    assert one.after(MARGIN_MS) == []


def test_a_newer_election_of_the_set_begins_anew(one: Takings) -> None:
    (old,) = one.due()
    one.epoch = EPOCH + 1
    assert one.takings.begin(SET, one.epoch, 2, [3], 0, one.now_ms)
    one.answer(old, HA)
    (question,) = one.due()
    assert (question.asked, question.broker_id) == (Asked.MASTER, 2)


def test_it_comes_to_an_end_whoever_is_silent(one: Takings) -> None:
    one.due()
    one.after(role_taking.FOLLOWED_MS)
    assert one.takings._sets == {}


def test_without_a_java_slave_or_without_room_there_is_nothing_to_follow() -> None:
    takings = RoleTakings()
    assert not takings.begin(SET, EPOCH, MASTER, [], 0, 0)
    for number in range(role_taking.SETS_MAX):
        assert takings.begin(f"set-{number}", EPOCH, MASTER, [2], 0, 0)
    assert not takings.begin("one-more", EPOCH, MASTER, [2], 0, 0)
    takings.clear()
    assert takings.begin("one-more", EPOCH, MASTER, [2], 0, 0)


def test_nothing_is_kept_back_of_a_mastership_that_is_over() -> None:
    takings = RoleTakings()
    assert takings.begin(SET, EPOCH, MASTER, [2], 0, 0)
    assert takings.keeps(SET, EPOCH, 1)
    assert not takings.keeps(SET, EPOCH + 1, 1) and not takings.keeps(SET, None, 1)
