"""A member put together: with files, a port, peers and the clock of a real loop."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from brokers.majority.entry import Place
from brokers.majority.quorum.standing import Role
from brokers.majority.wire.codes import Code
from brokers.majority.wire.messages import MetadataRequest, MetadataResponse
from brokers.process.majority.member import MemberProcess, OpenedFolder
from tests.support.brokers import until
from tests.support.majority_group import (
    GROUP,
    GroupClient,
    addresses,
    identities,
    member_config,
    running_member,
)


@asynccontextmanager
async def group(
    folder: Path, count: int, **changes: object
) -> AsyncIterator[tuple[dict[str, MemberProcess], GroupClient]]:
    members = addresses(count)
    running = {
        name: await running_member(member_config(folder / name, members, name, **changes))
        for name in members
    }
    client = GroupClient(members)
    try:
        yield running, client
    finally:
        await client.close()
        for member in running.values():
            await member.stop()


async def test_a_group_elects_a_leader_and_keeps_what_it_acknowledges(tmp_path: Path) -> None:
    async with group(tmp_path, 3) as (members, client):
        leader = await client.leader()
        indexes = [await client.append(b"%d" % number) for number in range(20)]
        assert indexes == list(range(1, 21)), "the first entry is the leader's own"
        found = await client.get(leader, 7)
        assert found is not None and found.body == b"6"
        follower = next(name for name in members if name != leader)
        refused = await client.append_at(follower, b"no")
        assert refused is not None
        assert (refused.code, refused.index, refused.leader_id) == (Code.NOT_LEADER, -1, leader)
        await client.whole()
    logs = [identities(tmp_path / name, one.config) for name, one in members.items()]
    # Who stops hands over, and the next leader begins its term.
    same = min(map(len, logs))
    assert same > 20 and {tuple(log[:same]) for log in logs} == {tuple(logs[0][:same])}
    assert [client.lost(log) for log in logs] == [[], [], []]


async def test_what_is_not_committed_is_not_read(tmp_path: Path) -> None:
    async with group(tmp_path, 1) as (members, client):
        await client.append(b"one")
        assert (await client.get("n0", 1)) is not None
        assert (await client.get("n0", 2)) is None
        assert (await client.get("n0", -1)) is None
        assert members["n0"].driver.core.committed == 1


async def test_clients_are_told_where_everybody_is(tmp_path: Path) -> None:
    async with group(tmp_path, 1) as (_, client):
        await client.leader()
        said = await client.ask("n0", MetadataRequest(group=GROUP, remote_id="n0"))
        assert isinstance(said, MetadataResponse)
        assert (said.peers, said.leader_id) == (client.members, "n0")
        assert said.end == Place(said.term, 0)
        other = await client.ask("n0", MetadataRequest(group="other", remote_id="n0"))
        assert isinstance(other, MetadataResponse)
        assert (other.code, other.peers) == (Code.UNKNOWN_GROUP, {})


async def test_a_leader_that_is_stopped_hands_over_first(tmp_path: Path) -> None:
    async with group(tmp_path, 3, heartbeat_ms=5_000) as (members, client):
        leader = await client.leader()
        await client.append(b"before")
        stopped = members.pop(leader)
        await stopped.stop()
        # Nobody would have missed its heartbeats for 20 s.
        other = await client.leader(list(members))
        assert other != leader
        assert await client.append(b"after", within_s=5) is not None


async def test_who_is_preferred_leads_after_a_while(tmp_path: Path) -> None:
    async with group(tmp_path, 3, preferred_leader_ids="n2") as (_, client):
        await client.append(b"one")

        async def leads() -> bool:
            return await client.leader() == "n2"

        await until(leads, "n2 leads")
        assert await client.append(b"two") is not None


async def test_terms_votes_and_entries_outlive_a_start(tmp_path: Path) -> None:
    async with group(tmp_path, 1) as (members, client):
        await client.append(b"one")
        term = members["n0"].driver.core.standing.term
        config = members["n0"].config
    again = await running_member(config)
    try:
        assert again.opened.boot.reason == "flushed_exit"
        await until(lambda: again.driver.core.ready, "it leads again")
        assert again.driver.core.standing.term == term + 1
        assert again.opened.folder.log.get(1).body == b"one"  # type: ignore[union-attr]
    finally:
        await again.stop()


async def test_a_member_whose_disk_refuses_leaves_and_the_next_start_knows(tmp_path: Path) -> None:
    members = addresses(1)
    config = member_config(tmp_path, members, "n0")
    member = await running_member(config)
    client = GroupClient(members)
    try:
        assert await client.append(b"one") == 1
        log = member.opened.folder.log
        log.data.fail("flush", OSError(5, "Input/output error"))
        answer = await client.append_at("n0", b"two")
        assert answer is not None and answer.code not in (Code.SUCCESS, Code.DISK_FULL)
        await until(lambda: member.driver.core.left, "it has left")
        assert member.driver.core.standing.role is Role.CANDIDATE
    finally:
        await client.close()
        await member.stop()
    again = OpenedFolder(config)
    assert again.boot.reason == "io_error"
    assert again.folder.log.last.index >= 1
    again.close(failed=False)
