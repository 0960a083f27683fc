import subprocess
import sys

from infra.cluster.child import (
    CALM_AFTER_S,
    DELAY_S_MAX,
    FIRST_DELAY_S,
    START_DEATHS_MAX,
    Child,
    RestartPolicy,
)
from infra.cluster.plan import ProcessSpec


def ended(code: str) -> Child:
    process = subprocess.Popen([sys.executable, "-c", code])
    process.wait()
    return Child(
        ProcessSpec("n", "namesrv", {"listen": "h:1"}, ("h:1",), "h:1"),
        process,
        0.0,
        last_exit=process.returncode,
    )


def test_it_says_in_words_how_it_ended() -> None:
    assert ended("raise SystemExit(3)").how_it_ended() == "ended with exit code 3"
    assert ended("import os; os.kill(os.getpid(), 9)").how_it_ended() == "was killed by SIGKILL"


def test_an_ended_process_is_shown_without_a_pid() -> None:
    shown = ended("pass").public()
    assert shown["pid"] is None and shown["address"] == "h:1" and shown["last_exit"] == 0


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
