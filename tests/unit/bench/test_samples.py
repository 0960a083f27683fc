"""Median and percentiles."""

from __future__ import annotations

import pytest

from tests.bench.samples import median, percentile


def test_median_is_the_middle_or_the_mean_of_the_two_middles() -> None:
    assert median([3, 1, 2]) == 2
    assert median([4, 1, 2, 3]) == 2.5


def test_percentile_is_a_sample_that_enough_others_do_not_exceed() -> None:
    samples = list(range(1, 41))
    assert percentile(samples, 0.95) == 38
    assert percentile(samples, 1.0) == 40
    assert percentile(samples, 0.0) == 1
    assert percentile([7], 0.5) == 7


@pytest.mark.parametrize("of", [median, lambda samples: percentile(samples, 0.5)])
def test_nothing_has_no_middle(of: object) -> None:
    with pytest.raises(ValueError, match="no samples"):
        of([])  # type: ignore[operator]
