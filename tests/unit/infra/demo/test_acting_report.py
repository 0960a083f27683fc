"""The verdict on a demo of sets without controllers, and its words."""

from __future__ import annotations

from typing import Any

import pytest

from infra.demo.acting_report import WINDOW_MS, render, verdict

APPLICATION = {
    "what": "timed",
    "acknowledged": 9,
    "lost": 0,
    "early": 0,
    "unhit": 0,
    "twice": 1,
    "twice_before_blow_ms_max": 900,
    "late_ms_median": 100,
    "late_ms_max": 4_000,
    "wrong": [],
    "crossed": 5,
    "note": "",
}
STEPS = [
    {
        "kind": "away",
        "step": "kill",
        "set": "a",
        "killed": "a-0",
        "acts": "a-1",
        "acting_route_s": 1.2,
        "read_from_slave": 7,
        "away_s": 18.0,
    },
    {
        "kind": "returned",
        "step": "start",
        "set": "a",
        "started": "a-0",
        "writable_s": 2.0,
        "whole_s": 3.0,
        "takes_over": True,
        "places_found": {},
        "places_kept": {},
    },
    {"kind": "restarted", "step": "kill", "killed": "b-0", "writable_s": 2.0},
]
PERIOD = {
    "broker_name": "a",
    "broker_id": 1,
    "since_ms": 1_000,
    "until_ms": 21_000,
    "master_back_ms": 20_000,
    "messages": 9,
}
LOGS = {"set": "a", "equal": True, "bytes": 10, "first_difference": None}


def document(**changes: Any) -> dict[str, Any]:
    whole = {
        "problems": [],
        "steps": STEPS,
        "applications": [APPLICATION],
        "logs": [LOGS],
        "history": {"periods": [PERIOD], "missing": [], "asked": []},
        "seconds": 90.0,
    }
    return {**whole, **changes}


def test_a_run_that_kept_every_promise_is_good() -> None:
    assert verdict(document()) == []
    told = "\n".join(render(document()))
    assert "GOOD: a slave acted" in told
    assert "5 came through the other set" in told
    assert "broker 1 of a acted for 20.0 s" in told


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"lost": 1}, "timed: 1 acknowledged and lost"),
        ({"early": 2}, "timed: 2 there before their time"),
        ({"unhit": 1}, "timed: 1 there twice although nobody was hit between"),
        ({"wrong": ["out of order"]}, "timed: out of order"),
        ({"crossed": 0}, "timed: nothing that was due came through the other set"),
        ({"acknowledged": 0}, "timed: nothing was acknowledged"),
    ],
)
def test_a_broken_promise_to_an_application_is_named(change: dict[str, Any], why: str) -> None:
    assert verdict(document(applications=[{**APPLICATION, **change}])) == [why]


def test_what_is_done_twice_beyond_the_window_is_named() -> None:
    late = {**APPLICATION, "twice_before_blow_ms_max": WINDOW_MS + 1}
    (why,) = verdict(document(applications=[late]))
    assert why.startswith("timed: done ") and "at most is promised" in why


@pytest.mark.parametrize(
    ("place", "change", "why"),
    [
        (0, {"read_from_slave": 0}, "nothing was read from a-1"),
        (1, {"takes_over": False}, "a-0 does not know the places"),
    ],
)
def test_a_step_without_what_it_shows_is_named(
    place: int, change: dict[str, Any], why: str
) -> None:
    steps = [{**one, **change} if at == place else one for at, one in enumerate(STEPS)]
    (found,) = verdict(document(steps=steps))
    assert found.startswith(why)


def test_logs_that_differ_and_a_history_with_holes_are_named() -> None:
    torn = {**LOGS, "equal": False, "first_difference": 5}
    asked = [{"command": "regent lake check", "code": 1}]
    history = {"periods": [], "missing": ["no slave of a is known to have acted"], "asked": asked}
    assert verdict(document(logs=[torn], history=history)) == [
        "the logs of a differ at offset 5",
        "history: no slave of a is known to have acted",
        "'regent lake check' ended with exit code 1",
    ]


def test_a_run_that_broke_off_is_not_good() -> None:
    assert verdict({"problems": [], "steps": []}) == ["the run did not come to its end"]
    assert verdict({"problems": ["x"], "steps": []}) == ["x"]
