"""Who may join the set: a replica whose copy of the tables holds every change that was answered as
done.
"""

import asyncio

import pytest

from brokers.remoting.calls import CallTimeout
from brokers.remoting.command import RemotingCommand
from brokers.replica.effects import RoleChanged
from brokers.service.metadata import joiner_tables
from brokers.service.metadata.held_by_members import HeldByMembers
from brokers.service.metadata.joiner_tables import JoinerTables
from brokers.service.role.role_view import RoleView
from tests.support.brokers import until


class Around:
    """A master; how its replicas answer, and what time it is, is the test's."""

    def __init__(self) -> None:
        self.roles, self.now = RoleView(), 0
        self.addresses = {2: "h:2", 3: ""}
        self.held = HeldByMembers(self.roles, self, self, dict)  # type: ignore[arg-type]
        self.joiners = JoinerTables(self.roles, self.held, self, self, lambda: self.addresses)  # type: ignore[arg-type]
        self.asked: list[tuple[int, str, str]] = []
        self.code = 0
        self.lead(3)

    def lead(self, epoch: int) -> None:
        self.roles.changed(RoleChanged("MASTER", epoch, 1, "h:1", (1,), 1))

    def now_ms(self) -> int:
        return self.now

    async def call(
        self, address: str, request: RemotingCommand, _timeout_ms: int
    ) -> RemotingCommand:
        self.asked.append((request.code, address, request.ext["regentMasterEpoch"]))
        await asyncio.sleep(0)
        if self.code < 0:
            raise CallTimeout("no answer")
        return request.reply(self.code, remark="not all")

    async def has_tables(self) -> bool:
        """After what was asked is answered."""
        before = self.joiners.has_tables(2)
        await until(lambda: not self.joiners._asking, "it answered")
        return before or self.joiners.has_tables(2)


async def test_a_joiner_copies_the_tables_once() -> None:
    around = Around()
    assert not around.joiners.has_tables(2)
    assert await around.has_tables() and around.joiners.has_tables(2)
    assert around.asked == [(19012, "h:2", "3")]


async def test_a_change_that_was_begun_since_asks_for_another_copy() -> None:
    around = Around()
    assert await around.has_tables()
    around.held.begun += 1
    around.now += joiner_tables.AGAIN_MS
    assert not around.joiners.has_tables(2) and await around.has_tables() and len(around.asked) == 2


async def test_a_change_that_was_begun_while_it_copied_counts_as_missing() -> None:
    around = Around()
    assert not around.joiners.has_tables(2)
    await asyncio.sleep(0)
    around.held.begun += 1
    await until(lambda: not around.joiners._asking, "it answered")
    assert not around.joiners.has_tables(2)


async def test_another_mastership_asks_anew() -> None:
    around = Around()
    assert await around.has_tables()
    around.lead(4)
    assert (
        not around.joiners.has_tables(2)
        and await around.has_tables()
        and around.asked[-1][2] == "4"
    )


async def test_java_replicas_and_those_without_an_address_join_as_ever() -> None:
    around = Around()
    assert around.joiners.has_tables(3) and around.asked == []
    around.code = 3
    assert await around.has_tables()
    around.held.begun += 1
    assert around.joiners.has_tables(2) and len(around.asked) == 1


@pytest.mark.parametrize("code", [1, -1])
async def test_a_replica_that_cannot_copy_is_asked_again_and_joins_after_a_bounded_time(
    code: int,
) -> None:
    around = Around()
    around.code = code
    for _ in range(3):
        assert not await around.has_tables()
        around.now += joiner_tables.AGAIN_MS
    assert len(around.asked) == 3
    around.now += joiner_tables.FIRST_COPY_MS
    assert around.joiners.has_tables(2)
    await around.joiners.close()


async def test_before_the_role_is_taken_nobody_is_asked() -> None:
    around = Around()
    around.roles.changed(RoleChanged("FENCED", 5, None, None, (), 0))
    assert not around.joiners.has_tables(2) and around.asked == []
