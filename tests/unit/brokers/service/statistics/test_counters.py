"""Counts of messages, and their rates over a minute, an hour and a day."""

import pytest

from brokers.service.statistics import counters
from brokers.service.statistics.counters import KEYS_MAX, Statistics

DAY = 7


def counted(seconds: int, per_second: int = 5) -> Statistics:
    """So many messages of 100 bytes stored and given each second."""
    statistics = Statistics("c")
    statistics.stored("T", 0, 0)
    for second in range(seconds + 1):
        statistics.sample(second * 1_000, DAY)
        if second < seconds:
            statistics.stored("T", per_second, 100 * per_second)
            statistics.given("T", "g", per_second, 90 * per_second)
    return statistics


def test_75_a_minute_is_between_its_oldest_and_its_newest_snapshot() -> None:
    view = counted(60).view("TOPIC_PUT_NUMS", "T")
    assert view is not None
    assert (view["statsMinute"]["sum"], view["statsMinute"]["tps"]) == (300, 5.0)
    assert view["statsMinute"]["avgpt"] == 5.0
    assert view["statsHour"]["sum"] == 0, "one snapshot is no time"
    hour = counted(3_600).view("TOPIC_PUT_SIZE", "T")
    assert hour is not None
    assert (hour["statsHour"]["sum"], hour["statsHour"]["tps"]) == (1_800_000, 500.0)


@pytest.mark.parametrize(
    ("name", "key", "sum_"),
    [
        ("TOPIC_PUT_NUMS", "T", 100),
        ("TOPIC_PUT_SIZE", "T", 10_000),
        ("GROUP_GET_NUMS", "T@g", 50),  # its first snapshot is that of ten seconds
        ("GROUP_GET_SIZE", "T@g", 4_500),
        ("BROKER_PUT_NUMS", "c", 100),
        ("BROKER_GET_NUMS", "c", 100),
    ],
)
def test_what_is_told_under_which_name(name: str, key: str, sum_: int) -> None:
    view = counted(20).view(name, key)
    assert view is not None and view["statsMinute"]["sum"] == sum_


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TOPIC_PUT_NUMS", "nobody"),
        ("GROUP_GET_NUMS", "T"),
        ("BROKER_PUT_NUMS", "d"),
        ("SNDBCK_PUT_NUMS", "T@g"),
        ("", ""),
    ],
)
def test_what_was_never_counted_is_said_so(name: str, key: str) -> None:
    assert counted(1).view(name, key) is None


def test_71_rates_of_ten_seconds_a_minute_and_ten_minutes() -> None:
    statistics = counted(10)
    for second in range(11, 31):
        statistics.sample(second * 1_000, DAY)
    rates = statistics.rates()
    assert rates["putTps"] == "0.0000 1.6667 1.6667"
    assert rates["getTransferredTps"] == "0.0000 1.6667 1.6667"
    assert rates["getFoundTps"] == "0.0000 0.3333 0.3333"
    assert Statistics("c").rates()["putTps"] == "0.0000 0.0000 0.0000"


def test_reads_without_messages_are_counted_apart() -> None:
    statistics = Statistics("c")
    statistics.sample(0, DAY)
    for _ in range(4):
        statistics.given("T", "g", 0, 0)
    statistics.sample(2_000, DAY)
    rates = statistics.rates()
    assert (rates["getMissTps"][:6], rates["getTotalTps"][:6]) == ("2.0000", "2.0000")
    assert rates["getFoundTps"][:6] == "0.0000" and statistics.view("GROUP_GET_NUMS", "T@g") is None


def test_72_totals_at_midnight() -> None:
    statistics = counted(10)
    assert (statistics.this_morning, statistics.yesterday_morning) == ((0, 0), (0, 0))
    statistics.sample(20_000, DAY + 1)
    statistics.stored("T", 1, 1)
    statistics.sample(30_000, DAY + 2)
    assert (statistics.this_morning, statistics.yesterday_morning) == ((51, 50), (50, 50))


def test_names_beyond_the_limit_are_in_the_totals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEYS_MAX >= 1_000
    monkeypatch.setattr(counters, "KEYS_MAX", 2)
    statistics = Statistics("c")
    for topic in "abc":
        statistics.stored(topic, 1, 10)
        statistics.given(topic, "g", 1, 10)
    assert statistics.view("TOPIC_PUT_NUMS", "c") is None
    assert statistics.view("GROUP_GET_NUMS", "c@g") is None
    assert (statistics.stored_all.messages, statistics.given_all.messages) == (3, 3)


def test_what_was_idle_for_a_day_is_forgotten() -> None:
    statistics = counted(1)
    for hour in range(1, 27):
        statistics.sample(hour * 3_600_000, DAY)
    assert statistics.view("TOPIC_PUT_NUMS", "T") is None
    assert statistics.view("GROUP_GET_NUMS", "T@g") is None


def test_what_consumers_sent_back_is_counted_by_topic_and_group() -> None:
    counted = Statistics("c")
    counted.sample(0, 1)
    counted.sent_back("T", "g", dead=False)
    counted.sent_back("T", "g", dead=True)
    counted.sample(10_000, 1)
    counted.sample(20_000, 1)
    found = counted.view("SNDBCK_PUT_NUMS", "T@g")
    assert found is not None and counted.view("SNDBCK_PUT_NUMS", "T@h") is None
    assert counted.dead_letters == {("T", "g"): 1}


def test_rates_of_the_timer_are_those_of_the_last_minute() -> None:
    counted = Statistics("c")
    counted.sample(0, 1, (10, 4))
    counted.sample(2_000, 1, (30, 5))
    assert counted.timer_rates() == (10.0, 0.5)
