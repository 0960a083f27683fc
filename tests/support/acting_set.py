"""Brokers of one set without controllers, whose slaves act for the master, in processes of their
own; what clients and name servers see of them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from tests.support.broker_program import BrokerProgram
from tests.support.brokers import until

BROKER_SET, CLUSTER = "acting-set", "regent"
SETTINGS = """
cluster_name = "regent"
broker_name = "acting-set"
broker_id = {broker_id}
listen = "127.0.0.1:{port}"
ha_listen = "127.0.0.1:{ha_port}"
second_listen = false
store_dir = "{folder}/store"
name_servers = ["{name_server}"]
enable_slave_acting_master = true
total_replicas = 3
slave_read_enable = true
broker_not_active_ms = 5000
heartbeat_interval_ms = 200
member_group_poll_ms = 200
metadata_sync_ms = 500
in_sync_replicas = 2
commit_log_file_bytes = 1048576
ack_timeout_ms = 20000
disk_clean_forcibly_percent = 100
disk_full_percent = 100
"""


class ActingBroker(BrokerProgram):
    """Of the set. `more`: lines of its settings."""

    def __init__(self, folder: Path, broker_id: int, name_server: str, more: str = "") -> None:
        super().__init__(folder, broker_id, name_server, SETTINGS + more)


class ActingSetView:
    """What a client sees of the set."""

    def __init__(self, client: RemotingClient, name_server: str) -> None:
        self._client, self._name_server = client, name_server

    async def route(self, topic: str) -> dict[str, Any]:
        """Of the one set: addresses by id (text), and what is allowed; empty without a route."""
        ask = RemotingCommand.request(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic, "acceptStandardJsonOnly": "true"}
        )
        answer = await self._client.call(self._name_server, ask, 3_000)
        if answer.code:
            return {}
        body = fastjson.loads(answer.body)
        queues = body["queueDatas"][0]
        return {"addresses": body["brokerDatas"][0]["brokerAddrs"], "perm": queues["perm"]}

    async def leads(self, topic: str) -> tuple[str | None, int]:
        """(who stands in the route as the master, what is allowed there)."""
        found = await self.route(topic)
        return (found["addresses"].get("0"), found["perm"]) if found else (None, 0)

    async def members(self) -> dict[str, str]:
        """Who is registered, by id."""
        ext = {"clusterName": CLUSTER, "brokerName": BROKER_SET}
        ask = RemotingCommand.request(RequestCode.GET_BROKER_MEMBER_GROUP, ext)
        answer = await self._client.call(self._name_server, ask, 3_000)
        return dict(fastjson.loads(answer.body)["brokerMemberGroup"]["brokerAddrs"])

    async def links(self, address: str) -> int:
        """Slaves that are linked there."""
        try:
            ask = RemotingCommand.request(RequestCode.GET_BROKER_HA_STATUS)
            answer = await self._client.call(address, ask, 3_000)
        except RemotingError:
            return 0
        found = fastjson.loads(answer.body)["haConnectionInfo"]
        return sum(one["slaveAckOffset"] >= 0 for one in found)


eventually = partial(until, pause_s=0.05)
