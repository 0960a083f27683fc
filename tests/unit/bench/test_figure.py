"""Gauges of the benchmark: ratios, floors, goals, exit code."""

from __future__ import annotations

import json

import pytest

from tests.bench.figure import Figure, at_least, at_most, exit_code, not_measured, share_at_least


def test_ratio_is_value_over_peer() -> None:
    assert Figure("r", "w", "MB/s", 30.0, "peer", 60.0).ratio == 0.5


@pytest.mark.parametrize(("value", "peer"), [(None, 60.0), (30.0, None), (30.0, 0.0)])
def test_no_ratio_without_both_sides(value: float | None, peer: float | None) -> None:
    assert Figure("r", "w", "s", value, "peer", peer).ratio is None


def test_bounds_hold_at_their_limit() -> None:
    assert Figure("r", "w", "s", 1.5, floor=at_most(1.5)).holds is True
    assert Figure("r", "w", "s", 1.51, floor=at_most(1.5)).holds is False
    assert Figure("r", "w", "n/s", 12_000, floor=at_least(12_000)).holds is True
    assert Figure("r", "w", "n/s", 11_999, floor=at_least(12_000)).holds is False


def test_a_share_speaks_of_the_ratio() -> None:
    assert Figure("r", "w", "MB/s", 39.0, "p", 100.0, floor=share_at_least(0.4)).holds is False
    assert Figure("r", "w", "MB/s", 40.0, "p", 100.0, floor=share_at_least(0.4)).holds is True
    assert Figure("r", "w", "MB/s", 40.0, floor=share_at_least(0.4)).holds is None


def test_goal_is_judged_apart_from_the_floor() -> None:
    figure = Figure("r", "w", "s", 1.0, floor=at_most(1.5), goal=at_most(0.25))
    assert (figure.holds, figure.reached) == (True, False)


def test_exit_code_knows_only_required_figures() -> None:
    good = Figure("r", "w", "s", 1.0, floor=at_most(1.5), required=True)
    broken = Figure("r", "w", "s", 2.0, floor=at_most(1.5))
    assert exit_code([good, broken]) == 0
    assert exit_code([good, Figure("r", "w", "s", 2.0, floor=at_most(1.5), required=True)]) == 1


def test_a_required_figure_that_cannot_be_measured_is_not_a_success() -> None:
    missing = not_measured("r", "w", "s", "no JDK", required=True, floor=at_most(1.5))
    assert exit_code([missing]) == 2
    assert exit_code([missing, Figure("r", "w", "s", 2.0, floor=at_most(1.5), required=True)]) == 1
    assert exit_code([not_measured("r", "w", "s", "no JDK")]) == 0


def test_the_document_is_json_and_says_it_all() -> None:
    figure = Figure(
        "r",
        "w",
        "s",
        1.0,
        "peer",
        4.0,
        at_most(1.5),
        at_most(0.5),
        True,
        "n",
        (1.0, 0.5),
        {"k": [1]},
    )
    found = json.loads(json.dumps(figure.document()))
    assert found["ratio"] == 0.25
    assert (found["floor"], found["goal"], found["holds"], found["reached"]) == (
        "<= 1.5 s",
        "<= 0.5 s",
        True,
        False,
    )
    assert found["samples"] == [1.0, 0.5]
