"""Pulses, closed connections, probes, evidence (RULES 4.2, 8; design D8)."""

import pytest
from msgspec.structs import replace

from processors.fold.state import BrokerSet, Replica
from processors.liveness import replicas as module
from processors.liveness.pulses import DEFAULT_TIMEOUT_MS, GONE_KEPT_MS, Heartbeat
from processors.liveness.replicas import OWN_STALL_MS, PROBE_AGAIN_MS, Liveness

KEY = ("C", "a", 1)
TICK_MS = 500


def beat(**changes: object) -> Heartbeat:
    fields: dict[str, object] = {
        "key": KEY,
        "address": "b1:10911",
        "epoch": 1,
        "max_offset": 100,
        "confirm_offset": 90,
    }
    return Heartbeat(**(fields | changes))  # type: ignore[arg-type]


def a_set(*replicas: Replica) -> BrokerSet:
    return BrokerSet("C", "a", next_broker_id=9, replicas=replicas or (replica(1),))


def replica(number: int, incarnation: str | None = None) -> Replica:
    return Replica(number, f"b{number}:10911", "code", incarnation=incarnation, is_registered=True)


def tick_through(liveness: Liveness, start_ms: int, end_ms: int) -> list[tuple[str, str, int]]:
    expired = []
    for now_ms in range(start_ms, end_ms + 1, TICK_MS):
        expired += liveness.tick(now_ms)[0]
    return expired


def test_position_moves_only_forward_within_an_epoch() -> None:
    liveness = Liveness()
    liveness.heard(beat(), 1, 0)
    liveness.heard(beat(max_offset=50, confirm_offset=10), 1, 1)
    pulse = liveness.pulse(KEY)
    assert pulse is not None
    assert (pulse.epoch, pulse.max_offset, pulse.confirm_offset) == (1, 100, 90)
    liveness.heard(beat(epoch=2, max_offset=50, confirm_offset=10), 1, 2)
    assert (pulse.epoch, pulse.max_offset, pulse.confirm_offset) == (2, 50, 10)


def test_offsets_are_64_bit() -> None:
    liveness = Liveness()
    liveness.heard(beat(max_offset=1 << 40), 1, 0)
    liveness.heard(beat(max_offset=(1 << 40) + (1 << 32)), 1, 1)
    pulse = liveness.pulse(KEY)
    assert pulse is not None and pulse.max_offset == (1 << 40) + (1 << 32)


def test_another_incarnation_voids_what_the_former_told() -> None:
    liveness = Liveness()
    liveness.heard(beat(incarnation="first"), 1, 0)
    liveness.heard(beat(incarnation="second", epoch=0, max_offset=7), 2, 1)
    pulse = liveness.pulse(KEY)
    assert pulse is not None and (pulse.epoch, pulse.max_offset) == (0, 7)


def test_the_timeout_is_the_replicas_own() -> None:
    liveness = Liveness()
    liveness.heard(beat(timeout_ms=700), 1, 0)
    assert tick_through(liveness, 0, 500) == []
    assert liveness.is_alive(a_set(), replica(1), 700)
    assert not liveness.is_alive(a_set(), replica(1), 701)
    assert liveness.tick(1000)[0] == [KEY]
    assert liveness.tick(1500)[0] == [], "expiry is told once"


def test_a_negative_timeout_is_never_alive() -> None:
    liveness = Liveness()
    liveness.heard(beat(timeout_ms=-1), 1, 0)
    assert not liveness.is_alive(a_set(), replica(1), 0)
    assert liveness.tick(100)[0] == [] and not liveness.heard(beat(timeout_ms=-1), 1, 200), (
        "neither lost nor back"
    )
    liveness.heard(beat(timeout_ms=0), 1, 300)
    assert not liveness.is_alive(a_set(), replica(1), 300)


def test_a_close_asks_for_a_probe_and_a_refusal_means_gone() -> None:
    liveness = Liveness()
    liveness.heard(beat(), 1, 0)
    assert liveness.connection_closed(1, 10) == ["b1:10911"]
    assert liveness.reason_of(a_set(), replica(1), 10) == "connection_closed"
    assert not liveness.is_gone(a_set(), replica(1), 10)
    assert liveness.probe_result("b1:10911", "refused", 12) == [KEY]
    assert liveness.is_gone(a_set(), replica(1), 12)


def test_a_heartbeat_binds_its_connection_anew() -> None:
    liveness = Liveness()
    liveness.heard(beat(), 1, 0)
    liveness.heard(beat(), 2, 5)
    assert liveness.connection_closed(1, 10) == []
    assert liveness.connection_closed(2, 11) == ["b1:10911"]


def test_a_refusal_that_comes_after_a_new_heartbeat_harms_nobody() -> None:
    liveness = Liveness()
    liveness.heard(beat(), 1, 0)
    liveness.connection_closed(1, 10)
    liveness.heard(beat(), 2, 11)
    assert liveness.probe_result("b1:10911", "refused", 12) == []
    assert liveness.is_alive(a_set(), replica(1), 12)


