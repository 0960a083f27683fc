"""RTO: the master is stopped (SIGSTOP) and nobody closes a connection; only timers can see it. Fast timers, own client."""

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
    "--heartbeat-interval-ms", str(HEARTBEAT_MS), "--controller-heartbeat-timeout-ms", str(TIMEOUT_MS), "--commit-log-file-bytes",
    str(16 * 1024 * 1024),
)  # fmt: skip


def measure(bench: Bench) -> list[Figure]:
    cluster = bench.plain_cluster()
    struck: list[blows.Blow] = []
    home = bench.folder("paused-master")
    bench.say(f"three brokers of their own, heartbeat {HEARTBEAT_MS} ms, timeout {TIMEOUT_MS} ms")
    with own_set(cluster, home, "bench-fast", 3, *FAST_TIMERS) as brokers:
        brokers.create_topic(TOPIC)
        with cluster.sending(TOPIC) as sending:
            for number in range(1, PAUSES + 1):
                master = brokers.wait_whole()
                sending.wait_calm()
                with paused(master.child.pid) as at_ns:
                    struck.append(blows.seen_by(sending, at_ns, master.name))
                bench.say(f"pause {number}: {master.name}, RTO {struck[-1].seen.rto_ms or 0:.0f} ms")
            brokers.wait_whole()
        loss = blows.loss(ROW, sending, cluster.name_server)
    times = blows.recovery_times(struck)
    note = (
        f"longest of {PAUSES}, median {median(times):.2f} s; {blows.CLIENT}; broker heartbeat {HEARTBEAT_MS} ms, controllers give a "
        f"silent broker {TIMEOUT_MS} ms; the peer is that timeout: nothing can know of the pause before; Java with fast timers: 2.6 s "
        "elsewhere"
    )
    worst = Figure(
        ROW, "RTO, master paused, fast timers", "s", max(times), "heartbeat timeout", TIMEOUT_MS / 1000, floor=at_most(6.0),
        goal=at_most(2.0), required=True, note=note, samples=times, details={"blows": [blow.document() for blow in struck]},
    )  # fmt: skip
    return [worst, loss]
