import json
from datetime import date
from typing import Any

from lakehouse.answers.availability import availability_model, availability_text, percent


def day(name: str, number: int, **other: Any) -> dict[str, Any]:
    row = {
        "cluster_id": "c",
        "broker_name": name,
        "day": date(2026, 1, number),
        "observed_ms": 86_400_000,
        "masterless_ms": 0,
        "unavailable_ms": 0,
        "availability": 1.0,
        "longest_gap_ms": 0,
        "failovers": 0,
        "unmeasured": 0,
        "acting_ms": 0,
    }
    return {**row, **other}


def test_days_add_up_for_each_set_and_for_all() -> None:
    rows = [
        day("broker-b", 1),
        day(
            "broker-a",
            2,
            unavailable_ms=864,
            masterless_ms=800,
            longest_gap_ms=500,
            failovers=2,
            unmeasured=1,
        ),
        day("broker-a", 1, observed_ms=43_200_000),
    ]
    model = availability_model(rows, None)
    assert [one["broker_name"] for one in model["sets"]] == ["broker-a", "broker-b"]
    first = model["sets"][0]
    assert [str(one["day"]) for one in first["days"]] == ["2026-01-01", "2026-01-02"]
    assert (first["total"]["observed_ms"], first["total"]["longest_gap_ms"]) == (129_600_000, 500)
    assert first["total"]["availability"] == 1 - 864 / 129_600_000
    assert model["total"]["failovers"] == 2
    json.dumps(model, default=str)
    text = availability_text(model)
    assert "all 2 sets: " in text
    assert "of 1 failovers brokers did not report" in text


def test_one_set_is_told_alone() -> None:
    model = availability_model([day("broker-a", 1), day("broker-b", 1)], "broker-b")
    assert [one["broker_name"] for one in model["sets"]] == ["broker-b"]
    assert availability_text(model).startswith("broker-b: 100 % available")
    assert availability_text(availability_model([], None)) == "no set has had a master"


def test_a_share_is_rounded_down_so_that_a_lost_millisecond_is_never_100_percent() -> None:
    assert percent(1.0) == "100 %"
    assert percent(1 - 1 / 86_400_000) == "99.9999 %"
    assert percent(0.5) == "50 %"
    assert percent(0.0) == "0 %"
    assert percent(None) == "-"


def test_days_of_sets_whose_slaves_act_say_for_how_long() -> None:
    rows = [day("a", 1, unavailable_ms=5_000, masterless_ms=5_000, acting_ms=4_000), day("b", 1)]
    text = availability_text(availability_model(rows, None))
    of_a, of_b, *_ = text.split("\n\n")
    assert "a slave acted for" in of_a and "4000 ms" in of_a
    assert "a slave acted for" not in of_b, "nobody acts where controllers elect"
    earlier = availability_model([day("a", 1, acting_ms=None)], "a")
    assert earlier["total"]["acting_ms"] == 0, "by a release that did not count it"
