"""Sends at a broker, ours or Java's: the frames, and the functions that a process of their own runs
with them.

Every function makes its frames first and starts its clock then. Refuses to know who answers.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

from brokers.remoting import codec
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from infra.processes.ports import split_address
from infra.workload.message import body_of
from tests.bench import memory, pipelined
from tests.bench.apart import apart, cpu_seconds
from tests.bench.cluster import BenchFailed
from tests.bench.own_set import Member

BODY_BYTES = 1024
TOPIC = "bench-send"
QUEUES = 4
PIECE_S = 10.0
REFUSED_MOST = 0.01
WARM_UPS_MAX = 10
WARM_GAIN = 1.1


@dataclass(frozen=True, slots=True)
class Turn:
    """One run: messages/s that were answered with success, processor seconds of the master and of
    all brokers of its set, the 99th of 100 delays, how many sends were refused; the master's memory
    in MiB right after it, its own and with mapped files; how often a send was made again because
    the broker was busy.
    """

    count: int
    per_s: float
    master_cpu_s: float
    set_cpu_s: float
    p99_ms: float
    refused: int
    own_mib: float = 0.0
    all_mib: float = 0.0
    again: int = 0

    @property
    def per_core_s(self) -> float:
        """Messages per processor second of the master's process."""
        return self.count / self.master_cpu_s

    @property
    def per_set_core_s(self) -> float:
        return self.count / self.set_cpu_s


def send_request(
    topic: str, queue: int, properties: str, group: str, broker_set: str, sys_flag: str = "0"
) -> RemotingCommand:
    """A 310 of 1 KiB as a Java producer makes it."""
    ext = {
        "a": group,
        "b": topic,
        "c": "TBW102",
        "d": str(QUEUES),
        "e": str(queue),
        "f": sys_flag,
        "g": str(time.time_ns() // 1_000_000),
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "l": "0",
        "m": "false",
        "n": broker_set,
    }
    return RemotingCommand.request(310, ext, body_of(1, BODY_BYTES))


def send_frame(broker_set: str = "bench-send", queue: int = 0) -> bytes:
    """One with FIRST_OPAQUE."""
    properties = "KEYS\x01bench\x02UNIQ_KEY\x017F0000010A2B18B4AAC2000000000000\x02WAIT\x01true\x02"
    request = send_request(TOPIC, queue, properties, "bench", broker_set)
    return codec.encode(request, opaque=pipelined.FIRST_OPAQUE)


def frames(count: int) -> list[bytes]:
    """So many sends, over all queues in turn."""
    pairs = [pipelined.split_at_opaque(send_frame(queue=queue)) for queue in range(QUEUES)]
    return [
        b"%b%d%b" % (pairs[i % QUEUES][0], pipelined.FIRST_OPAQUE + i, pairs[i % QUEUES][1])
        for i in range(count)
    ]


# -- in a process of its own -----------------------------------------------------------------------


def send_all(address: tuple[str, int], count: int, window: int) -> pipelined.Load:
    """Over one connection, `window` under way; what a broker is too busy for is sent again, as
    producers do.
    """
    return pipelined.run(address, frames(count), window, again_code=ResponseCode.SYSTEM_BUSY)


def send_paced(address: tuple[str, int], count: int, per_s: float) -> pipelined.Load:
    """Over one connection, so many a second."""
    return pipelined.paced(address, frames(count), per_s, again_code=ResponseCode.SYSTEM_BUSY)


def send_steadily(address: tuple[str, int], per_s: float, seconds: float) -> pipelined.Load:
    """So many a second for a long time, in pieces; a broker that is slower gets fewer, the end is
    that of the time.
    """
    began, answered, bad = time.perf_counter(), 0, Counter[int]()
    while (passed_s := time.perf_counter() - began) < seconds:
        piece = pipelined.paced(
            address, frames(max(1, round(per_s * min(seconds - passed_s, PIECE_S)))), per_s
        )
        answered += piece.answered
        bad.update(piece.bad)
    return pipelined.Load(answered, passed_s, dict(bad))


def send_alone(address: tuple[str, int], count: int) -> list[float]:
    """One after the other; times in ms."""
    return pipelined.one_by_one(address, frames(count))


def send_waiting(address: tuple[str, int], count: int, connections: int) -> pipelined.Load:
    """As so many producers, each waiting for its answer."""
    return pipelined.producers(address, frames(count), connections)


# -- measured --------------------------------------------------------------------------------------


def turn(master: Member, members: list[Member], function: object, *arguments: object) -> Turn:
    """One of the functions above at a master, with what it costs the brokers. BenchFailed when more
    than one of a hundred sends is refused: a refusal costs nothing, so the figure would be one of
    refusals.
    """
    before = {member.pid: cpu_seconds(member.pid) for member in members}
    load: pipelined.Load = apart(function, split_address(master.address), *arguments)  # type: ignore[arg-type]
    held = memory.resident(master.pid)
    cost = {pid: cpu_seconds(pid) - spent for pid, spent in before.items()}
    refused = sum(load.bad.values())
    if refused > load.answered * REFUSED_MOST:
        raise BenchFailed(
            f"{refused} of {load.answered} sends at {master.name} were answered with codes "
            f"{load.bad}"
        )
    spent = (cost[master.pid], sum(cost.values()))
    return Turn(
        load.answered - refused,
        load.good_per_s,
        *spent,
        load.p99_ms,
        refused,
        held.own,
        held.all,
        load.again,
    )


def warmed_up(
    master: Member, members: list[Member], function: object, count: int, *arguments: object
) -> int:
    """Send `count` at a time until they no longer become cheaper for the set (Java compiles while
    it runs); gives how many in all.
    """
    cost_before = 0.0
    for times in range(1, WARM_UPS_MAX + 1):
        cost = turn(master, members, function, count, *arguments).set_cpu_s
        if times > 1 and cost_before < cost * WARM_GAIN:
            return times * count
        cost_before = cost
    return WARM_UPS_MAX * count
