"""Held pulls: woken, expired or dropped, once."""

import random

from brokers.service.reading.held_pulls import HELD_PER_CONNECTION_MAX, HeldPull, HeldPulls


def pull(
    offset: int = 0, deadline_ms: int = 100, topic: str = "T", connection: int = 1
) -> HeldPull:
    return HeldPull(topic, 0, offset, deadline_ms, connection, None)


def test_a_dispatch_wakes_the_pulls_that_have_something_to_read() -> None:
    held = HeldPulls()
    first, second, other = pull(5), pull(6), pull(5, topic="U")
    for each in (first, second, other):
        assert held.hold(each)
    assert held.dispatched("T", 0, 5) == []
    assert held.dispatched("T", 0, 6) == [first]
    assert held.dispatched("T", 0, 6) == [] and held.count == 2


def test_time_releases_the_rest_in_the_order_of_their_deadlines() -> None:
    held = HeldPulls()
    late, early = pull(deadline_ms=20), pull(deadline_ms=10)
    held.hold(late)
    held.hold(early)
    assert held.expired(9) == [] and held.expired(20) == [early, late] and held.count == 0


def test_a_pull_may_be_held_again() -> None:
    held = HeldPulls()
    one = pull(1)
    held.hold(one)
    assert held.dispatched("T", 0, 2) == [one]
    one.offset = 2
    held.hold(one)
    assert held.dispatched("T", 0, 2) == [] and held.expired(100) == [one]


def test_a_closed_connection_drops_its_pulls_only() -> None:
    held = HeldPulls()
    mine, others = pull(connection=1), pull(connection=2)
    held.hold(mine)
    held.hold(others)
    held.connection_closed(1)
    assert held.release_all() == [others] and held.count == 0


def test_one_connection_cannot_hold_more_than_its_share() -> None:
    held = HeldPulls()
    assert all(held.hold(pull()) for _ in range(HELD_PER_CONNECTION_MAX))
    assert not held.hold(pull()) and held.hold(pull(connection=2))


def test_no_pull_is_released_twice_or_forgotten_under_any_order() -> None:
    seed = random.Random(7)
    held, waiting = HeldPulls(), set()
    for step in range(3000):
        if seed.random() < 0.6:
            each = pull(
                seed.randrange(50), step + seed.randrange(100), connection=seed.randrange(5)
            )
            held.hold(each)
            waiting.add(each)
        else:
            released = held.dispatched("T", 0, seed.randrange(50)) + held.expired(step)
            assert len(released) == len(set(released)) and set(released) <= waiting
            waiting -= set(released)
        assert held.count == len(waiting)
    assert set(held.release_all()) == waiting
