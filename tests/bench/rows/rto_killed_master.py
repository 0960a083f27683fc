"""RTO: the master dies by `kill -9`, again and again, under the load of our own client; nothing
acknowledged is lost.
"""

from __future__ import annotations

from dataclasses import replace

from tests.bench import blows
from tests.bench.cluster import BenchCluster, BenchFailed, Caller, kill
from tests.bench.figure import Figure, at_most
from tests.bench.run_context import Bench
from tests.bench.samples import median

KILLS = 5
TOPIC = "bench-killed-master"
ROW = "rto-killed-master"
FLOOR_S, GOAL_S = 1.5, 0.25


def strike(cluster: BenchCluster, sending: Caller) -> tuple[blows.Blow, float]:
    """One kill; gives what the client saw and the seconds until the set was whole again."""
    before = cluster.wait_whole()
    sending.wait_calm()
    _, victim = cluster.master()
    at_ns = kill(victim["pid"])
    blow = blows.seen_by(sending, at_ns, victim["name"])
    cluster.wait_done(victim["pid"])
    after = cluster.wait_whole()
    if after.master_epoch <= before.master_epoch:
        raise BenchFailed("the master was killed and no new epoch began")
    return blow, blows.seconds_since(at_ns)


def figures(struck: list[blows.Blow], whole_s: list[float], bare_s: list[float]) -> list[Figure]:
    """The figures of the row from what was measured."""
    times = blows.recovery_times(struck)
    note = (
        f"{blows.CLIENT}; {len(times)} kills at 500 messages/s of 1 KiB over 4 queues; the peer is "
        "no broker: a client that already knows a second, idle server sees its connection close "
        "and gets an answer there, so the ratio says how much of the time is election, relink and "
        f"route; set whole again after {median(whole_s):.1f} s (median); Java RocketMQ takes "
        "minutes and is beside in rto-kills-java (make bench-long)"
    )
    details = {
        "blows": [blow.document() for blow in struck],
        "whole_again_s": whole_s,
        "peer_samples": bare_s,
    }
    worst = Figure(
        ROW,
        "RTO, master kill -9, longest",
        "s",
        max(times),
        "bare detection, longest",
        max(bare_s),
        floor=at_most(FLOOR_S),
        required=True,
        note=note,
        samples=times,
        details=details,
    )
    middle = replace(
        worst,
        what=("RTO, master kill -9, median"),
        value=median(times),
        peer="bare detection, median",
        peer_value=median(bare_s),
        floor=None,
        goal=at_most(GOAL_S),
        required=False,
        note="",
        details={},
    )
    return [middle, worst]


def struck_again(
    bench: Bench, topic: str, kills: int
) -> tuple[list[blows.Blow], list[float], Caller, str]:
    """So many kills under one sender: what it saw of each, seconds until the set was whole again,
    the sender, its name server.
    """
    cluster = bench.plain_cluster()
    struck, whole_s = [], []
    with cluster.sending(topic) as sending:
        for number in range(1, kills + 1):
            blow, seconds = strike(cluster, sending)
            struck.append(blow)
            whole_s.append(round(seconds, 2))
            bench.say(
                f"kill {number}: {blow.target}, RTO {blow.seen.rto_ms or 0:.0f} ms, whole again "
                f"after {seconds:.1f} s"
            )
    return struck, whole_s, sending, cluster.name_server


def measure(bench: Bench) -> list[Figure]:
    bench.plain_cluster()
    bare_s = bench.bare_recoveries()
    struck, whole_s, sending, name_server = struck_again(bench, TOPIC, KILLS)
    return [*figures(struck, whole_s, bare_s), blows.loss(ROW, sending, name_server)]
