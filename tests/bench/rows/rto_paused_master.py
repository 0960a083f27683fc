"""RTO: the master is stopped (SIGSTOP) and nobody closes a connection; only timers can see it. Fast
timers, own client.
"""

from __future__ import annotations

from tests.bench import blows
from tests.bench.cluster import paused
from tests.bench.figure import Figure, at_most
from tests.bench.own_set import own_set
from tests.bench.run_context import Bench
from tests.bench.samples import median

PAUSES = 3
TOPIC = "bench-paused-master"
ROW = "rto-paused-master"
HEARTBEAT_MS, TIMEOUT_MS = 200, 1_000
FAST_TIMERS = (
    "--heartbeat-interval-ms",
    str(HEARTBEAT_MS),
    "--controller-heartbeat-timeout-ms",
    str(TIMEOUT_MS),
    "--commit-log-file-bytes",
    str(16 * 1024 * 1024),
)


def struck_again(bench: Bench, topic: str, pauses: int) -> tuple[list[blows.Blow], Figure]:
    """So many pauses of the master of a set of its own, and what was lost."""
    cluster = bench.plain_cluster()
    struck: list[blows.Blow] = []
    home = bench.folder(topic)
    bench.say(f"three brokers of their own, heartbeat {HEARTBEAT_MS} ms, timeout {TIMEOUT_MS} ms")
    with own_set(cluster, home, f"{topic}-set", 3, *FAST_TIMERS) as brokers:
        brokers.create_topic(topic)
        with cluster.sending(topic) as sending:
            for number in range(1, pauses + 1):
                master = brokers.wait_whole()
                sending.wait_calm()
                with paused(master.child.pid) as at_ns:
                    struck.append(blows.seen_by(sending, at_ns, master.name))
                bench.say(
                    f"pause {number}: {master.name}, RTO {struck[-1].seen.rto_ms or 0:.0f} ms"
                )
            brokers.wait_whole()
        return struck, blows.loss(ROW, sending, cluster.name_server)


def measure(bench: Bench) -> list[Figure]:
    struck, loss = struck_again(bench, TOPIC, PAUSES)
    times = blows.recovery_times(struck)
    note = (
        f"longest of {PAUSES}, median {median(times):.2f} s; {blows.CLIENT}; broker heartbeat "
        f"{HEARTBEAT_MS} ms, controllers give a silent broker {TIMEOUT_MS} ms; the peer is that "
        "timeout: nothing can know of the pause before; Java RocketMQ with the same timers is "
        "beside in rto-pauses-java (make bench-long)"
    )
    worst = Figure(
        ROW,
        "RTO, master paused, fast timers",
        "s",
        max(times),
        "heartbeat timeout",
        TIMEOUT_MS / 1000,
        floor=at_most(6.0),
        goal=at_most(2.0),
        required=True,
        note=note,
        samples=times,
        details={"blows": [blow.document() for blow in struck]},
    )
    return [worst, loss]
