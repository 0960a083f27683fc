"""A member of a majority group as a broker's replica, under the broker's own parts and services."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from brokers.process.memberships import open_replica
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.store.files.errors import LogError
from brokers.store.log.records import decode_messages
from brokers.store.store import MessageStore, StoreConfig
from infra.workload.client import CallFailed, WorkloadClient
from tests.support.brokers import pull_request, send_request, until
from tests.support.majority_set import MajoritySet, majority_config


async def sent(group: MajoritySet, name: str, bodies: list[bytes]) -> list[int]:
    return [(await group.ask(name, send_request("T", body))).code for body in bodies]


async def read(group: MajoritySet, name: str) -> list[bytes]:
    found: list[bytes] = []
    while True:
        answer = await group.ask(name, pull_request("T", 0, len(found)))
        if answer.code != ResponseCode.SUCCESS:
            assert answer.code == ResponseCode.PULL_NOT_FOUND, answer.remark
            return found
        found += [bytes(one.fields.body) for one in decode_messages(answer.body)]


async def test_what_is_sent_through_any_broker_outlives_its_leader(tmp_path: Path) -> None:
    async with MajoritySet(tmp_path) as group:
        first = await group.leader()
        follower = next(name for name in group.brokers if name != first)
        assert set(await sent(group, first, [b"a", b"b"])) == {0}
        assert await sent(group, follower, [b"c"]) == [0], "passed on"
        assert await read(group, first) == [b"a", b"b", b"c"]
        await group.stop(first)
        second = await group.leader()
        assert await read(group, second) == [b"a", b"b", b"c"]

        async def taken() -> bool:
            # it makes the topic of its log anew, and refuses until it is told to the others
            return await sent(group, second, [b"d"]) == [0]

        await until(taken, "it takes what is sent")
        back = await group.start(first)
        await until(lambda: back.store.log_end == group.brokers[second].store.log_end, "a copy")
        await until(lambda: back.store.dispatched_offset == back.store.log_end, "its queues")
        assert back.tables.topics.get("T") is not None


async def test_a_leader_that_is_asked_to_stop_hands_over_with_its_tables(tmp_path: Path) -> None:
    async with MajoritySet(tmp_path) as group:
        first = await group.leader()
        await sent(group, first, [b"a"])
        term = group.brokers[first].roles.current.master_epoch
        await group.stop(first, hand_over=True)
        second = await group.leader()
        now = group.brokers[second].roles.current
        assert now.master_epoch == term + 1, "one election, at its word"
        assert await sent(group, second, [b"b"]) == [0]


async def test_brokers_say_what_they_are(tmp_path: Path) -> None:
    async with MajoritySet(tmp_path) as group:
        leader = await group.leader()
        (follower, _) = (name for name in group.brokers if name != leader)
        await until(lambda: len(group.brokers[leader].status().sync_state_set) == 3, "all follow")
        shown = group.brokers[leader].status()
        assert (shown.ready, shown.role, shown.ack_mode) == (True, "MASTER", "majority")
        assert shown.broker_id == int(leader[1:]) + 1 and shown.role_id == 0
        entry, other = (group.brokers[name].switch.route_entry() for name in (leader, follower))
        assert entry is not None and entry.broker_id == 0
        assert other is not None and other.broker_id == int(follower[1:]) + 1
        ask = RemotingCommand.request(RequestCode.REGENT_CHANGE_OVER, {"regentWord": "look"})
        answer = await group.ask(leader, ask)
        assert answer.code and "majority" in (answer.remark or "")
        table = await group.ask(leader, RemotingCommand.request(RequestCode.GET_BROKER_CONFIG))
        assert b"enableDLegerCommitLog=true" in table.body
        assert b"enableControllerMode=false" in table.body


@pytest.mark.parametrize("name", ["brokerIdentity", "epochFileCheckpoint", "placeInSet"])
def test_a_folder_of_an_in_sync_set_is_refused_by_name(tmp_path: Path, name: str) -> None:
    config = majority_config(tmp_path, {"n0": "127.0.0.1:1"}, "n0")
    config.store_dir.mkdir()
    (config.store_dir / name).write_text("x")
    with pytest.raises(LogError, match=f"in-sync set.*{name}.*empty folder"):
        open_replica(config)
    assert not list(config.store_dir.glob("dledger*"))


def test_a_folder_of_a_majority_group_is_refused_by_the_other_kind(tmp_path: Path) -> None:
    config = majority_config(tmp_path, {"n0": "127.0.0.1:1"}, "n0")
    open_replica(config).close()
    with pytest.raises(LogError, match="majority group"):
        MessageStore(config.store_dir, StoreConfig())
    open_replica(config).close()


async def test_old_files_go_up_to_what_is_committed_and_the_rest_is_read(tmp_path: Path) -> None:
    async with MajoritySet(tmp_path, 1, commit_log_file_bytes=1 << 16) as group:
        name = await group.leader()
        broker = group.brokers[name]
        bodies = [b"%03d" % number * 2_000 for number in range(40)]
        assert set(await sent(group, name, bodies)) == {0}
        wanted = broker.replica.wanted_offset()
        assert wanted is not None and broker.store.log_end - (1 << 13) < wanted
        broker.store.checkpoint()
        broker.retention.policy = replace(broker.retention.policy, reserved_ms=0)
        broker.retention._held = replace(broker.retention._held, ran_ms=1)
        await broker.retention.clean(whatever_hour=True)
        assert 0 < broker.store.log_min <= wanted
        answer = await group.ask(name, pull_request("T", 0, 39))
        assert bodies[-1] in answer.body


async def test_a_client_with_a_route_follows_another_leader(
    tmp_path: Path, name_server: str
) -> None:
    quick = {"majority_heartbeat_ms": 300, "majority_heartbeats_missed_max": 6}
    async with MajoritySet(tmp_path, name_servers=[name_server], **quick) as group:
        await group.leader()
        async with WorkloadClient([name_server], "T", "p", timeout_ms=5_000) as client:
            acknowledged: list[bytes] = []

            async def send(count: int) -> None:
                for _ in range(count):
                    body = b"body-%d" % len(acknowledged)
                    while True:
                        try:
                            await client.send(body.decode(), body, 0)
                            break
                        except CallFailed:
                            await client.refresh()
                            await asyncio.sleep(0.02)
                    acknowledged.append(body)

            await send(20)
            first = await group.leader()
            assert client.master() == group.configs[first].advertised
            await group.kill(first)
            await send(20)
            assert client.master() != group.configs[first].advertised
            pulled = await client.pull(0, 0)
            found = [bytes(one.fields.body) for one in pulled.messages]
            while len(found) < 40:
                pulled = await client.pull(0, pulled.next_offset)
                found += [bytes(one.fields.body) for one in pulled.messages]
            assert list(dict.fromkeys(found)) == acknowledged
            await group.start(first)
            await send(20)
