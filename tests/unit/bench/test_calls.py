"""Recovery times and gaps from the times of calls."""

from __future__ import annotations

from tests.bench.calls import Call, is_calm, longest_gap_ms, recovery

MS = 1_000_000
FAR = 100_000 * MS


def ok(invoked_ms: int, ended_ms: int) -> Call:
    return Call(invoked_ms * MS, ended_ms * MS, True)


def bad(invoked_ms: int, ended_ms: int, error: str = "closed") -> Call:
    return Call(invoked_ms * MS, ended_ms * MS, False, error)


def test_rto_runs_from_the_first_failed_invocation_to_the_first_success() -> None:
    calls = [ok(90, 95), bad(98, 101, "first"), bad(110, 112), ok(120, 150), ok(151, 155)]
    seen = recovery(calls, 100 * MS, FAR)
    assert (seen.rto_ms, seen.failed_calls, seen.first_error) == (52.0, 2, "first")
    assert seen.longest_gap_ms == 55.0


def test_a_success_under_way_before_the_first_failure_ends_nothing() -> None:
    seen = recovery([ok(97, 102), bad(98, 103), ok(99, 100), ok(110, 140)], 100 * MS, FAR)
    assert seen.rto_ms == 42.0


def test_a_success_answered_before_the_failure_is_known_ends_nothing() -> None:
    seen = recovery([ok(120, 130), bad(110, 610, "timeout"), ok(600, 700)], 100 * MS, FAR)
    assert seen.rto_ms == 590.0


def test_failures_after_a_success_show_in_the_time_until_steady() -> None:
    seen = recovery([bad(100, 110), ok(120, 130), bad(131, 140), ok(150, 160)], 100 * MS, FAR)
    assert (seen.rto_ms, seen.steady_ms) == (30.0, 60.0)


def test_no_failed_call_means_no_rto_but_a_gap() -> None:
    seen = recovery([ok(90, 99), ok(99, 900), ok(901, 905)], 100 * MS, FAR)
    assert (seen.rto_ms, seen.failed_calls, seen.longest_gap_ms) == (None, 0, 801.0)


def test_never_recovered_is_said_and_not_invented() -> None:
    seen = recovery([ok(90, 95), bad(98, 101)], 100 * MS, FAR)
    assert (seen.rto_ms, seen.failed_calls) == (None, 1)


def test_what_happened_outside_the_window_does_not_count() -> None:
    calls = [bad(10, 20), ok(90, 95), ok(101, 105), bad(500, 510), ok(511, 600)]
    seen = recovery(calls, 100 * MS, 400 * MS)
    assert (seen.failed_calls, seen.longest_gap_ms) == (0, 10.0)


def test_gaps_are_between_successes_only() -> None:
    assert longest_gap_ms([ok(0, 10), bad(11, 12), ok(20, 40)], 0, FAR) == 30.0
    assert longest_gap_ms([ok(0, 10)], 0, FAR) == 0.0


def test_calm_is_a_row_of_successes() -> None:
    calls = [bad(0, 1), ok(2, 3), ok(4, 5)]
    assert is_calm(calls, 2)
    assert not is_calm(calls, 3)
    assert not is_calm(calls, 4)
