"""The role as the services see it."""

import asyncio

from brokers.replica.effects import RoleChanged
from brokers.service.role.role_view import RoleView


async def test_only_a_master_serves_and_only_a_slave_has_another_master() -> None:
    roles = RoleView()
    assert not roles.serving and roles.master_address is None and roles.role == "FENCED"
    roles.changed(RoleChanged("MASTER", 1, 1, "me:1", (1,), 1))
    assert roles.serving and roles.master_address is None
    roles.changed(RoleChanged("SLAVE", 2, 2, "other:1", (1, 2), 2))
    assert not roles.serving and roles.master_address == "other:1"


async def test_who_waits_is_woken_by_a_change_or_by_time() -> None:
    roles = RoleView()
    waiting = asyncio.ensure_future(roles.wait_change(60_000))
    await asyncio.sleep(0)
    roles.changed(RoleChanged("SLAVE", 1, 2, "other:1", (1, 2), 1))
    await waiting
    await roles.wait_change(1)


async def test_while_draining_only_writes_wait_and_its_end_wakes_them() -> None:
    roles = RoleView()
    roles.drain(True)
    assert not roles.serves(writes=False)
    roles.changed(RoleChanged("MASTER", 1, 1, "me:1", (1,), 1))
    assert roles.serves(writes=True)
    roles.drain(True)
    assert roles.serving and roles.serves(writes=False) and not roles.serves(writes=True)
    waiting = asyncio.ensure_future(roles.wait_change(60_000))
    await asyncio.sleep(0)
    roles.drain(False)
    await waiting
    assert roles.serves(writes=True)


async def test_behind_a_changeover_writes_wait_whatever_the_role_until_the_set_is_there() -> None:
    roles = RoleView()
    roles.gather(True)
    roles.changed(RoleChanged("MASTER", 2, 1, "me:1", (1,), 1))
    assert roles.serves(writes=False) and not roles.serves(writes=True)
    waiting = asyncio.ensure_future(roles.wait_change(60_000))
    await asyncio.sleep(0)
    roles.gather(False)
    await waiting
    assert roles.serves(writes=True)


async def test_a_life_that_is_over_has_no_role_and_who_waits_hears_who_takes_it() -> None:
    roles = RoleView()
    roles.changed(RoleChanged("MASTER", 1, 1, "me:1", (1,), 1))
    waiting = asyncio.ensure_future(roles.wait_change(60_000))
    await asyncio.sleep(0)
    roles.over(lambda _connection, request: request.reply())
    await waiting
    assert roles.role == "FENCED" and not roles.serves(writes=False) and roles.successor is not None
