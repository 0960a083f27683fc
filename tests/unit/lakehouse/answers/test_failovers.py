import json
from typing import Any

from lakehouse.answers.failovers import failovers_model, failovers_text, percentile

PHASES = [
    {"phase": "detected", "at_ms": 1000, "took_ms": 0},
    {"phase": "first message acknowledged", "at_ms": 1250, "took_ms": 250},
]


def failover(epoch: int, name: str = "broker-a", **other: Any) -> dict[str, Any]:
    row = {
        "cluster_id": "c",
        "broker_name": name,
        "new_epoch": epoch,
        "offset": 10 * epoch,
        "at_ms": 1000 * epoch,
        "cause": "master silent",
        "labels": [],
        "old_epoch": epoch - 1,
        "old_master": 1,
        "new_master": 2,
        "masterless_ms": 0,
        "last_message_ms": None,
        "first_acknowledged_ms": None,
        "unavailable_ms": None,
        "phases": [],
        "truncations": [],
        "truncated_bytes": 0,
    }
    return {**row, **other}


def test_failovers_stand_by_time_with_a_summary_of_those_that_were_measured() -> None:
    rows = [
        failover(4, unavailable_ms=900),
        failover(2, unavailable_ms=100),
        failover(3, truncated_bytes=7, labels=["AT_RISK"]),
    ]
    model = failovers_model(rows, None)
    assert [row["new_epoch"] for row in model["failovers"]] == [2, 3, 4]
    assert model["summary"] == {
        "failovers": 3,
        "measured": 2,
        "unavailable_median_ms": 100,
        "unavailable_p95_ms": 900,
        "unavailable_longest_ms": 900,
        "truncated_bytes": 7,
        "at_risk": 1,
    }
    json.dumps(model)
    text = failovers_text(model)
    assert "2 -> 3" in text and "[messages may be missing]" in text
    assert "of 2: median 100 ms, p95 900 ms, longest 900 ms" in text
    assert "did not report the messages of 1" in text


def test_one_set_is_told_with_its_phases() -> None:
    rows = [failover(2, phases=PHASES), failover(2, "broker-b")]
    model = failovers_model(rows, "broker-a")
    assert [row["broker_name"] for row in model["failovers"]] == ["broker-a"]
    assert "epoch 2: detected +0 ms, first message acknowledged +250 ms" in failovers_text(model)
    assert "detected" not in failovers_text(failovers_model(rows, None))
    assert failovers_text(failovers_model(rows, "broker-c")) == "no failover of broker-c"


def test_a_percentile_is_a_value_that_occurred() -> None:
    assert percentile([], 50) is None
    assert percentile([7], 95) == 7
    assert percentile([4, 1, 3, 2], 50) == 2
    assert percentile(list(range(1, 101)), 95) == 95
