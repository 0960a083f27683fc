"""A disk that does not answer: no error comes, the call just does not return."""

from __future__ import annotations

import time
from functools import partial

from tests.chaos.broker_stage import BrokerStage
from tests.chaos.held_disks import ALL, FLUSH
from tests.chaos.hits import NotPossible
from tests.chaos.line import Line
from tests.interop import stock_pauses

HANGS_S = 20.0


def disk_hangs(what: str, stage: BrokerStage) -> str:
    """The master's disk: another one leads, messages flow while it hangs, and when it answers again
    the former master comes back by itself.
    """
    if stage.disks is None:
        raise NotPossible("these brokers were started without a disk that hangs")
    victim = stage.master()
    restarts = stage.cluster.process(victim)["restarts"]
    with stage.disks.hangs(victim, what):
        began = time.monotonic()
        stage.struck(victim)
        heir = stage.new_master(victim)
        took_s = time.monotonic() - began
        stage.flows()
        stage.wait_for(HANGS_S - (time.monotonic() - began))
    ended = time.monotonic()
    stage.cluster.whole()
    restarts = stage.cluster.process(victim)["restarts"] - restarts
    return (
        f"{heir} leads after {took_s:.1f} s, {victim} was ended {restarts} times and is in sync "
        f"{time.monotonic() - ended:.1f} s after its disk answered"
    )


LINES = (
    Line(
        "disk-hung-flush",
        "the master's disk takes what is written and flushes nothing for 20 s",
        partial(disk_hangs, FLUSH),
        shipped=True,
        outage_ms_max=6_000,
        stock=partial(stock_pauses.outages, median_ms_max=6_000, longest_ms_max=6_000),
    ),
    Line(
        "disk-hung",
        "the master's disk answers nothing for 20 s",
        partial(disk_hangs, ALL),
        shipped=True,
        outage_ms_max=6_000,
        # Whoever is started anew cannot open its store before the disk answers: it passes on.
        stock=partial(stock_pauses.outages, median_ms_max=6_000, longest_ms_max=6_000),
    ),
)
