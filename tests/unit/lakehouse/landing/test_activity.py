import logging
import threading
import time

import pytest

from lakehouse.landing.background import Activity

SOON_S, NEVER_S, WAIT_S = 0.001, 3600.0, 20.0


def test_rounds_go_on_after_one_that_failed_and_each_trouble_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str | None] = []
    enough = threading.Event()

    def step(stopped: object) -> None:
        if len(told) < 2:
            raise ValueError("no\nroom")

    def troubled(name: str, why: str | None) -> None:
        told.append(why)
        if len(told) == 3:
            enough.set()

    with caplog.at_level(logging.WARNING):
        activity = Activity("care", SOON_S, step, troubled)
        activity.start()
        assert enough.wait(WAIT_S)
        activity.stop(WAIT_S)
    assert told[:3] == ["ValueError: no room", "ValueError: no room", None]
    assert [record.getMessage() for record in caplog.records] == [
        "care has failed and will be tried again: ValueError: no room"
    ]


def test_the_first_round_waits_and_a_stop_is_at_once() -> None:
    rounds: list[int] = []
    activity = Activity("care", NEVER_S, lambda stopped: rounds.append(1), lambda name, why: None)
    activity.start()
    began = time.monotonic()
    activity.stop(WAIT_S)
    assert not rounds and time.monotonic() - began < WAIT_S


def test_a_round_at_work_is_told_to_stop_and_its_failure_then_is_nobodys() -> None:
    began, told = threading.Event(), []

    def step(stopped: object) -> None:
        began.set()
        while not stopped():  # type: ignore[operator]
            time.sleep(SOON_S)
        raise ValueError("cut off")

    activity = Activity("care", SOON_S, step, lambda name, why: told.append(why))
    activity.start()
    assert began.wait(WAIT_S)
    activity.stop(WAIT_S)
    assert not told


def test_one_that_never_began_can_be_stopped() -> None:
    Activity("care", SOON_S, lambda stopped: None, lambda name, why: None).stop(WAIT_S)
