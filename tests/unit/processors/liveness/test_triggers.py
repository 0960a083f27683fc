"""When the controller calls for an election (RULES 9, design D8)."""

import itertools

import pytest

from processors.fold.state import BrokerSet, Replica
from processors.liveness.mass_silence import MASS_SILENCE_HOLD_MS
from processors.liveness.pulses import DEFAULT_TIMEOUT_MS, Heartbeat
from processors.liveness.replicas import Liveness
from processors.liveness.triggers import (
    CALL_TIMEOUT_MS,
    FRUITLESS_AT_ONCE,
    FRUITLESS_EVERY_MS,
    GRACE_MAX_MS,
    ElectionTriggers,
    Pace,
)


def a_set(name: str = "a", **changes: object) -> BrokerSet:
    fields: dict[str, object] = {
        "next_broker_id": 3,
        "master_broker_id": 1,
        "master_epoch": 1,
        "sync_state_set": (1, 2),
        "sync_state_set_epoch": 2,
        "highest_epoch_seen": 1,
        "has_had_master": True,
        "replicas": tuple(Replica(i, f"{name}{i}:1", "c", is_registered=True) for i in (1, 2)),
    }
    return BrokerSet("C", name, **(fields | changes))  # type: ignore[arg-type]


def beat(liveness: Liveness, name: str, broker: int, now_ms: int, timeout_ms: int = 3_000) -> None:
    liveness.heard(
        Heartbeat(("C", name, broker), f"{name}{broker}:1", timeout_ms=timeout_ms),
        conn(name, broker),
        now_ms,
    )


def conn(name: str, broker: int) -> int:
    return int.from_bytes(name.encode()) * 10 + broker


def heard(*names: str, now_ms: int = 0) -> Liveness:
    liveness = Liveness()
    for name in names or ("a",):
        beat(liveness, name, 1, now_ms)
        beat(liveness, name, 2, now_ms)
    return liveness


def active(now_ms: int = 0) -> ElectionTriggers:
    triggers = ElectionTriggers()
    triggers.became_active(now_ms)
    return triggers


def refuse(liveness: Liveness, name: str, broker: int, now_ms: int) -> None:
    liveness.connection_closed(conn(name, broker), now_ms)
    liveness.probe_result(f"{name}{broker}:1", "refused", now_ms)


def test_a_living_master_is_left_alone() -> None:
    assert active().calls([a_set()], heard(), 100) == []


def test_a_refused_master_is_replaced_with_expected_epochs_and_evidence() -> None:
    liveness = heard()
    refuse(liveness, "a", 1, 10)
    (call,) = active().calls([a_set()], liveness, 11)
    assert (call.cause, call.expected_master_epoch, call.expected_set_epoch) == (
        "master_probe_refused",
        1,
        2,
    )
    assert [row.alive for row in call.evidence] == [False, True]


def test_a_silent_master_is_replaced() -> None:
    liveness = heard()
    beat(liveness, "a", 2, 3_000)
    (call,) = active().calls([a_set()], liveness, 3_001)
    assert call.cause == "master_heartbeat_expired"


def test_a_mere_closed_connection_calls_nothing() -> None:
    liveness = heard()
    liveness.connection_closed(conn("a", 1), 10)
    assert active().calls([a_set()], liveness, 11) == []


def test_a_master_never_heard_gets_a_full_timeout_after_the_takeover() -> None:
    liveness = Liveness()
    triggers = active(0)
    for now_ms in (0, DEFAULT_TIMEOUT_MS):
        beat(liveness, "a", 2, now_ms)
        assert triggers.calls([a_set()], liveness, now_ms) == []
    (call,) = triggers.calls([a_set()], liveness, DEFAULT_TIMEOUT_MS + 1)
    assert call.cause == "master_never_seen"


@pytest.mark.parametrize(
    ("told_ms", "grace_ms"), [(3_000, DEFAULT_TIMEOUT_MS), (30_000, 30_000), (10**9, GRACE_MAX_MS)]
)
def test_a_full_timeout_is_the_longest_that_the_set_tells_of(told_ms: int, grace_ms: int) -> None:
    liveness, triggers = Liveness(), active(0)
    beat(liveness, "a", 2, 0, told_ms)
    for now_ms, called in ((grace_ms, 0), (grace_ms + 1, 1)):
        if told_ms < DEFAULT_TIMEOUT_MS or now_ms > told_ms:
            beat(liveness, "a", 2, now_ms, told_ms)
        assert len(triggers.calls([a_set()], liveness, now_ms)) == called


def test_masters_without_an_open_connection_are_named_for_probing() -> None:
    liveness = heard("a")
    assert active().unheard_masters([a_set("a"), a_set("b")], liveness, 1) == [("b1:1", "b")]


def test_a_restarted_master_calls_at_once() -> None:
    (call,) = active().calls([a_set(master_restarted=True)], heard(), 1)
    assert call.cause == "master_restarted"


