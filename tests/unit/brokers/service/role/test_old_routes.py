"""How long a broker that is asked to stop still passes on what clients with an old route send."""

import pytest

from brokers.service.role.old_routes import QUIET_MS, READ_MS, OldRoutes

POLL_MS, LIMIT_MS = 30_000, 60_000
WHOLE = POLL_MS + READ_MS


def stop(led: bool = True, clients: int = 1) -> OldRoutes:
    return OldRoutes(100_000, led, clients, POLL_MS, LIMIT_MS)


@pytest.mark.parametrize(
    ("led", "clients", "passed_ms", "left_ms"),
    [
        (False, 0, None, 0),  # a slave that nobody took for the master
        (False, 5, None, 0),  # consumers greet slaves, too
        (False, 0, 69_999, 0),  # all have read a route since
        (False, 0, 70_000, WHOLE),
        (True, 0, None, QUIET_MS),
        (True, 1, None, WHOLE),
        (True, 0, 99_999, WHOLE),
        (True, 3, 99_999, WHOLE),
    ],
)
def test_who_may_still_come_decides_the_wait(
    led: bool, clients: int, passed_ms: int | None, left_ms: int
) -> None:
    assert stop(led, clients).left_ms(100_000, passed_ms, 0) == left_ms


def test_while_requests_come_or_are_under_way_it_goes_on_up_to_the_limit() -> None:
    late = 100_000 + WHOLE
    assert stop().left_ms(late, late - 10, 0) == QUIET_MS - 10
    assert stop().left_ms(late, None, 1) == 1
    end = 100_000 + LIMIT_MS
    assert stop().left_ms(end, end, 1) == 0
