"""How long appends take, as tools read it (check list 72)."""

from brokers.service.statistics.append_times import AppendTimes


def test_72_steps_are_those_of_the_last_whole_minute_and_each_has_its_place() -> None:
    times = AppendTimes()
    times.sample(1_000)
    for took_ms in (0, 1, 10, 11, 50, 51, 10_000, 10_001):
        times.appended(took_ms, 2)
    assert times.steps().startswith("[<=0ms]:0 [0~10ms]:0 ")
    times.sample(60_999)
    assert "[<=0ms]:0 " in times.steps()
    times.sample(61_000)
    assert times.steps() == (
        "[<=0ms]:2 [0~10ms]:4 [10~50ms]:4 [50~100ms]:2 [100~200ms]:0 [200~500ms]:0 [500ms~1s]:0 "
        "[1~2s]:0 [2~3s]:0 [3~4s]:0 [4~5s]:0 [5~10s]:2 [10s~]:2 "
    )
    times.sample(121_000)
    assert "[10s~]:0 " in times.steps() and times.slowest_ms == 10_001


def test_72_quantiles_are_of_the_newest_appends() -> None:
    times = AppendTimes()
    assert times.below_ms(0.99) == 0
    for took_ms in [9_999] * 3 + [1] * 2_000 + [7] * 48:
        times.appended(took_ms, 1)
    assert (times.below_ms(0.5), times.below_ms(0.99)) == (1, 7)


def test_the_slowest_read_is_remembered() -> None:
    times = AppendTimes()
    for took_ms in (3, 9, 2):
        times.read(took_ms)
    assert times.slowest_read_ms == 9
