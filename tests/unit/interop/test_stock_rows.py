"""What is right of a stock client's figures, and what is not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.ledger import LedgerRow
from tests.interop.stock_adoptions import judged_step
from tests.interop.stock_pauses import few_repeats, in_order, outages

RIGHT: dict[str, Any] = {
    "acknowledged": 100,
    "lost": 0,
    "out_of_order": 0,
    "stored_twice": 8,
    "outages": [
        {"rto_ms": 900.0, "longest_gap_ms": 2_900.0},
        {"rto_ms": 5_900.0, "longest_gap_ms": 0.0},
        {"rto_ms": 1.0, "longest_gap_ms": 2.0},
    ],
}


def test_a_right_result_passes() -> None:
    assert in_order(RIGHT).ok and outages(RIGHT).ok and few_repeats(RIGHT).ok


@pytest.mark.parametrize("what", ["lost", "out_of_order"])
def test_a_message_that_is_lost_or_out_of_order_fails(what: str) -> None:
    assert not in_order(RIGHT | {what: 1}).ok


def test_more_repeats_than_were_under_way_fail() -> None:
    assert few_repeats(RIGHT | {"stored_twice": 12}).ok
    assert not few_repeats(RIGHT | {"stored_twice": 13}).ok


@pytest.mark.parametrize(
    "times_ms", [[1.0, 2.0, 6_100.0], [3_100.0, 3_100.0, 5.0]], ids=["the longest", "the median"]
)
def test_an_outage_that_is_too_long_fails(times_ms: list[float]) -> None:
    found = [{"rto_ms": one, "longest_gap_ms": 0.0} for one in times_ms]
    assert not outages(RIGHT | {"outages": found}).ok


def test_a_call_that_was_under_way_in_a_step_counts_for_it() -> None:
    before, across, behind = (
        LedgerRow(number, start_ms, end_ms, "SEND_OK")
        for number, (start_ms, end_ms) in enumerate([(0, 90), (95, 1_400), (2_100, 2_110)])
    )
    row = judged_step("adopt", 100, 2_000, [before, across, behind])
    assert row.ok and row.result == "1 calls, 0 failed, longest 1305 ms"
    failed = across._replace(outcome="RemotingTooMuchRequestException")
    assert not judged_step("adopt", 100, 2_000, [before, failed, behind]).ok
    assert not judged_step("adopt", 100, 2_000, [before, behind]).ok, "nothing was sent"
