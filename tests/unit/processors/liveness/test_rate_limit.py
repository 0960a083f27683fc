"""Tokens per name."""

from hypothesis import given
from hypothesis import strategies as st

from processors.liveness.rate_limit import RateLimit


def taken(
    limit: RateLimit, name: str, times: list[int], rate: int = 10, burst: int = 20, cost: int = 1
) -> int:
    return sum(limit.take(name, at, rate_per_s=rate, burst=burst, cost=cost) for at in times)


def test_a_burst_is_served_and_then_the_rate() -> None:
    limit = RateLimit()
    assert taken(limit, "a", [0] * 100) == 20
    assert taken(limit, "a", [99]) == 0 and taken(limit, "a", [100]) == 1
    assert taken(limit, "a", list(range(1_000, 11_000, 10))) <= 20 + 10 * 10


def test_names_do_not_take_from_each_other() -> None:
    limit = RateLimit()
    taken(limit, "a", [0] * 100)
    assert taken(limit, "b", [0] * 100) == 20


def test_a_thing_that_costs_more_than_one_token_comes_less_often() -> None:
    limit = RateLimit()
    assert taken(limit, "a", [0] * 10, rate=1, burst=30, cost=10) == 3
    assert taken(limit, "a", [9_999], rate=1, burst=30, cost=10) == 0
    assert taken(limit, "a", [10_000], rate=1, burst=30, cost=10) == 1


def test_a_forgotten_name_starts_anew_and_the_names_are_bounded() -> None:
    limit = RateLimit(names_max=3)
    taken(limit, "a", [0] * 100)
    limit.forget("a")
    assert taken(limit, "a", [0]) == 1
    for name in "bcdef":
        taken(limit, name, [0])
    assert len(limit) == 3


@given(st.lists(st.integers(0, 50), max_size=200), st.integers(1, 100), st.integers(1, 50))
def test_never_more_than_burst_and_rate(gaps: list[int], rate: int, burst: int) -> None:
    times = [sum(gaps[: place + 1]) for place in range(len(gaps))]
    span_ms = times[-1] - times[0] if times else 0
    assert taken(RateLimit(), "a", times, rate, burst) <= burst + rate * span_ms / 1000 + 1
