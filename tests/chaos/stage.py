"""One cluster under load, and what every blow is judged by: nothing acknowledged lost, decisions go
on, history proves itself.

Refuses to know which blow does what.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from brokers.membership.controller_messages import Introduction, apply_broker_id
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from events.topics import COMMANDS_TOPIC
from infra.cluster.plan import CLUSTER_NAME
from infra.processes import status
from tests.chaos.hits import Hits, NotAsItShouldBe, told_in
from tests.chaos.verdict import Row, Run, judge
from tests.support.local_cluster import LocalCluster, wait_until
from tests.support.workload import Workload

RATE = 200
CALM = 200
SEND_TIMEOUT_MS = 3_000
ASK_TIMEOUT_MS = 3_000
ASK_PAUSE_S = 0.05
DECISION_LIMIT_S = 90.0
LEADER_LIMIT_S = 60.0


class Stage(Hits):
    """`asked`: the command ids of decisions that were answered with a yes."""

    def __init__(self, cluster: LocalCluster, home: Path) -> None:
        super().__init__(cluster)
        self.home = home
        self.asked: list[bytes] = []

    # -- one blow under load -----------------------------------------------------------------------

    def play(self, name: str, blow: Callable[[Stage], str], sends_must_not_fail: bool) -> Row:
        """Load, blow, one decision, the set whole again, and everything read back."""
        run = Run()
        workload = Workload(
            self.home / name,
            self.cluster.name_servers,
            rate=RATE,
            topic=f"chaos-{name}",
            timeout_ms=SEND_TIMEOUT_MS,
        )
        try:
            with told_in(run):
                self.cluster.whole()
                workload.start()
                workload.flows(CALM, "messages flow")
                run.note = blow(self)
                run.decision_s = self.decide(f"{name}-after")
                self.cluster.whole()
                workload.flows(CALM, "messages flow again")
                figures = workload.figures()
                run.gap_ms = figures["longest_gap_ms"]
                judge(
                    run,
                    workload.stop(),
                    workload.read_back(),
                    figures["outages"],
                    calm=sends_must_not_fail,
                    promises=True,
                )
        finally:
            workload.end()
        return Row(name, runs=[run])

    # -- questions ---------------------------------------------------------------------------------

    def applied_offset(self, name: str) -> int:
        """Of the last command that this controller folded; -1 while it does not say."""
        (address,) = (
            one["status_address"]
            for one in self.cluster.processes("controller")
            if one["name"] == name
        )
        answer = status.ask_all([address], 500)[address]
        return answer.get("applied_offset", -1) if answer else -1

    @property
    def controllers(self) -> list[str]:
        return [one["address"] for one in self.cluster.processes("controller")]

    def leader(self, other_than: str = "") -> str:
        """Name of the controller that leads, once one does."""
        found: list[str] = []

        def leads() -> bool:
            names = {
                one["status_address"]: one["name"] for one in self.cluster.processes("controller")
            }
            answers = status.ask_all(list(names), 500)
            leading = {
                names[at]: one["term"]
                for at, one in answers.items()
                if one and one.get("role") == "active"
            }
            newest = max(leading, key=lambda name: leading[name], default=None)
            if newest is not None and newest != other_than:
                found.append(newest)
            return bool(found)

        wait_until(
            leads,
            f"a controller{' other than ' + other_than if other_than else ''} leads",
            LEADER_LIMIT_S,
        )
        return found[-1]

    def decide(self, broker_set: str, limit_s: float = DECISION_LIMIT_S) -> float:
        """Ask every controller in turn, under one command id, until the answer is a yes; the
        seconds it took.
        """
        return asyncio.run(self.ask_decision(broker_set, limit_s))

    async def ask_decision(self, broker_set: str, limit_s: float) -> float:
        me = Introduction(CLUSTER_NAME, broker_set, "127.0.0.1:1", "127.0.0.1:2", "chaos")
        command_id = uuid.uuid4()
        request = apply_broker_id(me, 1, f"127.0.0.1:1;{command_id.hex}", command_id.hex)
        took = await self._until_yes(request, limit_s, "decision")
        self.asked.append(command_id.bytes)
        return took

    def read(self, limit_s: float = DECISION_LIMIT_S) -> float:
        """Ask every controller in turn for a set (1006), which must be proven current; the seconds
        until one answers.
        """
        request = RemotingCommand.request(
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA, body=b'["broker-a"]'
        )
        return asyncio.run(self._until_yes(request, limit_s, "answer to a read"))

    async def _until_yes(self, request: RemotingCommand, limit_s: float, what: str) -> float:
        client, began = RemotingClient(), time.monotonic()
        try:
            while time.monotonic() - began < limit_s:
                for address in self.controllers:
                    try:
                        answer = await client.call(address, request, ASK_TIMEOUT_MS)
                    except (RemotingError, OSError):
                        continue  # unknown: asked again, a decision with the same id
                    if answer.code == 0:
                        return time.monotonic() - began
                await asyncio.sleep(ASK_PAUSE_S)
        finally:
            await client.close()
        raise NotAsItShouldBe(f"no {what} within {limit_s:.0f} s")

    def log_node(self) -> str:
        """Name of the Kafka node that leads the command log, with every replica in sync."""
        admin = AdminClient(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "log_level": 0,
                "socket.timeout.ms": 3_000,
            }
        )
        found: list[int] = []

        def whole() -> bool:
            try:
                partition = admin.list_topics(timeout=3.0).topics[COMMANDS_TOPIC].partitions[0]
            except (KafkaException, KeyError):
                return False
            if partition.leader >= 0 and len(partition.isrs) == len(
                self.cluster.processes("kafka")
            ):
                found.append(partition.leader)
            return bool(found)

        wait_until(whole, "every Kafka node is in sync")
        return f"kafka-{found[-1]}"

    @property
    def cluster_id(self) -> str:
        identity: dict[str, Any] = self.cluster.folder.identity() or {}
        return str(identity["cluster_id"])
