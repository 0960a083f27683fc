"""The figures of a broker that never was."""

from collections import Counter
from dataclasses import replace

from brokers.pages.figures import Figures, Lag
from tests.unit.brokers.service.test_admin import STATUS


def figures_of() -> Figures:
    return Figures(
        status=replace(STATUS, role="MASTER", forwarded=11),
        permission=6,
        topics=3,
        groups=2,
        waiting={"send": 2, "pull": 1},
        stored_bytes=4096,
        flush_behind_bytes=10,
        dispatch_behind_bytes=5,
        reserve_ms=1_000,
        producers=Counter({("JAVA", 479): 2}),
        consumers=Counter({("g", "GO", 401, "CONSUME_PASSIVELY"): 1}),
        halves=9,
        timing={"T": 8},
        timer_behind=1,
        timer_late_ms=2,
        timer_waiting=3,
        timer_counted=(4, 5),
        stored=[(("T", "normal"), 3, 300), (("T", "delay"), 2, 200)],
        given=[(("T", "g"), 4, 400), (("%RETRY%g", "g"), 1, 10)],
        dead_letters={("T", "g"): 1},
        ended={("T", True): 5, ("T", False): 6},
        failed=1,
        slowest_ms=12,
        p99_ms=3,
        escaped={"timer": 3},
        escape_puts={"stored": 3, "no answer": 1},
        escape_waits={"other masters do not take it": 2},
        lags=[Lag("g", "T", 7, 3, 900, 400)],
    )
