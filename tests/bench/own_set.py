"""A broker set of the benchmark's own, at a running cluster's controllers: with settings that
`regent up` does not have.

The brokers are the `regent broker` command, not supervised. They offer no topics on first send, so
that they never turn up in the routes of the cluster's other clients.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from infra.processes import children
from infra.processes import status as process_status
from infra.processes.ports import pick_block
from tests.bench.cluster import ROOT, BenchCluster, BenchFailed

UP_WITHIN_S = 90.0
STOP_GRACE_S = 10.0
PORTS_EACH = 2
CALL_MS = 5_000
READ_WRITE = 6


@dataclass(frozen=True, slots=True)
class Member:
    """One broker of the set."""

    name: str
    address: str
    child: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.child.pid


class OwnSet:
    """Use as `with own_set(...) as brokers`."""

    def __init__(
        self,
        cluster: BenchCluster,
        home: Path,
        name: str,
        replicas: int,
        flags: Sequence[str],
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._cluster = cluster
        self._home = home
        self.name = name
        self._flags = list(flags)
        self._environ = {**os.environ, **(environ or {})}
        self._first_port = pick_block(PORTS_EACH * replicas)
        self.members: list[Member] = []

    def start(self, number: int) -> None:
        """One more broker; returns when it has a role."""
        port = self._first_port + PORTS_EACH * number
        address, name = f"127.0.0.1:{port}", f"{self.name}-{number + 1}"
        command = [
            sys.executable,
            "-m",
            "infra",
            "broker",
            "--broker-name",
            self.name,
            "--listen",
            address,
            "--ha-listen",
            f"127.0.0.1:{port + 1}",
            "--no-second-listen",
            "--no-auto-create-topics",
            "--store-dir",
            str(self._home / name),
            "--name-servers",
            self._cluster.name_server,
            "--log-file",
            str(self._home / f"{name}.log"),
            *self._flags,
        ]
        for controller in self._cluster.controllers:
            command += ["--controllers", controller]
        member = Member(
            name, address, children.spawn(command, self._output(name), self._environ, ROOT)
        )
        self.members.append(member)
        self._cluster.wait(
            f"the start of {name}",
            lambda: bool((self.status(member) or {}).get("ready")),
            UP_WITHIN_S,
        )

    def _output(self, name: str) -> Path:
        return self._home / f"{name}.out"

    def status(self, member: Member) -> dict[str, Any] | None:
        """What a broker says of itself, None when it does not answer. BenchFailed when it has
        ended.
        """
        if member.child.poll() is not None:
            raise BenchFailed(
                f"{member.name} ended: "
                f"{' | '.join(children.last_lines(self._output(member.name), 3))}"
            )
        return process_status.ask_once(member.address, 500)

    def master(self) -> tuple[Member, dict[str, Any]]:
        """The broker that leads in the highest epoch, and its status."""
        found: list[tuple[int, Member, dict[str, Any]]] = []

        def leads() -> bool:
            answers = [(member, self.status(member) or {}) for member in self.members]
            found[:] = [
                (one["master_epoch"], member, one)
                for member, one in answers
                if one.get("role") == "MASTER"
            ]
            return bool(found)

        self._cluster.wait(f"a master of {self.name}", leads, UP_WITHIN_S)
        _, member, status = max(found, key=lambda one: one[0])
        return member, status

    def wait_whole(self) -> Member:
        """Until every broker is in the master's SyncStateSet; gives the master."""
        found: list[Member] = []

        def whole() -> bool:
            member, status = self.master()
            found[:] = [member]
            return len(status["sync_state_set"]) == len(self.members)

        self._cluster.wait(f"the whole SyncStateSet of {self.name}", whole, UP_WITHIN_S)
        return found[0]

    def create_topic(self, topic: str, queues: int = 4) -> None:
        """At the master; it tells the other members and the name server."""
        create_topic(self.master()[0].address, topic, queues)

    def stop(self) -> None:
        children.stop_all([member.child for member in self.members], STOP_GRACE_S)


def create_topic(address: str, topic: str, queues: int = 4) -> None:
    """At a broker, ours or Java's, which is master. BenchFailed when it refuses."""
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": str(READ_WRITE),
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    answer = asyncio.run(
        call(address, RemotingCommand.request(RequestCode.UPDATE_AND_CREATE_TOPIC, ext))
    )
    if answer.code:
        raise BenchFailed(f"topic {topic} was not made: {answer.code} {answer.remark}")


async def call(address: str, request: RemotingCommand) -> RemotingCommand:
    """One call on a connection of its own."""
    client = RemotingClient()
    try:
        return await client.call(address, request, CALL_MS)
    finally:
        await client.close()


@contextmanager
def own_set(
    cluster: BenchCluster,
    home: Path,
    name: str,
    replicas: int,
    *flags: str,
    environ: Mapping[str, str] | None = None,
) -> Iterator[OwnSet]:
    """A set of that many brokers, all of them in sync; stopped at the end. `environ` is added to
    what processes have.
    """
    brokers = OwnSet(cluster, home, name, replicas, flags, environ)
    try:
        for number in range(replicas):
            brokers.start(number)
        brokers.wait_whole()
        yield brokers
    finally:
        brokers.stop()
