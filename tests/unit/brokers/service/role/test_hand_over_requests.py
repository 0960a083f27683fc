"""19012: a wish, or a master's word to the member that takes over."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.replica.effects import RoleChanged
from brokers.service.role.hand_over import Refused
from brokers.service.role.hand_over_requests import HandOverRequests, take_tables
from brokers.service.role.role_view import RoleView


@dataclass(frozen=True, slots=True)
class Outcome:
    master_id: int
    master_address: str
    master_epoch: int


class Bench:
    """The handler, and what it asked for."""

    def __init__(self) -> None:
        self.roles = RoleView()
        self.wished: list[int | None] = []
        self.copied: list[tuple[str, int]] = []
        self.refusal: str | None = None
        self.not_copied: str | None = None
        self.requests = HandOverRequests(
            self.roles, lambda peer: peer.startswith("10.0.0."), self._hand_over, self._copy
        )

    async def _hand_over(self, target: int | None) -> Outcome:
        self.wished.append(target)
        if self.refusal is not None:
            raise Refused(self.refusal)
        return Outcome(target or 2, "h:2", 7)

    async def _copy(self, master: str, epoch: int) -> str | None:
        self.copied.append((master, epoch))
        return self.not_copied

    async def ask(self, request: RemotingCommand, peer: str = "10.0.0.7:40000") -> RemotingCommand:
        answer = self.requests.serve(SimpleNamespace(peer=peer), request)  # type: ignore[arg-type]
        found = answer if isinstance(answer, RemotingCommand) else await answer  # type: ignore[misc]
        assert found is not None
        return found


@pytest.mark.parametrize(("ext", "target"), [({}, None), ({"targetBrokerId": "3"}, 3)])
async def test_a_wish_is_answered_with_who_leads(ext: dict[str, str], target: int | None) -> None:
    bench = Bench()
    answer = await bench.ask(RemotingCommand.request(19012, ext))
    assert bench.wished == [target] and bench.copied == []
    assert (answer.code, answer.ext) == (
        0,
        {"masterBrokerId": str(target or 2), "masterAddress": "h:2", "masterEpoch": "7"},
    )


@pytest.mark.parametrize("ext", [{}, {"targetBrokerId": "3"}, {"regentMasterEpoch": "1"}])
async def test_a_stranger_moves_no_mastership_and_makes_nobody_copy(ext: dict[str, str]) -> None:
    bench = Bench()
    answer = await bench.ask(RemotingCommand.request(19012, ext), "6.6.6.6:40000")
    assert answer.code == 16 and "6.6.6.6" in str(answer.remark)
    assert bench.wished == [] and bench.copied == []


async def test_a_refusal_is_told_with_its_reason() -> None:
    bench = Bench()
    bench.refusal = "no other member is in sync"
    answer = await bench.ask(RemotingCommand.request(19012))
    assert (answer.code, answer.remark) == (1, "no other member is in sync")


async def test_a_target_that_is_no_number_is_refused() -> None:
    bench = Bench()
    assert (
        await bench.ask(RemotingCommand.request(19012, {"targetBrokerId": "two"}))
    ).code == 1 and bench.wished == []


async def test_a_slave_copies_the_tables_of_the_master_it_follows() -> None:
    bench = Bench()
    bench.roles.changed(RoleChanged("SLAVE", 4, 1, "master:1", (1, 2), 4))
    assert (
        (await bench.ask(take_tables(4))).code == 0
        and bench.copied == [("master:1", 4)]
        and bench.wished == []
    )


async def test_a_slave_that_is_asked_to_stop_itself_copies_but_does_not_take_over() -> None:
    bench = Bench()
    bench.roles.changed(RoleChanged("SLAVE", 4, 1, "master:1", (1, 2), 4))
    bench.roles.leaving = True
    answer = await bench.ask(take_tables(4, to_lead=True))
    assert (answer.code, answer.remark) == (1, "it is asked to stop itself")
    assert (await bench.ask(take_tables(4))).code == 0 and bench.copied == [("master:1", 4)]


async def test_a_slave_that_could_not_copy_every_table_says_so() -> None:
    bench = Bench()
    bench.roles.changed(RoleChanged("SLAVE", 4, 1, "master:1", (1, 2), 4))
    bench.not_copied = "table 43: no answer"
    answer = await bench.ask(take_tables(4))
    assert (answer.code, answer.remark) == (1, "table 43: no answer")


async def test_the_word_of_another_mastership_is_refused() -> None:
    bench = Bench()
    assert (await bench.ask(take_tables(4))).code == 1
    bench.roles.changed(RoleChanged("SLAVE", 5, 1, "master:1", (1, 2), 5))
    assert (await bench.ask(take_tables(4))).code == 1 and bench.copied == []
