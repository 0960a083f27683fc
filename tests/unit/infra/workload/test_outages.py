from infra.workload.outages import NS_PER_MS, OutageMeter


def test_an_outage_runs_from_the_first_failed_invocation_to_the_first_success() -> None:
    meter = OutageMeter()
    assert meter.succeeded(1, "a") is None
    meter.failed(100 * NS_PER_MS, 1_100, "a", "closed")
    meter.failed(90 * NS_PER_MS, 1_090, "a", "timeout")  # invoked earlier, known later
    meter.failed(150 * NS_PER_MS, 1_150, "b", "refused")
    assert meter.is_open
    ended = meter.succeeded(390 * NS_PER_MS, "b")
    assert ended is not None and not meter.is_open and meter.finished == [ended]
    assert (ended.rto_ms, ended.started_wall_ms, ended.failed_calls) == (300.0, 1_090, 3)
    assert (ended.first_error, ended.address_before, ended.address_after) == ("closed", "a", "b")


def test_the_longest_gap_lies_between_two_successes_whether_or_not_calls_failed() -> None:
    meter = OutageMeter()
    assert meter.longest_gap_ms == 0.0
    for at_ms in (10, 20, 90):
        meter.succeeded(at_ms * NS_PER_MS, "a")
    assert meter.longest_gap_ms == 70.0
    meter.failed(95 * NS_PER_MS, 0, "a", "closed")
    meter.succeeded(290 * NS_PER_MS, "b")
    meter.succeeded(300 * NS_PER_MS, "b")
    assert meter.longest_gap_ms == 200.0
