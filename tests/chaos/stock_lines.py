"""What the stock Java client with default settings is promised: masters that stand still, and
brokers that come up before their controllers.
"""

from __future__ import annotations

from tests.chaos.broker_stage import BrokerStage
from tests.chaos.line import Line
from tests.interop import stock_pauses
from tests.support.local_cluster import wait_until

PAUSES = 10
ALONE_S = 5.0
"""How long a broker is up before its controllers; longer than it holds a request."""


def master_stops(stage: BrokerStage) -> str:
    """Again and again, each time for good: its supervisor ends it, and its successor passes on."""
    fell = []
    for _ in range(PAUSES):
        # One that hangs again within 20 s of its start is given longer.
        stage.flows(stock_pauses.RATE_PER_S * stock_pauses.CALM_S)
        victim = stage.master()
        stage.struck(victim)
        stage.wait_restarted(stage.stop_for_good(victim))
        stage.cluster.whole()
        fell.append(victim.rpartition("-")[2])
    return f"masters stopped one after the other: {', '.join(fell)}"


def slave_before_controllers(stage: BrokerStage) -> str:
    """It left the set in order, and is up again while no controller runs."""
    victim = stage.slaves()[0]
    stage.hold(victim)
    stage.cluster.set_view("the set goes on without it", lambda view: len(view.in_sync) == 2)
    with stage.held(*_controllers(stage)):
        stage.let_start(victim)
        _up_alone(stage, victim, None)
        stage.flows()
    stage.wait_ready(victim)
    return f"{victim} (a slave) was up {ALONE_S:.0f} s before them"


def master_before_controllers(stage: BrokerStage) -> str:
    """It is killed while no controller runs, and is up again before the first one."""
    victim = stage.master()
    with stage.held(*_controllers(stage)):
        before = stage.kill(victim)[victim]
        stage.struck(victim)
        _up_alone(stage, victim, before)
    stage.wait_ready(victim)
    return f"{victim} (the master) was up {ALONE_S:.0f} s before them"


def _controllers(stage: BrokerStage) -> list[str]:
    return [one["name"] for one in stage.cluster.processes("controller")]


def _up_alone(stage: BrokerStage, name: str, old_pid: int | None) -> None:
    wait_until(
        lambda: stage.cluster.process(name)["pid"] not in (None, old_pid),
        f"{name} is started again",
    )
    stage.wait_for(ALONE_S)


LINES = (
    Line(
        "stock-pauses",
        f"the master is stopped for good, {PAUSES} times, under timers as regent up has them",
        master_stops,
        runs=1,
        shipped=True,
        outage_ms_max=stock_pauses.LONGEST_MS_MAX,
        stock=stock_pauses.outages,
    ),
    Line(
        "slave-before-controllers",
        "a slave comes back while no controller runs; controllers come 5 s later",
        slave_before_controllers,
        runs=1,
        shipped=True,
        calm=True,
    ),
    Line(
        "master-before-controllers",
        "the master is killed and up again while no controller runs; controllers come 5 s later",
        master_before_controllers,
        runs=1,
        shipped=True,
    ),
)
