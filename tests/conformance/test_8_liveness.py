"""RULES 4.2, 8 and 9: who is alive, what triggers an election, and what follows."""

import pytest

from events.changes import MasterElected
from processors.controller import effects as fx
from processors.fold.state import BrokerSet, Replica
from processors.liveness.pulses import Heartbeat
from processors.liveness.replicas import Liveness
from tests.conformance.rows import Row, Shown, Table
from tests.support.controller_rig import CLUSTER, SET, Log, Rig

KEY = (CLUSTER, SET, 1)
OURS = BrokerSet(CLUSTER, SET, replicas=(Replica(1, "b1:10911", "c", is_registered=True),))


def beat(epoch: int = 1, offset: int = 10, timeout_ms: int = 3_000, confirm: int = 5) -> Heartbeat:
    return Heartbeat(KEY, "b1:10911", epoch, offset, confirm, timeout_ms)


SOFT = Table("4.2")


@SOFT.row("positions-only-grow-within-an-epoch", shipped=[(1, 10), (1, 10), (1, 20), (2, 5)])
def _() -> list[tuple[int, int]]:
    liveness, found = Liveness(), []
    for epoch, offset in ((1, 10), (1, 4), (1, 20), (2, 5)):
        liveness.heard(beat(epoch, offset), 1, 0)
        pulse = liveness.pulse(KEY)
        assert pulse is not None
        found.append((pulse.epoch, pulse.max_offset))
    return found


@SOFT.row(
    "confirm-offset-of-the-very-first",
    shipped=0,
    ours=5,
    because=("D8: evidence says what the broker said"),
)
def _() -> int:
    liveness = Liveness()
    liveness.heard(beat(), 1, 0)
    pulse = liveness.pulse(KEY)
    assert pulse is not None
    return pulse.confirm_offset


@SOFT.row("timeout-and-priority-are-replaced-each-time", shipped=[(3_000, 7), (9_000, 1)])
def _() -> list[tuple[int, int]]:
    liveness, found = Liveness(), []
    for timeout_ms, priority in ((3_000, 7), (9_000, 1)):
        liveness.heard(
            Heartbeat(KEY, "b1:10911", timeout_ms=timeout_ms, election_priority=priority), 1, 0
        )
        pulse = liveness.pulse(KEY)
        assert pulse is not None
        found.append((pulse.timeout_ms, pulse.election_priority))
    return found


SOFT.shown(
    "address-and-channel-are-refreshed",
    "tests/unit/processors/liveness/test_replicas.py::test_a_heartbeat_binds_its_connection_anew",
)

LIVE = Table("8")


@LIVE.row("alive-up-to-and-with-the-timeout", shipped=[True, False])
def _() -> list[bool]:
    liveness = Liveness()
    liveness.heard(beat(), 1, 0)
    return [liveness.is_alive(OURS, OURS.replicas[0], now_ms) for now_ms in (3_000, 3_001)]


@LIVE.row("negative-or-zero-is-never-active", shipped=[False, False])
def _() -> list[bool]:
    found = []
    for timeout_ms in (-1, 0):
        liveness = Liveness()
        liveness.heard(beat(timeout_ms=timeout_ms), 1, 0)
        found.append(liveness.is_alive(OURS, OURS.replicas[0], 1))
    return found


