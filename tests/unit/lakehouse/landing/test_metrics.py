import urllib.request

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.landing import metrics
from lakehouse.landing.metrics import Lag, LagWatch, LandingMetrics, serve
from lakehouse.landing.status import LandingStatus

STATUS = LandingStatus(
    ready=True,
    landed={"regent.commands-0": 40},
    detailed={"regent.commands-0": 30},
    lag_records={"regent.commands-0": 7},
    lag_ms={"regent.commands-0": 1500},
    lost_records={"regent.broker-events-2": 150},
    alarms=2,
    troubles={"care": "no room"},
)


def scraped(metrics: LandingMetrics) -> list[str]:
    address, stop = serve("127.0.0.1:0", metrics)
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            return answer.read().decode().splitlines()
    finally:
        stop()


def test_a_scrape_shows_lag_in_records_and_seconds_batches_rows_and_alarms() -> None:
    metrics = LandingMetrics(lambda: STATUS)
    metrics.batch_done("landed", 12, 300)
    metrics.batch_done("landed", 8, 700)
    lines = scraped(metrics)
    for line in (
        "regent_landing_ready 1.0",
        "regent_landing_failed 0.0",
        'regent_landing_lag_records{partition="regent.commands-0"} 7.0',
        'regent_landing_lag_seconds{partition="regent.commands-0"} 1.5',
        'regent_landing_landed_offset{partition="regent.commands-0"} 40.0',
        'regent_landing_detailed_offset{partition="regent.commands-0"} 30.0',
        'regent_landing_rows_total{query="landed"} 20.0',
        'regent_landing_batch_seconds_count{query="landed"} 2.0',
        'regent_landing_batch_seconds_sum{query="landed"} 1.0',
        'regent_landing_batch_seconds_bucket{le="0.5",query="landed"} 1.0',
        "regent_lake_alarms 2.0",
        'regent_lake_lost_records{partition="regent.broker-events-2"} 150.0',
        "regent_landing_troubles 1.0",
    ):
        assert line in lines, line


def test_before_the_first_check_no_number_of_alarms_is_claimed() -> None:
    assert not [line for line in scraped(LandingMetrics(LandingStatus)) if "alarms" in line]


@pytest.mark.parametrize("listen", ["127.0.0.1:none", "127.0.0.1:70000", "203.0.113.1:1"])
def test_an_address_that_cannot_be_bound_is_named(listen: str) -> None:
    with pytest.raises(LakehouseError, match=f"metrics_listen {listen} cannot be bound"):
        serve(listen, LandingMetrics(LandingStatus))


def test_nothing_is_behind_when_all_has_landed() -> None:
    watch = LagWatch()
    assert watch.note(0, {"t-0": 5}, {"t-0": 5}) == Lag({"t-0": 0}, {"t-0": 0})
    assert (Lag().all_records, Lag().longest_ms) == (0, 0)


def test_the_oldest_record_that_has_not_landed_ages_until_it_lands() -> None:
    watch = LagWatch()
    watch.note(0, {"t-0": 5}, {"t-0": 5})
    assert watch.note(1_000, {"t-0": 8}, {"t-0": 5}).age_ms == {"t-0": 0}
    behind = watch.note(3_000, {"t-0": 9}, {"t-0": 5})
    assert (behind.records, behind.age_ms) == ({"t-0": 4}, {"t-0": 2_000})
    # Records 5 to 7 have landed; 8 was seen first at 3,000.
    assert watch.note(4_000, {"t-0": 9}, {"t-0": 8}).age_ms == {"t-0": 1_000}
    assert watch.note(5_000, {"t-0": 9}, {"t-0": 9}).age_ms == {"t-0": 0}


def test_a_partition_that_nothing_landed_of_counts_from_its_first_sighting() -> None:
    watch = LagWatch()
    watch.note(0, {"t-0": 2, "t-1": 0}, {})
    behind = watch.note(700, {"t-0": 2, "t-1": 0}, {})
    assert (behind.all_records, behind.longest_ms) == (2, 700)


def test_a_quiet_log_does_not_age_what_comes_later() -> None:
    watch = LagWatch()
    watch.note(0, {"t-0": 1}, {"t-0": 1})
    assert watch.note(3_600_000, {"t-0": 2}, {"t-0": 1}).longest_ms == 0


def test_sightings_are_bounded_and_the_oldest_is_kept() -> None:
    watch = LagWatch()
    for i in range(3 * metrics.SIGHTINGS_MAX):
        behind = watch.note(i, {"t-0": i + 1}, {})
    assert behind.longest_ms == 3 * metrics.SIGHTINGS_MAX - 1
    assert len(watch._seen["t-0"]) <= metrics.SIGHTINGS_MAX