def test_a_set_that_lost_its_master_is_looked_after() -> None:
    (call,) = active().calls([a_set(master_broker_id=None)], heard(), 1)
    assert call.cause == "no_master"


def test_the_first_election_is_left_to_the_brokers() -> None:
    fresh = a_set(master_broker_id=None, has_had_master=False, master_epoch=0, sync_state_set=())
    assert active().calls([fresh], heard(), 1) == []


def test_nobody_alive_calls_nothing() -> None:
    liveness = heard()
    refuse(liveness, "a", 1, 1)
    refuse(liveness, "a", 2, 1)
    assert active().calls([a_set()], liveness, 2) == []


def test_one_call_at_a_time_for_a_set() -> None:
    liveness = heard()
    refuse(liveness, "a", 1, 1)
    triggers = active()
    assert len(triggers.calls([a_set()], liveness, 2)) == 1
    assert triggers.calls([a_set()], liveness, 3) == []
    beat(liveness, "a", 2, 2_000)
    assert len(triggers.calls([a_set()], liveness, 2 + CALL_TIMEOUT_MS)) == 1, (
        "its outcome never came"
    )


def test_a_call_that_found_nobody_waits_for_other_evidence() -> None:
    liveness = heard()
    refuse(liveness, "a", 1, 1)
    triggers = active()
    alone = a_set(sync_state_set=(1,))
    triggers.calls([alone], liveness, 2)
    triggers.settled("a", elected=False)
    beat(liveness, "a", 2, 50)
    assert triggers.calls([alone], liveness, 60) == []
    triggers.rules_changed()
    assert len(triggers.calls([alone], liveness, 61)) == 1
    triggers.settled("a", elected=False)
    assert (
        len(triggers.calls([a_set(sync_state_set=(1,), sync_state_set_epoch=3)], liveness, 62)) == 1
    )


def test_mass_silence_holds_elections_by_silence_for_a_bounded_time() -> None:
    names = [f"s{number}" for number in range(6)]
    liveness = heard(*names)
    sets = [a_set(name) for name in names]
    for name in names[:-1]:
        beat(liveness, name, 2, 3_000, timeout_ms=60_000)
    liveness.tick(2_900)
    for now_ms in range(3_000, 3_400, 100):
        liveness.tick(now_ms)
    triggers = active()
    assert [call.broker_name for call in triggers.calls(sets, liveness, 3_400)] == []
    later_ms = 3_400 + MASS_SILENCE_HOLD_MS
    assert len(triggers.calls(sets, liveness, later_ms)) == 5


def test_mass_silence_does_not_hold_a_refused_master() -> None:
    names = [f"s{number}" for number in range(7)]
    liveness = heard(*names)
    for name in names[:5]:
        beat(liveness, name, 2, 3_000, timeout_ms=60_000)
    refuse(liveness, "s0", 1, 10)
    for now_ms in range(2_900, 3_400, 100):
        liveness.tick(now_ms)
    calls = active().calls([a_set(name) for name in names], liveness, 3_400)
    assert [(call.broker_name, call.cause) for call in calls] == [("s0", "master_probe_refused")]


def test_a_call_whose_outcome_is_not_seen_is_repeated_a_few_times_and_then_seldom() -> None:
    liveness = heard()
    refuse(liveness, "a", 1, 10)
    triggers, pace = active(), Pace(retries=3, rescan_ms=60_000)
    called = []
    for now_ms in range(11, 130_000, 250):
        beat(liveness, "a", 2, now_ms)
        if triggers.calls([a_set()], liveness, now_ms, pace):
            called.append(now_ms)
    gaps = [after - before for before, after in itertools.pairwise(called)]
    assert (
        all(gap < CALL_TIMEOUT_MS + 500 for gap in gaps[:2])
        and gaps[2] >= 60_000
        and gaps[3] < CALL_TIMEOUT_MS + 500
    )


def test_a_call_that_found_nobody_is_no_failure_to_be_repeated() -> None:
    liveness = heard()
    refuse(liveness, "a", 1, 10)
    triggers = active()
    assert len(triggers.calls([a_set()], liveness, 11)) == 1
    triggers.settled("a", elected=False)
    for now_ms in range(11, 100_000, 250):
        beat(liveness, "a", 2, now_ms)
        assert triggers.calls([a_set()], liveness, now_ms) == []


def test_evidence_that_keeps_changing_calls_seldom_and_a_success_starts_anew() -> None:
    liveness = heard()
    refuse(liveness, "a", 1, 10)
    triggers, calls = active(), 0
    for turn in range(1_000):
        now_ms = 11 + turn * 100
        beat(liveness, "a", 2, now_ms)
        calls += len(
            triggers.calls(
                [a_set(sync_state_set_epoch=turn, sync_state_set=(1,))], liveness, now_ms
            )
        )
        triggers.settled("a", elected=False)
    assert FRUITLESS_AT_ONCE <= calls <= FRUITLESS_AT_ONCE + 100_000 // FRUITLESS_EVERY_MS
    triggers.settled("a", elected=True)
    beat(liveness, "a", 2, 110_000)
    assert len(triggers.calls([a_set(sync_state_set_epoch=2_000)], liveness, 110_001)) == 1


