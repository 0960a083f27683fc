"""Broker processes of one majority group in the test's own loop, each made as `regent broker` does.

No election by silence: a machine that keeps the loop waiting is no lost leader.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from brokers.process.broker import BrokerProcess
from brokers.process.config import BrokerConfig
from brokers.process.majority.replica import MajorityReplica
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from tests.support.brokers import free_port, start_broker, until
from tests.support.majority_group import peers_text

QUICK: dict[str, object] = {
    "replication": "majority",
    "broker_name": "majority",
    "majority_heartbeat_ms": 2_000,
    "majority_heartbeats_missed_max": 20,
    "majority_vote_pause_min_ms": 20,
    "majority_vote_pause_max_ms": 150,
    "second_listen": False,
    "commit_log_file_bytes": 1 << 20,
    "consume_queue_file_entries": 1_000,
    "disk_clean_forcibly_percent": 100,
    "disk_full_percent": 100,
    "replica_poll_ms": 100,
    "metadata_sync_ms": 200,
    "name_server_register_ms": 1_000,
    "route_poll_ms": 0,
    "ack_timeout_ms": 20_000,
}


def majority_config(
    folder: Path, peers: dict[str, str], self_id: str, **changes: object
) -> BrokerConfig:
    given = {
        "majority_self_id": self_id,
        "majority_peers": peers_text(peers),
        "store_dir": folder / self_id,
        "listen": f"127.0.0.1:{free_port()}",
        "ha_listen": f"127.0.0.1:{free_port()}",
    }
    return BrokerConfig.model_validate({**QUICK, **given, **changes})


class MajoritySet:
    """`brokers` by member id: those that run."""

    def __init__(self, folder: Path, count: int = 3, **settings: object) -> None:
        peers = {f"n{number}": f"127.0.0.1:{free_port()}" for number in range(count)}
        self.configs = {name: majority_config(folder, peers, name, **settings) for name in peers}
        self.brokers: dict[str, BrokerProcess] = {}
        self.client = RemotingClient()

    async def __aenter__(self) -> MajoritySet:
        for name in self.configs:
            await self.start(name)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()
        for name in list(self.brokers):
            await self.stop(name)

    async def start(self, name: str) -> BrokerProcess:
        """Again, if it was there before."""
        self.brokers[name] = await start_broker(self.configs[name])
        return self.brokers[name]

    async def stop(self, name: str, *, hand_over: bool = False) -> None:
        broker = self.brokers[name]
        if hand_over:
            await broker.hand_over.before_stop()
        del self.brokers[name]
        await broker.stop("asked to")

    async def kill(self, name: str) -> None:
        """It says no more: nothing is handed over, and its ports are closed."""
        broker = self.brokers.pop(name)
        replica = broker.replica
        assert isinstance(replica, MajorityReplica) and replica.member is not None
        member = replica.member
        await member.driver.stop()
        await asyncio.gather(member.server.close(), member._peers.close(), broker.opening.close())
        replica.member.end = _nothing  # type: ignore[method-assign]
        await broker.stop("killed")

    async def leader(self, *, but: str = "") -> str:
        """Who serves as master, and all others that run follow it."""
        found: list[str] = []

        def agree() -> bool:
            leads = {
                name for name, one in self.brokers.items() if one.roles.serving and name != but
            }
            if len(leads) != 1:
                return False
            found[:] = leads
            address = self.configs[found[0]].advertised
            others = [one for name, one in self.brokers.items() if name != found[0]]
            return all(one.roles.master_address == address for one in others)

        await until(agree, "one of them leads, and the others follow")
        return found[0]

    async def ask(
        self, name: str, request: RemotingCommand, timeout_ms: int = 20_000
    ) -> RemotingCommand:
        return await self.client.call(self.configs[name].advertised, request, timeout_ms)


async def _nothing() -> None:
    return
