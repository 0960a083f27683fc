"""The active controller is killed: how long one who asks for a decision waits, and whether sending
notices.
"""

from __future__ import annotations

from tests.bench import asker, blows
from tests.bench.cluster import kill
from tests.bench.figure import Figure, at_most
from tests.bench.run_context import Bench
from tests.bench.samples import median

KILLS = 3
TOPIC = "bench-controller-killed"
ROW = "controller-killed"


def measure(bench: Bench) -> list[Figure]:
    cluster = bench.plain_cluster()
    struck: list[blows.Blow] = []
    failed_sends = 0
    gaps: list[float] = []
    bare_s = bench.bare_recoveries()
    with cluster.sending(TOPIC) as sending, cluster.asking() as askers:
        for number in range(1, KILLS + 1):
            cluster.wait_whole()
            address = cluster.active_controller()
            victim = cluster.process(address)
            at_ns = kill(victim["pid"])
            blow = blows.longest([blows.seen_by(one, at_ns, victim["name"]) for one in askers])
            sends = blows.seen_by(sending, at_ns, victim["name"])
            cluster.wait_done(victim["pid"])
            struck.append(blow)
            failed_sends += sends.seen.failed_calls
            gaps.append(round(sends.seen.longest_gap_ms / 1000, 3))
            bench.say(
                f"kill {number}: {blow.target}, {blow.seen.rto_ms or 0:.0f} ms for one who asks, "
                f"{sends.seen.failed_calls} failed sends"
            )
    times = blows.recovery_times(struck)
    note = (
        f"longest of {KILLS} kills, median {median(times):.2f} s; two askers, one at each "
        f"controller, the slower one counts; timeout {asker.TIMEOUT_MS} ms, then the next "
        "controller; each question is a record of the log; peer: a client whose server dies and "
        "who knows another, idle one"
    )
    return [
        Figure(
            ROW,
            "active controller kill -9, one who asks",
            "s",
            max(times),
            "bare detection, longest",
            max(bare_s),
            floor=at_most(3.0),
            goal=at_most(1.0),
            note=note,
            samples=times,
            details={"blows": [blow.document() for blow in struck]},
        ),
        Figure(
            ROW,
            "failed sends meanwhile",
            "sends",
            failed_sends,
            goal=at_most(0),
            note=f"500 messages/s; longest gap between answers {max(gaps):.2f} s",
            samples=gaps,
        ),
        blows.loss(ROW, sending, cluster.name_server),
    ]
