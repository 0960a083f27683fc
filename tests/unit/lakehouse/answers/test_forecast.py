"""Who would follow, how long it took, what is at risk: known answers on constructed sets."""

from typing import Any

import pytest
from msgspec.structs import replace

from lakehouse.answers.forecast import OWN_PAST_MIN, LastEvidence, forecast
from tests.support.control_history import NAME, History, seen, with_master


def words(*told: Any) -> dict[int, LastEvidence]:
    return {one.broker_id: LastEvidence(one, 1_000, "elect_master") for one in told}


def asked(
    past: History, *told: Any, failovers: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return forecast(past.folder.state, NAME, words(*told), failovers or [])


def steps(model: dict[str, Any]) -> list[tuple[list[int], int | None]]:
    return [(one["died"], one["winner"]) for one in model["succession"]]


def test_the_rules_say_who_follows_whom_until_nobody_is_left() -> None:
    model = asked(with_master(1, 2, 3), seen(1), seen(2, offset=900), seen(3, offset=1000))
    assert steps(model) == [([1], 3), ([1, 3], 2), ([1, 2, 3], None)]
    assert model["succession"][0]["sync_state_set"] == [2, 3]
    assert model["succession"][-1]["refusal"] == "MASTER_NOT_AVAILABLE"


def test_who_is_gone_or_never_was_heard_is_not_elected() -> None:
    assert steps(asked(with_master(1, 2, 3), seen(1), seen(2, alive=False), seen(3))) == [
        ([1], 3),
        ([1, 3], None),
    ]
    assert steps(asked(with_master(1, 2, 3), seen(1), seen(3))) == [([1], 3), ([1, 3], None)]


def test_what_an_earlier_start_told_elects_nobody() -> None:
    past = with_master(1, 2, 3)
    past.register(2, "i2b")
    assert steps(asked(past, seen(1), seen(2), seen(3)))[0] == ([1], 3)


def test_priorities_go_first_within_the_set() -> None:
    model = asked(
        with_master(1, 2, 3), seen(1), seen(2, offset=900, priority=1), seen(3, offset=1000)
    )
    assert steps(model)[0] == ([1], 2)


def test_without_a_master_there_is_nobody_to_follow() -> None:
    past = with_master(1)
    past.elect(-1, seen(1, alive=False), seen(2), seen(3))
    model = asked(past, seen(1, alive=False), seen(2), seen(3))
    assert (
        model["master"] is None
        and model["succession"] == []
        and model["risk"]["why"] == ("there is no master")
    )


def test_acknowledged_bytes_are_at_risk_only_where_the_master_is_alone() -> None:
    leading = replace(seen(1), max_offset=5_000, confirm_offset=4_400)
    together = asked(with_master(1, 2, 3), leading, seen(2, offset=4_500), seen(3, offset=4_400))
    assert (together["risk"]["acknowledged_bytes"], together["risk"]["unacknowledged_bytes"]) == (
        0,
        600,
    )
    alone = asked(
        with_master(1),
        replace(leading, confirm_offset=5_000),
        seen(2, offset=4_500),
        seen(3, offset=-1),
    )
    assert (alone["risk"]["acknowledged_bytes"], alone["risk"]["unacknowledged_bytes"]) == (500, 0)
    unknown = asked(with_master(1), replace(leading, confirm_offset=-1))
    assert (unknown["risk"]["acknowledged_bytes"], unknown["risk"]["unacknowledged_bytes"]) == (
        None,
        None,
    )


def failover(
    took_ms: int | None,
    name: str = NAME,
    cause: str = "master_probe_refused",
    labels: tuple[str, ...] = (),
) -> dict[str, Any]:
    return {"broker_name": name, "cause": cause, "labels": list(labels), "unavailable_ms": took_ms}


def test_recovery_is_what_it_took_before_with_its_spread() -> None:
    past = [failover(took_ms) for took_ms in range(100, 2_100, 100)]
    [one] = asked(with_master(1), seen(1), failovers=past)["recovery"]
    assert one == {
        "kind": "killed",
        "of": "set",
        "n": 20,
        "shortest_ms": 100,
        "median_ms": 1_000,
        "p95_ms": 1_900,
        "longest_ms": 2_000,
    }


@pytest.mark.parametrize(
    ("own", "of", "count"),
    [(OWN_PAST_MIN, "set", OWN_PAST_MIN), (OWN_PAST_MIN - 1, "cluster", OWN_PAST_MIN + 2)],
)
def test_a_set_with_little_past_is_measured_by_its_cluster(own: int, of: str, count: int) -> None:
    past = [failover(100)] * own + [failover(900, "broker-b")] * 3
    [one] = asked(with_master(1), seen(1), failovers=past)["recovery"]
    assert (one["of"], one["n"]) == (of, count)


def test_hand_overs_and_what_nobody_measured_are_left_out_and_causes_are_kept_apart() -> None:
    past = [
        failover(5, cause="operator_request", labels=("DESIGNATED",)),
        failover(None),
        failover(10_200, cause="master_heartbeat_expired"),
        failover(30_000, cause="no_master"),
        failover(200),
    ]
    found = asked(with_master(1), seen(1), failovers=past)["recovery"]
    assert [(one["kind"], one["n"], one["median_ms"]) for one in found] == [
        ("killed", 1, 200),
        ("silent", 1, 10_200),
        ("other", 1, 30_000),
    ]
    assert asked(with_master(1), seen(1))["recovery"] == []
