import urllib.request

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.landing.metrics import LandingMetrics, serve
from lakehouse.landing.status import LandingStatus

STATUS = LandingStatus(
    ready=True,
    landed={"regent.commands-0": 40},
    detailed={"regent.commands-0": 30},
    lag_records={"regent.commands-0": 7},
    lag_ms={"regent.commands-0": 1500},
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
        "regent_landing_troubles 1.0",
    ):
        assert line in lines, line


def test_before_the_first_check_no_number_of_alarms_is_claimed() -> None:
    assert not [line for line in scraped(LandingMetrics(LandingStatus)) if "alarms" in line]


@pytest.mark.parametrize("listen", ["127.0.0.1:none", "127.0.0.1:70000", "203.0.113.1:1"])
def test_an_address_that_cannot_be_bound_is_named(listen: str) -> None:
    with pytest.raises(LakehouseError, match=f"metrics_listen {listen} cannot be bound"):
        serve(listen, LandingMetrics(LandingStatus))
