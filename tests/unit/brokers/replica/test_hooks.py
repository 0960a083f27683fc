"""Telling the broker: roles in order, one result per proposal."""

from __future__ import annotations

import asyncio

from brokers.replica.effects import ProposeSyncSet, RoleChanged
from brokers.replica.hooks import AlterResult, BrokerTeller, ReplicaHooks, command_id

EFFECT = ProposeSyncSet(4, (1, 2), 7, 3)


def role(epoch: int) -> RoleChanged:
    return RoleChanged("SLAVE", epoch, 1, None, (), 0)


def teller(
    on_role_changed=None, propose=None
) -> tuple[BrokerTeller, list[tuple[int, AlterResult]]]:
    async def nothing(*_: object) -> AlterResult:
        return AlterResult(None)

    results: list[tuple[int, AlterResult]] = []
    hooks = ReplicaHooks(
        on_role_changed or nothing,
        propose or nothing,
        lambda elect: None,
        lambda offset: None,
        lambda kind, fields: None,
    )
    return BrokerTeller(hooks, lambda token, result: results.append((token, result))), results


async def drained(told: BrokerTeller) -> None:
    while told._tasks:
        await asyncio.sleep(0)


async def test_roles_are_told_one_after_the_other_even_when_one_fails() -> None:
    heard: list[str] = []

    async def follow(change: RoleChanged) -> None:
        heard.append(f"begin {change.master_epoch}")
        await asyncio.sleep(0)
        if change.master_epoch == 2:
            raise RuntimeError("the broker stumbled")
        heard.append(f"end {change.master_epoch}")

    told, _ = teller(on_role_changed=follow)
    for epoch in (1, 2, 3):
        told.role_changed(role(epoch))
    await drained(told)
    assert heard == ["begin 1", "end 1", "begin 2", "begin 3", "end 3"]
    told.role_changed(role(4))
    await drained(told)
    assert heard[-1] == "end 4"


async def test_a_proposal_gets_the_controllers_answer() -> None:
    asked: list[tuple[ProposeSyncSet, str]] = []

    async def propose(effect: ProposeSyncSet, command: str) -> AlterResult:
        asked.append((effect, command))
        return AlterResult(0, (1, 2), 8, 3)

    told, results = teller(propose=propose)
    told.propose(EFFECT, "life")
    await drained(told)
    assert results == [(4, AlterResult(0, (1, 2), 8, 3))]
    assert asked == [(EFFECT, command_id("life", 4))]


async def test_a_failed_proposal_is_an_unknown_one() -> None:
    async def propose(effect: ProposeSyncSet, command: str) -> AlterResult:
        raise ConnectionError("no controller")

    told, results = teller(propose=propose)
    told.propose(EFFECT, "life")
    await drained(told)
    assert results == [(4, AlterResult(None))]


async def test_stopping_ends_what_is_under_way() -> None:
    async def propose(effect: ProposeSyncSet, command: str) -> AlterResult:
        await asyncio.Event().wait()
        return AlterResult(0)

    told, results = teller(propose=propose)
    told.propose(EFFECT, "life")
    await asyncio.sleep(0)
    await told.stop()
    assert results == []


def test_a_command_id_is_that_of_its_proposal_alone() -> None:
    assert command_id("a", 1) == command_id("a", 1)
    assert len({command_id("a", 1), command_id("a", 2), command_id("b", 1)}) == 3
    assert len(bytes.fromhex(command_id("a", 1))) == 16


async def test_a_role_change_that_cannot_be_followed_ends_the_process() -> None:
    async def stumble(change: RoleChanged) -> None:
        raise RuntimeError("the queues cannot be read")

    async def unused(*_: object) -> AlterResult:
        return AlterResult(None)

    broken: list[BaseException] = []
    hooks = ReplicaHooks(
        stumble,
        unused,
        lambda elect: None,
        lambda offset: None,
        lambda kind, fields: None,
        on_broken=broken.append,
    )
    told = BrokerTeller(hooks, lambda token, result: None)
    told.role_changed(role(1))
    await drained(told)
    assert [str(error) for error in broken] == ["the queues cannot be read"]
