"""What the demo of sets without controllers takes for a change of who delivers."""

from __future__ import annotations

from infra.demo.acting import QUESTIONS, changes
from infra.demo.acting_load import ActingLoad
from infra.features.counts import Blow


def test_a_kill_lasts_until_it_is_done_and_a_return_takes_a_while() -> None:
    """A supervisor is asked for the kill: what is done before it acts is done before the kill."""
    away = {"killed": "a-0", "at_ms": 10, "killed_ms": 12}
    back = {"started": "a-0", "at_ms": 50, "ended_ms": 60}
    anew = {"killed": "b-0", "at_ms": 80, "ended_ms": 95}
    assert changes(away, back, anew) == [Blow(10, 12), Blow(50, 50, 60), Blow(80, 80, 95)]


def test_all_that_leaves_a_set_is_under_way_besides_orders() -> None:
    load = ActingLoad(["h:1"])
    assert [use.what for use in load.uses] == [
        *("orders", "delayed", "timed", "transactions", "pops")
    ]
    assert load.progress() == dict.fromkeys((use.what for use in load.uses), 0)
    assert not load.has_grown(load.progress(), 1)


def test_the_tables_explain_the_set_and_are_asked_whether_they_are_sound() -> None:
    assert {("explain", "broker-a"), ("lake", "check")} <= set(QUESTIONS)