def test_a_member_that_is_back_is_called_for_at_once_however_many_others_came_and_went() -> None:
    liveness = heard()
    refuse(liveness, "a", 1, 10)
    triggers = active()
    for turn in range(200):
        now_ms = 11 + turn * 100
        beat(liveness, "a", 2, now_ms)
        triggers.calls([a_set(sync_state_set_epoch=turn, sync_state_set=(1,))], liveness, now_ms)
        triggers.settled("a", elected=False)
    assert (
        triggers.calls([a_set(sync_state_set_epoch=200, sync_state_set=(1,))], liveness, 20_000)
        == []
    )
    beat(liveness, "a", 1, 21_000)
    back = a_set(sync_state_set_epoch=200, sync_state_set=(1,), master_restarted=True)
    assert len(triggers.calls([back], liveness, 21_000)) == 1


def test_calls_that_a_dead_log_swallowed_do_not_make_a_set_wait_when_it_is_back() -> None:
    liveness = heard()
    refuse(liveness, "a", 1, 10)
    triggers, pace = active(), Pace(retries=3, rescan_ms=5_000)
    dead = a_set(sync_state_set=(1,))
    called = []
    for now_ms in range(11, 300_000, 250):
        beat(liveness, "a", 2, now_ms)
        called += [now_ms] * len(triggers.calls([dead], liveness, now_ms, pace))
    assert max(after - before for before, after in itertools.pairwise(called)) <= 5_250


def test_the_hold_of_mass_silence_is_a_setting() -> None:
    names = [f"s{number}" for number in range(8)]
    liveness, triggers = heard(*names), active()
    sets = [a_set(name) for name in names]
    for name in names[:1]:
        beat(liveness, name, 2, 3_500)
    assert triggers.calls(sets[:1], liveness, 3_600, Pace(hold_ms=500), sets) == []
    assert len(triggers.calls(sets[:1], liveness, 4_099, Pace(hold_ms=500), sets)) == 0
    assert len(triggers.calls(sets[:1], liveness, 4_100, Pace(hold_ms=500), sets)) == 1


# --- elections at risk that wait for a time (setting atRiskWaitMs) -----------------------------


def dark_set(*members: int) -> BrokerSet:
    """All members lost power; 2 is back, and who else was a member is waited for."""
    replicas = tuple(Replica(i, f"a{i}:1", "c", is_registered=True, clean=False) for i in (1, 2))
    return a_set(
        master_broker_id=None,
        sync_state_set=(),
        unclean_members=(1, 2),
        former=members,
        replicas=replicas,
    )


def only_two(now_ms: int) -> Liveness:
    liveness = Liveness()
    beat(liveness, "a", 2, now_ms, timeout_ms=1_000_000)
    return liveness


def test_an_election_at_risk_is_called_again_when_the_time_to_wait_has_passed() -> None:
    triggers, liveness, pace = active(), only_two(0), Pace(at_risk_wait_ms=60_000)
    (first,) = triggers.calls([dark_set(1, 2)], liveness, 10, pace)
    assert first.waited_ms == 0
    triggers.settled("a", elected=False)
    assert triggers.calls([dark_set(1, 2)], liveness, 60_009, pace) == []
    (last,) = triggers.calls([dark_set(1, 2)], liveness, 60_010, pace)
    assert last.waited_ms == 60_000
    triggers.settled("a", elected=False)
    assert triggers.calls([dark_set(1, 2)], liveness, 90_000, pace) == []


def test_without_a_time_to_wait_nothing_is_told_and_nothing_repeated() -> None:
    triggers, liveness = active(), only_two(0)
    (call,) = triggers.calls([dark_set(1, 2)], liveness, 10)
    triggers.settled("a", elected=False)
    assert call.waited_ms is None
    assert triggers.calls([dark_set(1, 2)], liveness, 900_000) == []


@pytest.mark.parametrize(
    "event", ["another leader", "a master in between", "the missing one was there"]
)
def test_the_wait_begins_anew(event: str) -> None:
    triggers, liveness, pace = active(), only_two(0), Pace(at_risk_wait_ms=60_000)
    triggers.calls([dark_set(1, 2)], liveness, 10, pace)
    match event:
        case "another leader":
            triggers.became_active(50_000)
        case "a master in between":
            triggers.settled("a", elected=True)
        case _:
            triggers.settled("a", elected=False)
            beat(liveness, "a", 1, 50_000, timeout_ms=100)
            triggers.calls([dark_set(1, 2)], liveness, 50_000, pace)
            triggers.settled("a", elected=False)
    (call,) = triggers.calls([dark_set(1, 2)], liveness, 60_000, pace)
    assert call.waited_ms == 0
