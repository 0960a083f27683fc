"""What a set costs is a slope; what stands in the table follows from what was measured."""

from __future__ import annotations

import pytest

from tests.bench.history_writer import Written
from tests.bench.rows import controller_start, decisions_beside_java, set_cost


def test_the_slope_is_the_cost_of_one_more_set_whatever_the_base_costs() -> None:
    points = [
        (10.0, 0.05 + 10 * 0.0002),
        (100.0, 0.05 + 100 * 0.0002),
        (1_000.0, 0.05 + 1_000 * 0.0002),
    ]
    assert set_cost.slope(points) == pytest.approx(0.0002)


def test_the_figures_name_the_slope_in_microseconds_and_the_rate_of_decisions() -> None:
    slope, inside, joined = set_cost.figures(
        [(10.0, 0.01), (110.0, 0.02)], [(10, 1.0), (110, 7.0)], 1.0, 0.2
    )
    assert slope.value == pytest.approx(100.0)
    assert slope.ratio == pytest.approx(100.0 / 20.0)
    assert inside.value == pytest.approx(100.0)
    assert joined.value == 7.0 and "110/s" in joined.note


def test_ten_thousand_sets_in_process_is_measured_on_a_real_core() -> None:
    inside_s, decoding_s = set_cost.in_process(3)
    assert inside_s > 0 and decoding_s > 0


def test_a_start_is_shown_beside_reading_and_beside_the_start_without_snapshot() -> None:
    whole, snapshot = controller_start.figures(
        1_000_000, 40.0, 2.0, 10.0, Written(1_000_000, 25.0, 188.0)
    )
    assert whole.ratio == 4.0 and "1 M" in whole.what
    assert snapshot.ratio == pytest.approx(0.05)


def test_java_that_cannot_be_run_is_said_so() -> None:
    ours = decisions_beside_java.Rates([1_000.0], [2.0], 0)
    assert all(
        figure.value is None and "no Java" in figure.note
        for figure in decisions_beside_java.compared(1, ours, None)
    )


def test_both_controllers_stand_side_by_side() -> None:
    ours, java = (
        decisions_beside_java.Rates([1_000.0], [2.0], 0),
        decisions_beside_java.Rates([500.0], [4.0], 1),
    )
    many, alone = decisions_beside_java.compared(3, ours, java)
    assert many.ratio == 2.0 and alone.ratio == 0.5 and "Java's 1" in many.note