def test_an_open_port_is_probed_again_a_bounded_number_of_times() -> None:
    liveness = Liveness()
    liveness.heard(beat(timeout_ms=60_000), 1, 0)
    liveness.tick(0)
    liveness.connection_closed(1, 0)
    asked = 0
    for now_ms in range(10, 5_000, 10):
        liveness.probe_result("b1:10911", "open", now_ms)
        asked += len(liveness.tick(now_ms)[1])
    assert asked == len(PROBE_AGAIN_MS)


def test_one_probe_of_an_address_at_a_time() -> None:
    liveness = Liveness()
    assert liveness.want_probes(["x:1", "x:1"]) == ["x:1"]
    assert liveness.want_probes(["x:1"]) == []
    liveness.probe_result("x:1", "open", 0)
    assert liveness.want_probes(["x:1"]) == ["x:1"]


def test_our_own_standstill_is_not_their_silence() -> None:
    liveness = Liveness()
    liveness.heard(beat(timeout_ms=3_000), 1, 0)
    liveness.tick(0)
    assert liveness.tick(OWN_STALL_MS + 9_000)[0] == []
    assert liveness.is_alive(a_set(), replica(1), OWN_STALL_MS + 9_000)


def test_evidence_has_a_row_for_every_registered_replica() -> None:
    liveness = Liveness()
    liveness.heard(beat(election_priority=5), 1, 100)
    rows = liveness.evidence(a_set(replica(1), replica(2)), 150)
    assert [(row.broker_id, row.alive, row.reason, row.silent_ms) for row in rows] == [
        (1, True, "heartbeat", 50),
        (2, False, "never_seen", -1),
    ]
    assert (
        rows[0].epoch,
        rows[0].max_offset,
        rows[0].confirm_offset,
        rows[0].election_priority,
    ) == (1, 100, 90, 5)
    assert liveness.evidence(None, 150) == ()


def test_a_replica_never_heard_is_unknown_for_a_timeout_and_then_never_seen() -> None:
    liveness = Liveness()
    liveness.tick(1_000)
    reasons = [
        liveness.evidence(a_set(replica(1)), now_ms)[0]
        for now_ms in (1_000 + DEFAULT_TIMEOUT_MS - 1, 1_000 + DEFAULT_TIMEOUT_MS)
    ]
    assert [(row.alive, row.reason) for row in reasons] == [
        (False, "not_heard_yet"),
        (False, "never_seen"),
    ]
    unclaimed = replace(replica(1), is_registered=False)
    assert liveness.evidence(a_set(unclaimed), 1_001)[0].reason == "never_seen", (
        "nobody ever came with that id"
    )


def test_whoever_asks_lives_before_its_first_heartbeat() -> None:
    (row,) = Liveness().evidence(a_set(replica(1, incarnation="first")), 0, asked_by=1)
    assert (row.alive, row.reason, row.incarnation) == (True, "asked", "first")


def test_a_heartbeat_of_another_life_than_the_registered_one_is_stale() -> None:
    liveness = Liveness()
    liveness.heard(beat(incarnation="second"), 1, 0)
    (row,) = liveness.evidence(a_set(replica(1, incarnation="first")), 1)
    assert (row.alive, row.reason, row.incarnation) == (False, "stale_incarnation", "second")


def test_a_registration_is_a_sign_of_life_and_tells_the_position() -> None:
    liveness = Liveness()
    liveness.introduced(KEY, "b1:10911", "first", (3, 700), 1, 0)
    pulse = liveness.pulse(KEY)
    assert pulse is not None and pulse.is_alive(0) and (pulse.epoch, pulse.max_offset) == (3, 700)


def test_a_refusing_port_counts_for_a_replica_never_heard() -> None:
    liveness = Liveness()
    liveness.probe_result("b1:10911", "refused", 0)
    assert liveness.is_gone(a_set(), replica(1), 0)
    liveness.heard(beat(), 1, 1)
    assert liveness.is_alive(a_set(), replica(1), 1)


def test_a_flood_of_names_that_is_over_leaves_room_for_who_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "PULSES_MAX", 10)
    liveness = Liveness()
    for number in range(20):
        liveness.heard(
            Heartbeat(("C", f"s{number}", 1), f"s{number}:1", timeout_ms=1_000), number, 0
        )
    liveness.tick(1_001)
    assert not liveness.heard(Heartbeat(("C", "new", 1), "new:1"), 99, 2_000), "they may come back"
    later = 2_000 + GONE_KEPT_MS
    assert liveness.heard(Heartbeat(("C", "new", 1), "new:1"), 99, later)
    assert [pulse.key for pulse in liveness.pulses()] == [("C", "new", 1)]
    assert liveness.tick(later + 1) == ([], [])
    assert (
        liveness.connection_closed(3, later) == []
        and liveness.probe_result("s3:1", "refused", later) == []
    )
