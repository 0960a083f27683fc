"""In which order a member hears and its effects are carried out."""

from __future__ import annotations

import pytest

from brokers.majority.quorum.effects import Commit, Effect, LeaderReady
from brokers.majority.quorum.turns import Step, Turns
from tests.support.majority_member import OneMember


class Shell:
    """Notes what it carries out. `heard`: what an index of Commit leads to."""

    def __init__(self) -> None:
        self.done: list[int] = []
        self.heard: dict[int, list[Effect]] = {}
        self.then: dict[int, Step] = {}
        self.fails_at = -1
        self.turns = Turns(OneMember().core, self.do)

    def do(self, effect: Effect) -> Step | None:
        assert isinstance(effect, Commit)
        if effect.index == self.fails_at:
            raise OSError("the disk")
        self.done.append(effect.index)
        if effect.index in self.then:
            self.turns.hear(self.then[effect.index])
        heard = self.heard.get(effect.index)
        return None if heard is None else lambda _: heard


def commits(*indexes: int) -> list[Effect]:
    return [Commit(index) for index in indexes]


def test_what_is_heard_of_an_effect_comes_behind_all_of_them() -> None:
    shell = Shell()
    shell.heard = {1: commits(10, 11), 2: commits(20), 10: commits(100)}
    shell.turns.hear(lambda _: commits(1, 2, 3))
    assert shell.done == [1, 2, 3, 10, 11, 100, 20]


def test_an_input_that_comes_meanwhile_waits_until_all_is_carried_out() -> None:
    shell = Shell()
    shell.then = {1: lambda _: commits(9)}
    shell.heard = {1: commits(5)}
    shell.turns.hear(lambda _: commits(1, 2))
    assert shell.done == [1, 2, 5, 9]


def test_an_effect_that_fails_ends_those_behind_it_and_no_other_input() -> None:
    shell = Shell()
    shell.fails_at = 2
    shell.heard = {1: commits(5)}
    shell.then = {1: lambda _: commits(9)}
    with pytest.raises(OSError, match="the disk"):
        shell.turns.hear(lambda _: commits(1, 2, 3))
    assert shell.done == [1], "nothing behind it, nor what was to be heard"
    shell.turns.hear_first(lambda _: commits(7))
    assert shell.done == [1, 7, 9], "the failure before the input that waits"


def test_a_member_hears_that_it_leads_when_its_first_entry_is_in_the_log() -> None:
    member = OneMember()
    member.lead()
    order = [name for name in member.order if name in ("RoleChanged", "AppendAsLeader", "Flush")]
    assert order[-2:] == ["AppendAsLeader", "Flush"]
    assert LeaderReady.__name__ not in member.order, "nobody else has it yet"