def silent(rig: Rig, broker: int, ms: int) -> None:
    for _ in range(ms // 100):
        rig.tick(100)
        for other in (1, 2, 3):
            if other != broker:
                rig.heartbeat(other)


@LIVE.row(
    "silence-without-a-close",
    shipped=("after the timeout and up to 5 s more"),
    ours="with the timeout",
    because="design 5: a scan is only the net below",
)
def _() -> str:
    rig = Rig().lead().three()
    silent(rig, 1, 2_900)
    assert rig.state.sets[SET].master_broker_id == 1
    silent(rig, 1, 300)
    return "with the timeout" if rig.state.sets[SET].master_broker_id == 2 else "later"


@LIVE.row(
    "closed-channel",
    shipped="removed at once",
    ours=("probed at once; refused is gone, open waits for the timeout"),
    because="D8: a closed connection is a hint",
)
def _() -> str:
    rig = Rig().lead().three()
    assert rig.close_connection(1) == ["b1:10911"]
    rig.probe_result("b1:10911", "open")
    assert rig.state.sets[SET].master_broker_id == 1
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_broker_id == 2
    return "probed at once; refused is gone, open waits for the timeout"


LIVE.shown(
    "defect-1-late-close-of-an-old-connection",
    "tests/unit/processors/controller/test_core.py::test_a_late_close_of_an_old_connection_harms_nobody",
    "tests/integration/test_controller_wire.py::"
    "test_a_late_close_of_an_old_connection_evicts_nobody",
)


@LIVE.row("restarted-under-another-address", shipped=("b1:20911", []))
def _() -> tuple[str, list[str]]:
    """Its new heartbeats are told apart from the old connection, whose close comes later."""
    rig = Rig().lead()
    rig.join(1)
    rig.elect(1)
    moved = {
        "clusterName": CLUSTER,
        "brokerName": SET,
        "brokerId": "1",
        "brokerAddress": "b1:20911",
        "brokerAddr": "b1:20911",
    }
    rig.request(1003, moved, conn=50)
    rig.request(904, moved, conn=50, oneway=True)
    probed = rig.close_connection(1)
    rig.pass_time(1_000)
    answer = rig.request(1004, {"brokerName": SET})
    assert answer is not None and answer.ext["masterBrokerId"] == "1"
    return answer.ext["masterAddress"], probed


@LIVE.row("first-heartbeat-after-the-election-request", shipped=0)
def _() -> int:
    """Section 16, broker row 8."""
    rig = Rig().lead()
    names = {"clusterName": CLUSTER, "brokerName": SET}
    rig.request(1013, names | {"appliedBrokerId": "1", "registerCheckCode": "b1:10911;1"})
    rig.request(1003, names | {"brokerId": "1", "brokerAddress": "b1:10911"})
    answer = rig.request(1002, names | {"brokerId": "1"})
    assert answer is not None and answer.ext["masterAddress"] == "b1:10911"
    return answer.code


TRIGGER = Table("9")


def standby_of(log: Log) -> Rig:
    rig = Rig("c2", log, {"c1": "c1:9878"}, seed=2)
    rig.catch_up()
    return rig


@TRIGGER.row("expiry-acts-only-at-the-leader", shipped=[])
def _() -> list[fx.Append]:
    log = Log()
    Rig("c1", log, {"c2": "c2:9878"}).lead().three()
    standby = standby_of(log)
    standby.heartbeat(1)
    standby.close_connection(1)
    standby.probe_result("b1:10911", "refused")
    return standby.take(fx.Append)


@TRIGGER.row("a-lost-slave-elects-nobody", shipped=1)
def _() -> int:
    rig = Rig().lead().three()
    before = rig.state.sets[SET].master_epoch
    rig.close_connection(2)
    rig.probe_result("b2:10911", "refused")
    return rig.state.sets[SET].master_epoch - before + 1


@TRIGGER.row(
    "a-set-without-master-is-looked-at-again",
    shipped="never",
    ours=("when a member returns"),
    because="design 5: brokers need not ask",
)
def _() -> str:
    rig = Rig().lead()
    rig.join(1)
    rig.elect(1)
    rig.join(2)
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_broker_id is None
    rig.heartbeat(1, conn=11)
    return "when a member returns" if rig.state.sets[SET].master_broker_id == 1 else "never"


TRIGGER.shown(
    "2004-is-not-retried",
    "tests/unit/processors/liveness/test_triggers.py::"
    "test_a_call_that_found_nobody_is_no_failure_to_be_repeated",
)
TRIGGER.shown(
    "retries-are-counted",
    "tests/unit/processors/liveness/test_triggers.py::"
    "test_a_call_whose_outcome_is_not_seen_is_repeated_a_few_times_and_then_seldom",
)


@TRIGGER.row("1008-to-all-active-after-any-election", shipped=["b2:10911", "b3:10911"])
def _() -> list[str]:
    rig = Rig().lead().three()
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    return sorted(notice.address for notice in rig.take(fx.NotifyRole))


@TRIGGER.row("1008-switched-off", shipped=[])
def _() -> list[fx.NotifyRole]:
    rig = Rig().lead()
    rig.request(19004, {}, b'{"settings":{"notifyBrokerRoleChanged":"false"}}')
    rig.three().elect(2, designate=True)
    assert rig.state.sets[SET].master_broker_id == 2
    return rig.take(fx.NotifyRole)


@TRIGGER.row("no-master-elected-notifies-nobody", shipped=[])
def _() -> list[fx.NotifyRole]:
    rig = Rig().lead()
    rig.join(1)
    rig.elect(1)
    rig.join(2)
    rig.take(fx.NotifyRole)
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_broker_id is None
    return rig.take(fx.NotifyRole)


@TRIGGER.row(
    "a-change-of-leader-gives-a-grace-period",
    shipped="none (defect 12)",
    ours=1,
    because=("D8: a full timeout for all"),
)
def _() -> int | None:
    """A slave's heartbeat arrives at the new leader before the master's."""
    log = Log()
    first = Rig("c1", log, {"c2": "c2:9878"}).lead().three()
    second = Rig("c2", log, {"c1": "c1:9878"}, now_ms=first.now_ms, seed=2)
    second.catch_up()
    second.pass_time(1_500)
    assert second.core.is_active
    second.heartbeat(2, timeout_ms=60_000)
    second.probe_result("b1:10911", "open")
    second.pass_time(5_000)
    return second.state.sets[SET].master_broker_id


@TRIGGER.row(
    "a-new-leader-opens-once-its-claim-is-applied", shipped=["ClaimLeadership", "ApplyBrokerId"]
)
def _() -> list[str]:
    """What asked before that moment is not lost, and comes after it."""
    rig = Rig("c1", Log(), {})
    rig.request(
        1013,
        {
            "clusterName": CLUSTER,
            "brokerName": SET,
            "appliedBrokerId": "1",
            "registerCheckCode": "b1:1;1",
        },
    )
    rig.pass_time(900, step=25)
    assert not any(
        isinstance(change, MasterElected) for one in rig.published for change in one.changes
    )
    return [one.kind for one in rig.published][-2:]


@pytest.mark.parametrize("row", [row for table in (SOFT, LIVE, TRIGGER) for row in table.rows])
def test_liveness(row: Row | Shown) -> None:
    row.check()
