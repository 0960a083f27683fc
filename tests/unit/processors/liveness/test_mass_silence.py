"""Elections by silence wait while half the world is silent (design D8)."""

from collections.abc import Iterator

from processors.fold.state import BrokerSet, Replica
from processors.liveness.mass_silence import COUNT_AGAIN_MS, MASS_SILENCE_BROKERS, MassSilence
from processors.liveness.pulses import Heartbeat
from processors.liveness.replicas import Liveness

TIMEOUT_MS = 1_000
HOLD_MS = 5_000


def world(sets: int) -> list[BrokerSet]:
    return [
        BrokerSet(
            "C",
            f"s{number}",
            replicas=tuple(Replica(i, f"s{number}-{i}:1", "c", is_registered=True) for i in (1, 2)),
        )
        for number in range(sets)
    ]


def beat(liveness: Liveness, sets: list[BrokerSet], now_ms: int) -> None:
    for one in sets:
        for replica in one.replicas:
            key = ("C", one.broker_name, replica.broker_id)
            liveness.heard(
                Heartbeat(key, replica.address, timeout_ms=TIMEOUT_MS), hash(key), now_ms
            )


def test_silence_of_more_than_half_holds_for_a_bounded_time_and_anew_when_it_comes_again() -> None:
    sets, liveness, silence = world(10), Liveness(), MassSilence()
    beat(liveness, sets, 0)
    assert not silence.holds(sets, liveness, 10, HOLD_MS)
    now_ms = TIMEOUT_MS + 1
    liveness.tick(now_ms)
    assert silence.holds(sets, liveness, now_ms, HOLD_MS)
    assert silence.holds(sets, liveness, now_ms + HOLD_MS - 1, HOLD_MS)
    assert not silence.holds(sets, liveness, now_ms + HOLD_MS, HOLD_MS)
    beat(liveness, sets, 9_000)
    assert not silence.holds(sets, liveness, 9_001, HOLD_MS)
    for at_ms in range(9_001, 20_001, 500):
        liveness.tick(at_ms)
    assert silence.holds(sets, liveness, 20_000, HOLD_MS)


def test_half_of_them_or_few_of_them_are_no_mass() -> None:
    sets, liveness = world(10), Liveness()
    beat(liveness, sets[:5], 0)
    assert not MassSilence().holds(sets, liveness, 10, HOLD_MS)
    few = world(MASS_SILENCE_BROKERS // 2)
    assert not MassSilence().holds(few, Liveness(), 10, HOLD_MS)


def test_who_was_never_heard_is_silent_and_another_leadership_counts_anew() -> None:
    sets, liveness, silence = world(10), Liveness(), MassSilence()
    assert silence.holds(sets, liveness, 0, HOLD_MS)
    assert not silence.holds(sets, liveness, HOLD_MS, HOLD_MS)
    silence.forget()
    assert silence.holds(sets, liveness, HOLD_MS + 1, HOLD_MS)


def test_a_mass_that_comes_back_one_by_one_is_not_counted_for_each() -> None:
    """With thousands of sets every count takes the loop many milliseconds, and every heartbeat
    asks.
    """
    sets, liveness, silence = world(30), Liveness(), MassSilence()
    looks = 0

    class Counted(list[BrokerSet]):
        def __iter__(self) -> Iterator[BrokerSet]:
            nonlocal looks
            looks += 1
            return super().__iter__()

    everybody = Counted(sets)
    for now_ms in range(COUNT_AGAIN_MS):
        assert silence.holds(everybody, liveness, now_ms, HOLD_MS)
    assert looks == 1
    beat(liveness, sets, COUNT_AGAIN_MS)
    assert not silence.holds(everybody, liveness, COUNT_AGAIN_MS, HOLD_MS)
    looks = 0
    for now_ms in range(COUNT_AGAIN_MS + 1, TIMEOUT_MS):
        assert not silence.holds(everybody, liveness, now_ms, HOLD_MS)
    assert looks == 0, "nobody fell silent"
    later_ms = COUNT_AGAIN_MS + TIMEOUT_MS + 1
    liveness.tick(later_ms)
    assert silence.holds(everybody, liveness, later_ms, HOLD_MS), (
        "who falls silent is counted at once"
    )
