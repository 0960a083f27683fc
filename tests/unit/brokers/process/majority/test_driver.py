"""A member in a running loop: what is on the disk when it says something, and what it says when the
disk refuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.majority.entry import Entry, Place
from brokers.majority.quorum.effects import AppendDone, NewEntry, ReadDone
from brokers.majority.quorum.standing import Role, Standing
from brokers.majority.store.marks import parse_checkpoint
from brokers.majority.wire.codes import Code, PushType
from brokers.majority.wire.messages import HeartBeatRequest, PushRequest, Response
from tests.support.brokers import until
from tests.support.driven_member import GROUP, Driven, push, vote


@pytest.fixture
async def driven(tmp_path: Path) -> AsyncIterator[Driven]:
    made = Driven(tmp_path / "m0")
    yield made
    await made.driver.stop()
    made.folder.close()


async def test_a_term_that_cannot_be_saved_is_never_spoken_of(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(state: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(driven.folder.terms, "save", refuses)
    answers: list[Response] = []
    driven.driver.request(answers.append, vote())
    assert not answers and driven.driver.core.left is not None
    assert len(driven.listener.why_left) == 1
    refused = await driven.ask(vote(4))
    assert refused.code == Code.INTERNAL_ERROR, "from here on it only says no"


async def test_a_flush_that_fails_acknowledges_nothing(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses() -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(driven.folder.log, "flush", refuses)
    answers: list[Response] = []
    driven.driver.request(answers.append, push(Entry(0, 3, 0, b"a")))
    await until(lambda: driven.listener.why_left, "it has left")
    assert not [one for one in answers if one.code == Code.SUCCESS]


async def test_what_fails_in_the_one_that_listens_ends_the_members_part(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(standing: Standing) -> None:
        monkeypatch.undo()
        raise RuntimeError("a queue is broken")

    monkeypatch.setattr(driven.listener, "role_changed", fails)
    driven.driver.request(lambda _: None, push(Entry(0, 3, 0, b"a")))
    assert driven.listener.why_left == ["RuntimeError: a queue is broken"]


async def test_appends_of_one_turn_are_written_and_sent_together(driven: Driven) -> None:
    await driven.lead()
    futures = await driven.append(*(b"%d" % number for number in range(50)))
    pushed = [one.message for one in driven.sent if isinstance(one.message, PushRequest)]
    assert {len(one.entries) for one in pushed if one.type is PushType.APPEND} == {50}
    while not all(future.done() for future in futures):
        driven.answer_all()
        await asyncio.sleep(0.005)
    outcomes = [future.result() for future in futures]
    assert [one.index for one, _ in outcomes] == list(range(1, 51))
    assert {one.code for one, _ in outcomes} == {Code.SUCCESS}
    log = driven.folder.log
    assert [position for _, position in outcomes] == [
        log.get(index).position
        for index in range(1, 51)  # type: ignore[union-attr]
    ]
    assert driven.listener.commits[-1] == 50


async def test_each_append_hears_that_nobody_leads(driven: Driven) -> None:
    futures = await driven.append(b"a", b"b")
    assert [(one.result()[0].code, one.result()[1]) for one in futures] == [
        (Code.NOT_LEADER, -1)
    ] * 2
    assert driven.folder.log.last == Place()


async def test_a_deposed_leader_answers_what_is_unknown_at_once(driven: Driven) -> None:
    await driven.lead()
    driven.sent.clear()
    (future,) = await driven.append(b"a")
    term = driven.driver.core.standing.term
    beat = HeartBeatRequest(
        group=GROUP, remote_id="m0", local_id="m1", leader_id="m1", term=term + 1
    )
    await driven.ask(beat)
    assert future.result()[0].code is Code.TERM_CHANGED
    assert driven.listener.roles[-1].role is Role.FOLLOWER


async def test_a_checkpoint_says_how_far_all_is_on_the_disk(driven: Driven) -> None:
    await driven.lead()
    (future,) = await driven.append(b"a")
    while not future.done():
        driven.answer_all()
        await asyncio.sleep(0.005)
    path = driven.folder.root / "checkpoint"

    def noted() -> bool:
        marks = parse_checkpoint(path.read_text())
        return marks.committed_index == 1 and marks.durable == driven.folder.log.last

    await until(noted, "the checkpoint is written")


async def test_nothing_is_heard_after_the_end(driven: Driven) -> None:
    await driven.driver.stop()
    driven.driver.request(lambda _: pytest.fail("no answer"), vote())
    assert driven.folder.terms.state.term == 0


class Hears:
    """Of one append or read, what came of it."""

    def __init__(self) -> None:
        self.codes: list[tuple[Code, int]] = []

    def done(self, effect: AppendDone | ReadDone, /) -> None:
        self.codes.append((effect.code, effect.index))


async def test_what_a_broker_appends_is_in_the_log_at_once_and_read_once_a_majority_has_it(
    driven: Driven,
) -> None:
    refused = Hears()
    driven.driver.append_now(refused, [NewEntry(refused, 1, lambda _: b"a")])
    assert refused.codes == [(Code.NOT_LEADER, -1)]
    await driven.lead()
    appended, read = Hears(), Hears()
    two = [NewEntry(None, 1, lambda _: b"a"), NewEntry(appended, 1, lambda _: b"b")]
    driven.driver.append_now(appended, two)
    assert driven.folder.log.last.index == 2 and not appended.codes
    while not appended.codes:
        driven.answer_all()
        await asyncio.sleep(0.005)
    assert appended.codes == [(Code.SUCCESS, 2)]
    driven.driver.read(read)
    assert not read.codes, "who leads now is the group's word"
    while not read.codes:
        driven.answer_all()
        await asyncio.sleep(0.005)
    assert read.codes == [(Code.SUCCESS, 2)]
    driven.driver.storage_failed("the disk of its broker")
    assert driven.listener.why_left == ["the disk of its broker"]


async def test_what_happened_is_told_once_it_is_on_the_disk(driven: Driven) -> None:
    """A vote when it stands in the file, a leader's end before its driver is gone."""
    await driven.ask(vote(), look=lambda: None)
    told = driven.listener.happenings
    assert [(kind, fields["term"]) for kind, fields, _ in told] == [("MajorityVoteCast", 3)]
    assert "currTerm=3" in told[0][2] and "voteLeader=m1" in told[0][2]
    await driven.lead()
    await driven.driver.stop()
    assert [kind for kind, _, _ in told[-3:]] == [
        "MajorityLeaderElected",
        "MajorityCommitCrossedTerm",
        "MajorityLeaderOver",
    ]
    assert told[-1][1]["why"] == "it was stopped"


async def test_a_vote_that_cannot_be_saved_is_told_to_nobody(
    driven: Driven, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(state: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(driven.folder.terms, "save", refuses)
    driven.driver.request(lambda _: None, vote())
    assert driven.listener.why_left and driven.listener.happenings == []
