"""What a broker set costs a controller that has nothing to decide: heartbeats of three brokers a
second, and the scans.

Over sockets for 10, 100 and 1,000 sets, each broker on a connection of its own, and for 10,000 sets
in process. The slope says what one more set costs; the peer is the same number of frames decoded
and thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from brokers.remoting import codec
from brokers.remoting.command import RemotingCommand
from infra.kafka.server import LocalKafka
from tests.bench import fleet
from tests.bench.apart import SPAWN, apart, cpu_seconds
from tests.bench.cluster import BenchFailed
from tests.bench.figure import Figure
from tests.bench.lone_controller import LoneController
from tests.bench.run_context import Bench
from tests.support.controller_rig import Rig

ROW = "set-cost"
OVER_SOCKETS = (10, 100, 1_000)
IN_PROCESS = 10_000
WINDOW_S = 10.0
JOINED_WITHIN_S = 180.0
TICKS_PER_S = 40


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least squares through (sets, cost): the cost of one more set."""
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


def over_sockets(bench: Bench, sets: int) -> tuple[float, float]:
    """(processor seconds a second, seconds until all had a master) of a controller with that many
    sets.
    """
    home = bench.folder(f"fleet-{sets}")
    with LocalKafka(home / "kafka", 1) as kafka:
        with LoneController(
            home / "c1", {"bootstrap.servers": kafka.bootstrap}, "bench-fleet"
        ) as controller:
            controller.wait_active()
            ours, theirs = SPAWN.Pipe()
            child = SPAWN.Process(
                target=fleet.live, args=(controller.address, sets, theirs), daemon=True
            )
            child.start()
            theirs.close()
            try:
                if not ours.poll(JOINED_WITHIN_S):
                    raise BenchFailed(
                        f"{sets} sets had not registered after {JOINED_WITHIN_S:.0f} s"
                    )
                joined_s = float(ours.recv())
                return _load(controller, sets), joined_s
            except EOFError:
                raise BenchFailed(f"the fleet of {sets} sets ended at its start") from None
            finally:
                ours.close()
                child.join(5.0)
                child.kill()


def _load(controller: LoneController, sets: int) -> float:
    time.sleep(2.0)  # registrations are settled, published and forgotten
    before, began = cpu_seconds(controller.pid), time.monotonic()
    time.sleep(WINDOW_S)
    used, passed = cpu_seconds(controller.pid) - before, time.monotonic() - began
    known = controller.status().get("sets", {})
    alive = sum(member["alive"] for one in known.values() for member in one["members"])
    if alive < sets * len(fleet.MEMBERS):
        raise BenchFailed(f"only {alive} of {sets * len(fleet.MEMBERS)} brokers count as alive")
    return used / passed


def in_process(sets: int) -> tuple[float, float]:
    """(seconds of work for one second of heartbeats and ticks, seconds to decode those frames
    alone).
    """
    rig = Rig("c1").lead()
    for number in range(sets):
        _arrive(rig, f"fleet-{number:05d}")
    frames = [
        codec.encode(_beat(f"fleet-{number:05d}", broker))
        for number in range(sets)
        for broker in fleet.MEMBERS
    ]
    began = time.perf_counter()
    for frame in frames:
        codec.FrameDecoder().feed(frame)
    decoding_s = time.perf_counter() - began
    share = max(1, len(frames) // TICKS_PER_S)
    began = time.perf_counter()
    for at, frame in enumerate(frames):
        (request,) = codec.FrameDecoder().feed(frame)
        rig.core.on_request(at + 1, "peer:1", request, rig.now_ms, rig.wall_ms)
        if at % share == share - 1:
            rig.tick(1000 // TICKS_PER_S)
    return time.perf_counter() - began, decoding_s


def _arrive(rig: Rig, name: str) -> None:
    for broker in fleet.MEMBERS:
        names = {"clusterName": fleet.CLUSTER, "brokerName": name}
        code = f"b{broker}:10911;1"
        rig.request(
            1013, {**names, "appliedBrokerId": str(broker), "registerCheckCode": code}, conn=broker
        )
        more = {
            "brokerId": str(broker),
            "brokerAddress": f"b{broker}:10911",
            "regentIncarnation": "life",
            "regentClean": "true",
            "regentHaAddress": f"b{broker}:10912",
            "regentLastEpoch": "0",
            "regentEndOffset": "0",
        }
        rig.request(1003, {**names, **more}, conn=broker)
        rig.perform(
            rig.core.on_request(broker, "peer:1", _beat(name, broker), rig.now_ms, rig.wall_ms)
        )
    rig.request(1002, {"clusterName": fleet.CLUSTER, "brokerName": name, "brokerId": "1"}, conn=1)
    rig.published.clear()
    rig.sent.clear()


def _beat(name: str, broker: int) -> RemotingCommand:
    ext = {
        "clusterName": fleet.CLUSTER,
        "brokerName": name,
        "brokerAddr": f"b{broker}:10911",
        "brokerId": str(broker),
        "epoch": "1",
        "maxOffset": "0",
        "confirmOffset": "0",
        "heartbeatTimeoutMills": "3600000",
        "regentIncarnation": "life",
    }
    return RemotingCommand.request(904, ext, oneway=True)


def measure(bench: Bench) -> list[Figure]:
    bench.quiet()
    points, joined = [], []
    for sets in OVER_SOCKETS:
        load, joined_s = over_sockets(bench, sets)
        bench.say(
            f"{sets} sets: {load * 100:.1f} % of a core; registered and elected in {joined_s:.1f} s"
        )
        points.append((float(sets), load))
        joined.append((sets, joined_s))
    bench.say(f"{IN_PROCESS} sets in process")
    inside_s, decoding_s = apart(in_process, IN_PROCESS)
    return figures(points, joined, inside_s, decoding_s)


def figures(
    points: Sequence[tuple[float, float]],
    joined: Sequence[tuple[int, float]],
    inside_s: float,
    decoding_s: float,
) -> list[Figure]:
    """The figures from what was measured."""
    per_set_us = slope(points) * 1_000_000
    loads = ", ".join(f"{sets:.0f} sets {load * 100:.1f} % of a core" for sets, load in points)
    sets, joined_s = joined[-1]
    decisions = sets * (2 * len(fleet.MEMBERS) + 1)
    return [
        Figure(
            ROW,
            "one more set, over sockets",
            "us of a core per s",
            per_set_us,
            "three frames decoded",
            decoding_s / IN_PROCESS * 1e6,
            note=(
                f"slope over {loads}; three brokers a set, each on its own connection, one "
                "heartbeat a second"
            ),
            details={"loads": [list(point) for point in points]},
        ),
        Figure(
            ROW,
            f"{IN_PROCESS:,} sets in process",
            "us of a core per s and set",
            inside_s / IN_PROCESS * 1e6,
            "frames decoded alone",
            decoding_s / IN_PROCESS * 1e6,
            note=(f"heartbeats and {TICKS_PER_S} ticks of one second, no sockets"),
        ),
        Figure(
            ROW,
            f"{sets:,} sets register at once",
            "s",
            joined_s,
            note=(
                f"{decisions} decisions ({decisions / joined_s:.0f}/s): three ids, three "
                f"registrations and an election each; {fleet.AT_ONCE} sets at a time"
            ),
        ),
    ]
