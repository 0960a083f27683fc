"""Faults of the network: ways between master, slaves, controllers and clients are cut, in both
directions or in one.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from tests.chaos.broker_stage import BrokerStage
from tests.chaos.line import Line
from tests.chaos.network import CONTROLLERS, Network

CUT_S = 5.0


def network_of(stage: BrokerStage) -> Network:
    """The network of a line that cuts."""
    assert stage.network is not None, "a line that cuts is not played without a network"
    return stage.network


def _outlasted(stage: BrokerStage, cut: AbstractContextManager[None]) -> None:
    """Messages flow while it is cut."""
    with cut:
        stage.wait_for(CUT_S)
        stage.flows()


def _heir(stage: BrokerStage, master: str, cut: AbstractContextManager[None]) -> str:
    """Another one leads and messages flow while it is cut; who."""
    with cut:
        heir = stage.new_master(master)
        stage.flows()
        stage.wait_for(CUT_S)
    return heir


def master_from_slaves(stage: BrokerStage) -> str:
    """Fewer than two are in sync with it: sends wait or are refused as long as it lasts, and nobody
    else is elected.
    """
    master = stage.master()
    with network_of(stage).apart([master], stage.slaves()):
        stage.wait_for(CUT_S)
    return f"{master} without its slaves for {CUT_S:.0f} s; {stage.master()} leads"


def master_from_one_slave(stage: BrokerStage) -> str:
    master, slave = stage.master(), stage.slaves()[0]
    _outlasted(stage, network_of(stage).apart([master], [slave]))
    return f"{master} and {slave} apart for more than {CUT_S:.0f} s"


def master_from_controllers(stage: BrokerStage) -> str:
    master = stage.master()
    heir = _heir(stage, master, network_of(stage).apart([master], [CONTROLLERS]))
    return f"{master} alive without controllers, {heir} leads"


def master_from_all(stage: BrokerStage) -> str:
    master = stage.master()
    heir = _heir(stage, master, network_of(stage).apart([master], network_of(stage).everybody))
    return f"{master} alive and alone, {heir} leads"


def slave_from_all(stage: BrokerStage) -> str:
    slave = stage.slaves()[0]
    _outlasted(stage, network_of(stage).apart([slave], network_of(stage).everybody))
    return f"{slave} alone for more than {CUT_S:.0f} s"


def master_to_slaves(stage: BrokerStage) -> str:
    master = stage.master()
    with network_of(stage).cut([master], stage.slaves()):
        stage.wait_for(CUT_S)
    return f"slaves did not hear {master} for {CUT_S:.0f} s; {stage.master()} leads"


def slaves_to_master(stage: BrokerStage) -> str:
    master = stage.master()
    with network_of(stage).cut(stage.slaves(), [master]):
        stage.wait_for(CUT_S)
    return f"{master} did not hear its slaves for {CUT_S:.0f} s; {stage.master()} leads"


def master_to_controllers(stage: BrokerStage) -> str:
    master = stage.master()
    heir = _heir(stage, master, network_of(stage).cut([master], [CONTROLLERS]))
    return f"controllers did not hear {master}, {heir} leads"


def controllers_to_master(stage: BrokerStage) -> str:
    """Heartbeats still arrive, until TCP holds them back because nobody confirms them: then it
    counts as silent.
    """
    master = stage.master()
    _outlasted(stage, network_of(stage).cut([CONTROLLERS], [master]))
    return (
        f"{master} did not hear the controllers for more than {CUT_S:.0f} s; {stage.master()} leads"
    )


LINES = (
    Line(
        "cut-slaves",
        "the master cut from its slaves for 5 s: fewer than two in sync, so no send can be "
        "acknowledged",
        master_from_slaves,
        cuts=True,
    ),
    Line("cut-one-slave", "the master cut from one slave", master_from_one_slave, cuts=True),
    Line(
        "cut-controllers",
        "the master cut from the controllers only",
        master_from_controllers,
        cuts=True,
    ),
    Line("cut-all", "the master cut from everything, clients too", master_from_all, cuts=True),
    Line("cut-slave-all", "a slave cut from everything", slave_from_all, cuts=True),
    Line(
        "deaf-slaves",
        "one way: nothing of the master reaches its slaves for 5 s",
        master_to_slaves,
        cuts=True,
    ),
    Line(
        "deaf-master",
        "one way: nothing of the slaves reaches the master for 5 s",
        slaves_to_master,
        cuts=True,
    ),
    Line(
        "deaf-controllers",
        "one way: nothing of the master reaches the controllers",
        master_to_controllers,
        cuts=True,
    ),
    Line(
        "deaf-to-controllers",
        "one way: nothing of the controllers reaches the master for 5 s",
        controllers_to_master,
        cuts=True,
    ),
)
