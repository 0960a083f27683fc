"""What every shell of a member keeps, the simulation's as well as a process's: what is on the disk
when something is said.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from brokers.majority.entry import Entry, Place
from brokers.majority.log_port import MajorityLog, TermAndVote
from brokers.majority.store.marks import parse_term
from brokers.majority.wire.codes import Code, VoteResult
from brokers.majority.wire.messages import PushResponse, Request, Response, VoteResponse
from tests.simulation.majority.group import Group, Shape
from tests.simulation.world import World
from tests.support.driven_member import Driven, push, vote

SIMULATED_S = 5


class Shell(Protocol):
    """A member of three, alone: m0."""

    @property
    def log(self) -> MajorityLog: ...
    def on_disk(self) -> TermAndVote: ...
    async def ask(self, request: Request, look: Callable[[], object]) -> Response: ...
    async def append(self, body: bytes) -> Code: ...


class Process:
    """Real files, a real loop."""

    def __init__(self, folder: Path) -> None:
        self.driven = Driven(folder / "m0")
        self.log: MajorityLog = self.driven.folder.log

    def on_disk(self) -> TermAndVote:
        return parse_term(self.driven.on_disk())

    async def ask(self, request: Request, look: Callable[[], object]) -> Response:
        return await self.driven.ask(request, look)

    async def append(self, body: bytes) -> Code:
        (future,) = await self.driven.append(body)
        return (await future)[0].code


class Simulated:
    """Files in memory, time of its own."""

    def __init__(self) -> None:
        self.world = World(21)
        self.replica = Group(self.world, Shape()).replicas[0]
        self.replica.start()
        self.log: MajorityLog = self.replica.log

    def on_disk(self) -> TermAndVote:
        return self.replica.terms.state

    async def ask(self, request: Request, look: Callable[[], object]) -> Response:
        answers: list[Response] = []

        def answer(response: Response) -> None:
            look()
            answers.append(response)

        self.replica.asked(request, answer)
        self._until(answers)
        return answers[0]

    async def append(self, body: bytes) -> Code:
        codes: list[Code] = []
        self.replica.append([body], lambda code, _index: codes.append(code))
        self._until(codes)
        return codes[0]

    def _until(self, heard: list[Any]) -> None:
        end_ms = self.world.now_ms + SIMULATED_S * 1_000
        while not heard and self.world.now_ms < end_ms:
            self.world.step()


@pytest.fixture(params=["process", "simulation"])
async def shell(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shell]:
    if request.param == "simulation":
        yield Simulated()
        return
    made = Process(tmp_path)
    yield made
    await made.driven.driver.stop()
    made.driven.folder.close()


async def test_a_vote_is_on_the_disk_when_it_is_given(shell: Shell) -> None:
    seen: list[TermAndVote] = []
    answer = await shell.ask(vote(), lambda: seen.append(shell.on_disk()))
    assert isinstance(answer, VoteResponse) and answer.result is VoteResult.ACCEPT
    assert seen == [TermAndVote(3, "m1")]


async def test_entries_are_on_the_disk_when_they_are_acknowledged(shell: Shell) -> None:
    seen: list[tuple[int, int]] = []
    entries = Entry(0, 3, 0, b"a"), Entry(1, 3, 49, b"b")
    answer = await shell.ask(
        push(*entries), lambda: seen.append((shell.log.flushed_index, shell.on_disk().term))
    )
    assert isinstance(answer, PushResponse)
    assert (answer.code, answer.count) == (Code.SUCCESS, 2)
    assert seen == [(1, 3)], "and so is the leader's term"


async def test_entries_of_another_leader_are_cut_before_the_next_ones_are_written(
    shell: Shell,
) -> None:
    await shell.ask(push(Entry(0, 3, 0, b"a"), Entry(1, 3, 49, b"b")), lambda: None)
    seen: list[Place] = []
    other = push(Entry(1, 4, 49, b"c"), term=4, previous=Place(3, 0))
    answer = await shell.ask(other, lambda: seen.append(shell.log.last))
    assert (answer.code, seen) == (Code.SUCCESS, [Place(4, 1)])
    assert [entry.body for entry in shell.log.read(0, 9, 1 << 20)] == [b"a", b"c"]


async def test_a_term_that_is_over_is_answered_with_the_own_one(shell: Shell) -> None:
    await shell.ask(vote(7), lambda: None)
    answer = await shell.ask(push(Entry(0, 3, 0, b"a")), lambda: None)
    assert (answer.code, answer.term) == (Code.EXPIRED_TERM, 7)
    assert shell.log.last == Place()


async def test_who_does_not_lead_takes_no_append(shell: Shell) -> None:
    assert await shell.append(b"a") is Code.NOT_LEADER
    assert shell.log.last == Place()
