"""One replica as it is heard, and imported masters that have not arrived."""

from processors.liveness import Heartbeat, Liveness
from processors.pulse import ARRIVAL_MS, REASON_AWAITED, REASON_EXPIRED, REASON_HEARTBEAT, REASON_NEVER_SEEN, REASON_REFUSED, Pulse
from processors.state import BrokerSet, Replica

REPLICAS = (Replica(1, "h1:1", "", is_registered=True), Replica(2, "h2:1", "", is_registered=True))
IMPORTED = BrokerSet("c", "b", 3, REPLICAS, 1, 5, (1, 2), 9, 5, has_had_master=True, imported=True)
OURS = BrokerSet("c", "b", 3, REPLICAS, 1, 5, (1, 2), 9, 5, has_had_master=True)
MASTER, SLAVE = REPLICAS


def beat(broker_id: int) -> Heartbeat:
    return Heartbeat(("c", "b", broker_id), f"h{broker_id}:1", timeout_ms=1_000_000)


def test_a_pulse_lives_as_long_as_its_own_timeout() -> None:
    pulse = Pulse(("c", "b", 1), "h1:1", 7, 1_000, timeout_ms=500)
    assert pulse.reason(1_500) == REASON_HEARTBEAT and pulse.reason(1_501) == REASON_EXPIRED


def test_the_master_of_an_imported_set_is_awaited_and_counts_as_alive() -> None:
    liveness = Liveness()
    assert liveness.reason_of(IMPORTED, MASTER, 0) == REASON_AWAITED and liveness.is_alive(IMPORTED, MASTER, 0)
    assert liveness.evidence(IMPORTED, 0)[0].alive
    assert liveness.reason_of(IMPORTED, SLAVE, 0) == REASON_NEVER_SEEN
    assert liveness.reason_of(OURS, MASTER, 0) == REASON_NEVER_SEEN


def test_the_time_to_arrive_runs_from_the_first_of_its_replicas() -> None:
    liveness = Liveness()
    assert liveness.is_alive(IMPORTED, MASTER, 10 * ARRIVAL_MS)
    liveness.heard(beat(2), 7, 10 * ARRIVAL_MS)
    assert liveness.reason_of(IMPORTED, MASTER, 11 * ARRIVAL_MS - 1) == REASON_AWAITED
    assert liveness.reason_of(IMPORTED, MASTER, 11 * ARRIVAL_MS) == REASON_NEVER_SEEN


def test_an_awaited_master_whose_port_refuses_is_gone() -> None:
    liveness = Liveness()
    assert liveness.awaited(IMPORTED, 0) is None
    liveness.heard(beat(2), 7, 0)
    assert liveness.awaited(IMPORTED, 1) == "h1:1"
    liveness.probe_result("h1:1", "refused", 2)
    assert liveness.reason_of(IMPORTED, MASTER, 3) == REASON_REFUSED
    assert liveness.awaited(IMPORTED, 3) is None


def test_a_master_that_has_arrived_is_like_any_other() -> None:
    liveness = Liveness()
    liveness.heard(beat(1), 7, 0)
    assert liveness.reason_of(IMPORTED, MASTER, 1) == REASON_HEARTBEAT
    assert liveness.awaited(IMPORTED, 1) is None
    assert liveness.reason_of(IMPORTED, MASTER, 1_000_001) == REASON_EXPIRED
