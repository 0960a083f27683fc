"""Brokers of one majority group as processes of their own, and what their logs hold."""

from __future__ import annotations

import asyncio
from pathlib import Path

from infra.processes.status import ask_all
from tests.support.broker_program import BrokerProgram
from tests.support.brokers import free_port
from tests.support.majority_group import Identity, identities, member_config, peers_text

SET = "majority"
FILE_BYTES = 1 << 20
SETTINGS = """
cluster_name = "regent"
broker_name = "majority"
replication = "majority"
majority_self_id = "n{broker_id}"
majority_peers = "PEERS"
majority_heartbeat_ms = 250
majority_vote_pause_min_ms = 50
majority_vote_pause_max_ms = 250
listen = "127.0.0.1:{port}"
ha_listen = "127.0.0.1:{ha_port}"
second_listen = false
store_dir = "{folder}/store"
name_servers = ["{name_server}"]
commit_log_file_bytes = 1048576
name_server_register_ms = 1000
replica_poll_ms = 200
disk_clean_forcibly_percent = 100
disk_full_percent = 100
route_poll_ms = 500
"""


class MajorityBrokers:
    """`programs` by member id."""

    def __init__(self, folder: Path, name_server: str, count: int = 3) -> None:
        names = [f"n{number}" for number in range(count)]
        self.members = {name: f"127.0.0.1:{free_port()}" for name in names}
        settings = SETTINGS.replace("PEERS", peers_text(self.members))
        self.programs = {
            name: BrokerProgram(folder, number, name_server, settings)
            for number, name in enumerate(names)
        }

    async def start(self, *names: str) -> None:
        for name in names or self.programs:
            await self.programs[name].start()

    async def end(self) -> None:
        for one in self.programs.values():
            await one.end()

    async def leading(self) -> list[str]:
        """Who says that it leads."""
        asked = {one.address: name for name, one in self.programs.items()}
        answers = await asyncio.to_thread(ask_all, list(asked))
        return [
            name
            for address, name in asked.items()
            if (answers.get(address) or {}).get("role") == "MASTER"
        ]

    def log(self, name: str) -> list[Identity]:
        """Of a broker that has ended."""
        config = member_config(
            self.programs[name].folder / "store", self.members, name,
            data_file_bytes=FILE_BYTES, index_file_bytes=FILE_BYTES,
        )  # fmt: skip
        return identities(config.store_dir, config)
