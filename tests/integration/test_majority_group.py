"""Three members of a majority group as processes: the leader is killed, paused, killed with entries
that nobody else has, and comes back; a follower comes back empty. What was acknowledged is in every
log, and the logs are one.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.majority.wire.codes import NOT_APPENDED, Code
from tests.support.majority_group import GroupClient, MemberProgram, addresses

pytestmark = pytest.mark.processes
# An append that no majority takes is answered so soon.
SETTINGS = {"append_wait_ms": 400, "heartbeat_ms": 250}
AT_A_TIME = 40


class Group:
    def __init__(self, folder: Path) -> None:
        names = addresses(3)
        self.members = {name: MemberProgram(folder, names, name, **SETTINGS) for name in names}
        self.client = GroupClient(names)
        self.sent = 0

    async def append(self, count: int = AT_A_TIME) -> None:
        for _ in range(count):
            self.sent += 1
            await self.client.append(b"%d" % self.sent)

    def others(self, leader: str) -> list[str]:
        return [name for name in self.members if name != leader]

    async def back(self, name: str) -> None:
        """It is started, and has everything."""
        await self.members[name].start()
        await self.client.whole()


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    made = Group(tmp_path)
    await asyncio.gather(*(one.start() for one in made.members.values()))
    yield made
    await made.client.close()
    for one in made.members.values():
        await one.end()


async def test_nothing_acknowledged_is_lost_and_logs_are_one(group: Group) -> None:
    client = group.client
    leader = await client.leader()
    await group.append()

    # The leader is killed, and comes back behind another one.
    await group.members[leader].end()
    await group.append()
    await group.back(leader)

    # The leader goes on alone: what it writes then is acknowledged to nobody, and is cut.
    leader = await client.leader()
    for name in group.others(leader):
        group.members[name].tell(signal.SIGSTOP)
    alone = await asyncio.gather(*(client.append_at(leader, b"alone") for _ in range(5)))
    assert {one.code for one in alone if one is not None}.isdisjoint({Code.SUCCESS, *NOT_APPENDED})
    await group.members[leader].end()
    for name in group.others(leader):
        group.members[name].tell(signal.SIGCONT)
    await group.append()
    await group.back(leader)

    # The leader stands still, and wakes as a follower of another one.
    leader = await client.leader()
    group.members[leader].tell(signal.SIGSTOP)
    await client.leader(group.others(leader))
    await group.append()
    group.members[leader].tell(signal.SIGCONT)
    await client.whole()

    # A follower comes back with an empty disk.
    emptied = group.others(await client.leader())[0]
    await group.members[emptied].end()
    shutil.rmtree(group.members[emptied].config.store_dir)
    await group.append()
    await group.back(emptied)

    # All of them are killed at once.
    for one in group.members.values():
        await one.end()
    logs = {name: one.identities() for name, one in group.members.items()}
    assert len(client.acknowledged) + client.unknown >= 5 * AT_A_TIME
    assert [client.lost(log) for log in logs.values()] == [[], [], []]
    same = min(map(len, logs.values()))
    assert {tuple(log[:same]) for log in logs.values()} == {tuple(next(iter(logs.values()))[:same])}
    assert same > max(client.acknowledged)


async def test_a_leader_that_is_stopped_in_order_leaves_no_gap(group: Group) -> None:
    client = group.client
    leader = await client.leader()
    await group.append(5)
    ends = asyncio.ensure_future(group.members[leader].end(signal.SIGTERM))
    await group.append()
    assert await ends == 0
    assert "handing over to" in group.members[leader].said()
    await client.whole(group.others(leader))
