"""Which silences a controller tells of."""

import pytest

from events.broker_events import HeartbeatGap
from processors.liveness.fact_headers import FactHeaders
from processors.liveness.heartbeat_gaps import TOLD_AT_ONCE, HeartbeatGaps
from processors.liveness.pulses import REASON_REFUSED, Heartbeat, Pulse

KEY = ("regent", "broker-a", 2)


def beat(incarnation: str = "i1") -> Heartbeat:
    return Heartbeat(KEY, "b2:10911", timeout_ms=10_000, incarnation=incarnation)


def pulse(heard_ms: int = 0, gone: str | None = None) -> Pulse:
    return Pulse(KEY, "b2:10911", 1, heard_ms, timeout_ms=10_000, incarnation="i1", gone=gone)


def gaps() -> HeartbeatGaps:
    return HeartbeatGaps(FactHeaders("c1"))


@pytest.mark.parametrize(
    ("gap_ms", "told", "was_gone"),
    [
        (1_000, False, False),
        (4_000, False, False),
        (4_001, True, False),
        (10_000, True, False),
        (10_001, True, True),
    ],
)
def test_a_silence_is_told_above_two_fifths_of_the_timeout(
    gap_ms: int, told: bool, was_gone: bool
) -> None:
    fact = gaps().ended(pulse(), beat(), gap_ms, 1_767_225_600_000)
    assert (fact is not None) == told
    if fact is not None:
        assert (
            fact.silent_broker_id,
            fact.gap_ms,
            fact.timeout_ms,
            fact.was_gone,
            fact.restarted,
        ) == (2, gap_ms, 10_000, was_gone, False)
        head = fact.header
        assert (head.cluster_name, head.broker_name, head.broker_id, head.incarnation) == (
            "regent",
            "broker-a",
            -1,
            "c1",
        )
        assert (head.at_ms, head.sequence) == (1_767_225_600_000, 0)


def test_a_first_heartbeat_and_one_after_a_goodbye_end_no_silence() -> None:
    assert gaps().ended(None, beat(), 50_000, 0) is None
    left = pulse()
    left.timeout_ms = 0
    assert gaps().ended(left, beat(), 50_000, 0) is None


def test_a_refused_probe_and_another_start_are_told() -> None:
    fact = gaps().ended(pulse(gone=REASON_REFUSED), beat("i2"), 6_000, 0)
    assert isinstance(fact, HeartbeatGap) and fact.was_gone and fact.restarted


def test_a_replica_that_comes_and_goes_does_not_fill_the_topic() -> None:
    telling = gaps()
    told = [
        telling.ended(pulse(now_ms - 5_000), beat(), now_ms, 0) for now_ms in range(10_000, 10_100)
    ]
    assert sum(fact is not None for fact in told) == TOLD_AT_ONCE
    later = telling.ended(pulse(12_000), beat(), 20_000, 0)
    assert later is not None and later.header.sequence == TOLD_AT_ONCE
    assert (
        len({fact.header.event_id for fact in (*told, later) if fact is not None})
        == TOLD_AT_ONCE + 1
    )
