"""Appends of 1 KiB at a group of three that replicates by majority, ours and DLedger 0.3.1.2's own
server, turn by turn: many under way on one connection, and as 64 producers who each wait.

Ours are on the disk of a majority when they are acknowledged; DLedger's in its memory, for it has
no other level. What was acknowledged is counted by the index of the next entry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from brokers.majority.wire import json_bodies
from brokers.majority.wire.codes import FRAME_ANSWERED
from brokers.majority.wire.messages import AppendRequest
from brokers.remoting import codec
from brokers.remoting.command import RemotingCommand
from infra.problems import Problem
from infra.processes.ports import split_address
from infra.workload.message import body_of
from tests.bench import pipelined
from tests.bench.apart import apart, cpu_seconds
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure, not_measured, share_at_least
from tests.bench.run_context import Bench
from tests.bench.samples import median
from tests.interop.dledger_member import JavaMember, class_path
from tests.support.majority_group import GROUP, GroupClient, MemberProgram, addresses

ROW = "majority-append"
BODY_BYTES = 1_024
MANY, WINDOW = 20_000, 512
WAITING, PRODUCERS = 6_000, 64
TURNS = 3
WARM_UPS = 3
MEMBERS = 3
PEER = "DLedger 0.3.1.2"
SIZES: dict[str, object] = {
    "heartbeat_ms": 2_000,
    "heartbeats_missed_max": 3,
    "data_file_bytes": 256 << 20,
    "index_file_bytes": 32 << 20,
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One load: appends a second, per processor second of the leader, the 99th of 100 delays."""

    per_s: float
    per_core_s: float
    p99_ms: float


@dataclass(slots=True)
class Turns:
    """Of one group."""

    many: list[Turn] = field(default_factory=list)
    waiting: list[Turn] = field(default_factory=list)


def _frames(leader: str, count: int) -> list[bytes]:
    request = AppendRequest(group=GROUP, remote_id=leader, body=body_of(1, BODY_BYTES))
    command = RemotingCommand.request(
        json_bodies.code_of(request), body=json_bodies.encode(request)
    )
    return pipelined.repeated(codec.encode(command, opaque=pipelined.FIRST_OPAQUE), count)


def _many(leader: str, address: tuple[str, int], count: int) -> pipelined.Load:
    return pipelined.run(address, _frames(leader, count), WINDOW, FRAME_ANSWERED)


def _waiting(leader: str, address: tuple[str, int], count: int) -> pipelined.Load:
    return pipelined.producers(address, _frames(leader, count), PRODUCERS, FRAME_ANSWERED)


class Group:
    """Three running members of one kind."""

    def __init__(self, members: Sequence[MemberProgram | JavaMember], client: GroupClient) -> None:
        self._members = {one.self_id: one for one in members}
        self._client = client
        self.turns = Turns()

    async def turn(self, load: object, count: int) -> Turn:
        """BenchFailed when not everything was appended."""
        leader = await self._client.leader()
        before = await self._index()
        process = self._members[leader].process
        assert process is not None
        spent_s = cpu_seconds(process.pid)
        at = split_address(self._client.members[leader])
        done: pipelined.Load = await asyncio.to_thread(apart, load, leader, at, count)  # type: ignore[arg-type]
        spent_s = cpu_seconds(process.pid) - spent_s
        appended = await self._index() - before - 1
        if appended != count:
            raise BenchFailed(f"{appended} of {count} appends are committed at {leader}")
        return Turn(done.per_s, count / spent_s, done.p99_ms)

    async def _index(self) -> int:
        index = await self._client.append(b"between")
        if index is None:
            raise BenchFailed("an append was not answered")
        return index

    async def measure(self, warms_up: bool) -> None:
        """Both loads; a Java member compiles while it runs."""
        for _ in range(WARM_UPS if warms_up else 0):
            await self.turn(_many, MANY)
            await self.turn(_waiting, WAITING)
        self.turns.many.append(await self.turn(_many, MANY))
        self.turns.waiting.append(await self.turn(_waiting, WAITING))


async def _started(stack: AsyncExitStack, folder: Path, java_classes: str | None) -> Group:
    names = addresses(MEMBERS)
    members: list[MemberProgram | JavaMember] = [
        MemberProgram(folder, names, name, **SIZES)
        if java_classes is None
        else JavaMember(java_classes, folder, names, name, batch=True, **SIZES)
        for name in names
    ]
    client = GroupClient(names)
    stack.push_async_callback(client.close)
    for one in members:
        stack.push_async_callback(one.end)
    await asyncio.gather(*(one.start() for one in members))
    return Group(members, client)


async def _measured(bench: Bench) -> tuple[Turns, Turns | None]:
    """One group at a time has the processors, in turns."""
    try:
        classes: str | None = class_path(bench.folder("majority-classes"), bench.say)
    except Problem as problem:
        bench.say(f"DLedger was not measured: {problem}")
        classes = None
    async with AsyncExitStack() as stack:
        ours = await _started(stack, bench.folder("majority-ours"), None)
        java = None
        if classes is not None:
            java = await _started(stack, bench.folder("majority-java"), classes)
        for number in range(TURNS):
            for group in (ours, java):
                if group is not None:
                    await group.measure(warms_up=number == 0)
            bench.say(f"turn {number + 1} of {TURNS}")
        return ours.turns, None if java is None else java.turns


def measure(bench: Bench) -> list[Figure]:
    bench.quiet()
    return compared(*asyncio.run(_measured(bench)))


def compared(ours: Turns, java: Turns | None) -> list[Figure]:
    """Of both loads: rate, rate per processor second of the leader, delay."""
    found = []
    for load, what in (("many", f"{WINDOW} under way"), ("waiting", f"{PRODUCERS} producers wait")):
        own: list[Turn] = getattr(ours, load)
        other: list[Turn] | None = None if java is None else getattr(java, load)
        for name, unit, goal in (
            ("per_s", "appends/s", None),
            ("per_core_s", "appends/core-s of the leader", share_at_least(2.0)),
            ("p99_ms", "ms, p99", None),
        ):
            label = f"{what}, 1 KiB, {MEMBERS} members"
            if other is None:
                found.append(not_measured(ROW, label, unit, "no Java, no compiler or no jars"))
                continue
            samples = [float(getattr(one, name)) for one in own]
            peers = [float(getattr(one, name)) for one in other]
            found.append(
                Figure(
                    ROW,
                    label,
                    unit,
                    median(samples),
                    PEER,
                    median(peers),
                    goal=goal,
                    note="ours on the disk of a majority, DLedger's in memory",
                    samples=samples,
                    details={"peer_samples": peers},
                )
            )
    return found
