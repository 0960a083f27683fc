"""The check beside landing: it finds what landed, tells each alarm once, and its own trouble stays its own."""

import logging
import threading

import pytest

from lakehouse import check_activity
from lakehouse.check_activity import CheckActivity
from lakehouse.lake import Lake
from lakehouse.lake_check import standing_alarms
from tests.support.judged_history import sound_history
from tests.support.landed_log import append_to_bronze, command_records, land, outcome_records

RECORDS = sound_history().records
COMMANDS, OUTCOMES = command_records(RECORDS), outcome_records(RECORDS)


def test_an_alarm_is_told_when_it_comes_and_when_it_goes(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    land(lake, [*COMMANDS, *OUTCOMES[:5]])
    append_to_bronze(lake, OUTCOMES[7:])
    activity = CheckActivity(lake, 3600)
    activity.check()
    activity.check()
    assert [one.levelname for one in caplog.records] == ["ERROR"] and "regent.outcomes-0 offset 5" in caplog.text
    assert activity.last is not None and activity.last.exit_code == 1 and len(standing_alarms(lake)) == 1
    append_to_bronze(lake, OUTCOMES[5:7])
    activity.check()
    assert "alarm cleared" in caplog.text and not standing_alarms(lake)


def test_a_check_that_fails_is_told_and_made_again(lake: Lake) -> None:
    activity = CheckActivity(lake, 3600)
    activity.check()
    assert activity.failure is not None and "NotLanded" in activity.failure
    land(lake, [*COMMANDS, *OUTCOMES])
    activity.check()
    assert activity.failure is None and activity.last is not None and activity.last.exit_code == 0


def test_it_checks_by_itself_until_it_is_stopped(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    checked, may_go_on = threading.Semaphore(0), threading.Event()

    def step(_: Lake) -> None:
        checked.release()
        may_go_on.wait(20)
        raise RuntimeError("of another place")

    monkeypatch.setattr(check_activity, "check_step", step)
    activity = CheckActivity(lake, 0.001)
    activity.start()
    assert checked.acquire(timeout=20)
    may_go_on.set()
    assert checked.acquire(timeout=20), "what went wrong does not end it"
    activity.stop(20)
    assert not activity._thread.is_alive()
