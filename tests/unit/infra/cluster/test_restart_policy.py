from infra.cluster.restart_policy import (
    CALM_AFTER_S,
    DELAY_S_MAX,
    FIRST_DELAY_S,
    START_DEATHS_MAX,
    RestartPolicy,
)


def test_the_first_restart_is_at_once_and_later_ones_wait_ever_longer_up_to_a_bound() -> None:
    policy = RestartPolicy()
    policy.was_ready()
    delays = [policy.died(0.1) for _ in range(10)]
    assert delays[:2] == [0.0, FIRST_DELAY_S]
    assert delays == sorted(delays, key=lambda d: d or 0) and delays[-1] == DELAY_S_MAX


def test_a_long_life_clears_the_record() -> None:
    policy = RestartPolicy()
    policy.was_ready()
    for _ in range(5):
        policy.died(0.1)
    assert policy.died(CALM_AFTER_S) == 0.0


def test_a_child_that_never_came_up_is_given_up() -> None:
    policy = RestartPolicy()
    assert [policy.died(0.1) for _ in range(START_DEATHS_MAX)][-1] is None
