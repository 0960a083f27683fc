"""Replicas that lost what they held and do not know it: nobody may follow them."""

from __future__ import annotations

from tests.chaos.armed import UNCLEAN, Armed
from tests.chaos.broker_stage import BrokerStage
from tests.chaos.line import Line


def identity_alone(stage: BrokerStage) -> str:
    """The disk of a slave, then of the master, is replaced, and its identity put back; it says that it is unclean, and the
    master dies as soon as it has come back."""
    armed, hit = Armed(stage), []
    for of_master in (False, True):
        victim = stage.master() if of_master else stage.slaves()[0]
        before = armed.log_now(victim)
        with armed.killed(victim):
            identity = (armed.store(victim) / "brokerIdentity").read_bytes()
            armed.empty(victim)
            armed.store(victim).mkdir(parents=True, exist_ok=True)
            (armed.store(victim) / "brokerIdentity").write_bytes(identity)
        armed.must_say(before, victim, UNCLEAN)
        master = stage.master()
        with armed.killed(master):
            stage.wait_for(1.0)
        stage.cluster.whole()
        stage.flows(20)
        hit.append(victim)
    return f"{' and '.join(hit)} came back with an identity and nothing else, the master died then; nobody followed an empty log"


LINES = (
    Line("identity-alone", "a disk is replaced and only the identity put back, then the master dies", identity_alone, armed=True),
)  # fmt: skip
