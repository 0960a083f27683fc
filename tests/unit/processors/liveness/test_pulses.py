"""One replica as it is heard, and imported masters that have not arrived."""

from processors.fold.candidates import REASON_ASKED
from processors.fold.state import BrokerSet, Replica
from processors.liveness.pulses import (
    ARRIVAL_MS,
    ENTRIES_SPARE,
    REASON_AWAITED,
    REASON_EXPIRED,
    REASON_HEARTBEAT,
    REASON_NEVER_SEEN,
    REASON_NOT_FENCED,
    REASON_REFUSED,
    BrokerKey,
    Heartbeat,
    Pulse,
    PulseWatch,
)
from processors.liveness.replicas import Liveness

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
    assert liveness.reason_of(IMPORTED, MASTER, 0) == REASON_AWAITED and liveness.is_alive(
        IMPORTED, MASTER, 0
    )
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


def test_a_replica_of_an_uncertain_set_counts_once_it_heard_of_the_open_epoch() -> None:
    one, java = (
        Replica(i, f"h{i}:1", "", incarnation=life, is_regent=life is not None, is_registered=True)
        for i, life in ((1, "x"), (2, None))
    )
    uncertain = BrokerSet(
        "c", "b", 3, (one, java), None, 1_005, (), 9, 1_005, has_had_master=True, uncertain=(1, 2)
    )
    liveness = Liveness()
    for seen, reason in (
        (5, REASON_NOT_FENCED),
        (1_004, REASON_NOT_FENCED),
        (1_005, REASON_HEARTBEAT),
    ):
        liveness.heard(Heartbeat(("c", "b", 1), "h1:1", incarnation="x", epoch_seen=seen), 7, 0)
        for asked in (None, 1):
            row = liveness.evidence(uncertain, 0, asked)[0]
            assert (row.reason, row.alive) == (reason, reason == REASON_HEARTBEAT), (
                "also when it asks itself"
            )
    assert liveness.reason_of(OURS, one, 0) == REASON_HEARTBEAT
    liveness.heard(Heartbeat(("c", "b", 1), "h1:1", incarnation="y"), 7, 0)
    later = BrokerSet(
        "c",
        "b",
        3,
        (Replica(1, "h1:1", "", incarnation="y", is_regent=True, is_registered=True),),
        None,
        1,
        uncertain=(1,),
    )
    assert liveness.reason_of(later, later.replicas[0], 0) == REASON_NOT_FENCED, (
        "another start has heard nothing yet"
    )
    liveness.heard(Heartbeat(("c", "b", 2), "h2:1"), 8, 0)
    assert liveness.reason_of(uncertain, java, 0) == REASON_HEARTBEAT, (
        "a Java broker tells nothing of it"
    )


def test_what_a_former_start_told_is_not_that_of_the_start_that_asks() -> None:
    """It registered a moment ago and has not beaten yet: its registration counts (S5)."""
    again = Replica(2, "h2:1", "", incarnation="second", is_regent=True, is_registered=True)
    ours = BrokerSet("c", "b", 3, (REPLICAS[0], again), None, 5, (1, 2), 9, 5, has_had_master=True)
    liveness = Liveness()
    liveness.heard(Heartbeat(("c", "b", 2), "h2:1", 3, 700, 600, incarnation="first"), 7, 0)
    asked = liveness.evidence(ours, 1, 2)[1]
    assert (asked.reason, asked.alive, asked.incarnation, asked.max_offset) == (
        REASON_ASKED,
        True,
        "first",
        700,
    )
    silent = Liveness().evidence(ours, 1, 2)[1]
    assert (silent.reason, silent.incarnation, silent.max_offset) == (REASON_ASKED, "second", -1)


def watched(heard_ms: int = 0, timeout_ms: int = 1_000) -> tuple[PulseWatch, Pulse]:
    pulse = Pulse(("c", "b", 1), "h:1", 1, heard_ms, timeout_ms)
    pulses: dict[BrokerKey, Pulse] = {pulse.key: pulse}
    watch = PulseWatch(pulses)
    watch.keep(pulse)
    return watch, pulse


def test_a_pulse_is_due_when_its_silence_is_too_long_and_once() -> None:
    watch, pulse = watched()
    assert watch.due(1_000) == []
    assert watch.due(1_001) == [pulse]
    assert watch.due(9_999) == []


def test_heartbeats_add_nothing_and_the_old_entry_leads_to_the_new_time() -> None:
    watch, pulse = watched()
    for now_ms in range(1, 500):
        pulse.heard_ms = now_ms
        watch.keep(pulse)
    assert len(watch) == 1
    assert watch.due(1_001) == [pulse]
    watch.keep(pulse)
    assert watch.due(1_499) == []
    assert watch.due(1_500) == [pulse]


def test_a_shorter_timeout_and_a_probe_come_first() -> None:
    watch, pulse = watched()
    pulse.timeout_ms = 100
    watch.keep(pulse)
    pulse.probes_due_ms = [30, 60]
    watch.keep(pulse)
    assert watch.due(29) == []
    assert watch.due(30) == [pulse]
    pulse.probes_due_ms = []
    pulse.heard_ms = 1_000
    watch.keep(pulse)
    assert watch.due(1_100) == [], "outdated entries are nobody's news"
    assert watch.due(1_101) == [pulse]


def test_timeouts_that_keep_shrinking_do_not_fill_the_memory() -> None:
    watch, pulse = watched(timeout_ms=1_000_000)
    for shorter in range(100_000):
        pulse.timeout_ms = 999_999 - shorter
        watch.keep(pulse)
    assert len(watch) <= 2 + ENTRIES_SPARE
    assert watch.due(899_999 + 2) == [pulse]
