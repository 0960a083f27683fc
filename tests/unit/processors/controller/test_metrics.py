from __future__ import annotations

import pytest

from events.commands import ElectMaster, RegisterBroker
from processors.controller.metrics import (
    FAILED,
    LATENCY_BORDERS_US,
    SUCCESS,
    TIMEOUT,
    Histogram,
    Metrics,
    RequestMeter,
    type_of,
)
from tests.support.controller_rig import Rig

JAVA_TYPES = {
    1001: "CONTROLLER_ALTER_SYNC_STATE_SET",
    1002: "CONTROLLER_ELECT_MASTER",
    1003: "CONTROLLER_REGISTER_BROKER",
    1004: "CONTROLLER_GET_REPLICA_INFO",
    1005: "CONTROLLER_GET_METADATA_INFO",
    1006: "CONTROLLER_GET_SYNC_STATE_DATA",
    904: "CONTROLLER_BROKER_HEARTBEAT",
    1009: "CONTROLLER_UPDATE_CONTROLLER_CONFIG",
    1010: "CONTROLLER_GET_CONTROLLER_CONFIG",
    1011: "CONTROLLER_CLEAN_BROKER_DATA",
    1012: "CONTROLLER_GET_NEXT_BROKER_ID",
    1013: "CONTROLLER_APPLY_BROKER_ID",
}
"""RULES 13"""


@pytest.mark.parametrize(("code", "name"), JAVA_TYPES.items())
def test_a_request_is_counted_under_the_name_that_java_gives_it(code: int, name: str) -> None:
    assert type_of(code) == name


def test_ours_have_names_of_ours_and_what_is_not_served_has_none() -> None:
    assert type_of(19003) == "REGENT_CONTROLLER_STATE"
    assert type_of(9999) is None and type_of(10) is None


def test_borders_go_from_one_microsecond_to_ten_seconds_as_java_has_them() -> None:
    assert len(LATENCY_BORDERS_US) == 22
    assert LATENCY_BORDERS_US[:10] == (1, 3, 5, 10, 30, 50, 100, 300, 500, 1_000)
    assert LATENCY_BORDERS_US[-5:] == (500_000, 1_000_000, 3_000_000, 5_000_000, 10_000_000)


def test_a_value_on_a_border_lies_at_or_below_it() -> None:
    one = Histogram((10, 20))
    for value in (10, 11, 20, 21):
        one.observe(value)
    assert one.cumulative() == [("10.0", 1), ("20.0", 3), ("+Inf", 4)]
    assert (one.sum, one.count) == (62, 4)


def test_an_answer_counts_as_success_with_the_time_it_took() -> None:
    metrics = Metrics()
    meter = RequestMeter(metrics)
    meter.arrived(1, 7, 1002, 1_000)
    meter.arrived(1, 8, 1002, 1_000)
    meter.answered(1, 8, TIMEOUT, 9_000)
    meter.answered(1, 7, SUCCESS, 4_000)
    meter.answered(1, 7, SUCCESS, 5_000)  # nobody waits for a second answer
    assert metrics.requests == {
        ("CONTROLLER_ELECT_MASTER", SUCCESS): 1,
        ("CONTROLLER_ELECT_MASTER", TIMEOUT): 1,
    }
    assert metrics.request_us["CONTROLLER_ELECT_MASTER"].sum == 11_000


def test_what_never_gets_an_answer_is_a_failure_without_a_latency() -> None:
    metrics = Metrics()
    meter = RequestMeter(metrics)
    meter.arrived(1, 7, 1003, 0)
    meter.closed(1)
    meter.answered(1, 7, SUCCESS, 5)
    assert (
        metrics.requests == {("CONTROLLER_REGISTER_BROKER", FAILED): 1} and metrics.request_us == {}
    )


def test_connections_do_not_share_their_numbers() -> None:
    metrics = Metrics()
    meter = RequestMeter(metrics)
    meter.arrived(1, 7, 1012, 0)
    meter.arrived(2, 7, 1013, 0)
    meter.answered(2, 7, SUCCESS, 5)
    assert metrics.requests == {("CONTROLLER_APPLY_BROKER_ID", SUCCESS): 1}


def test_only_an_append_that_is_known_to_be_in_the_log_has_a_latency() -> None:
    metrics = Metrics()
    metrics.append(SUCCESS, 2_000)
    metrics.append(TIMEOUT, 9_000)
    assert metrics.appends == {SUCCESS: 1, TIMEOUT: 1} and metrics.append_us.count == 1


def history() -> list:  # type: ignore[type-arg]
    """Applied records of a small life: registrations, an election, a kept master, one that cannot
    be.
    """
    rig, seen = Rig().lead(), []
    applying = rig.folder.apply

    def watched(offset: int, data: bytes):  # type: ignore[no-untyped-def]
        seen.append(applying(offset, data))
        return seen[-1]

    rig.folder.apply = watched  # type: ignore[method-assign]
    rig.join(1)
    assert (
        rig.elect(1).code == 0
        and rig.elect(1).code == 2011
        and rig.elect(9, designate=True).code == 2012
    )
    return seen


def test_elections_are_counted_by_their_result_and_only_by_the_controller_that_leads() -> None:
    leader, standby = Metrics(), Metrics()
    for applied in history():
        leader.record(applied, active=True)
        standby.record(applied, active=False)
    asked = {
        result: count
        for (cluster, name, result), count in leader.elections.items()
        if (cluster, name) == ("C", "a")
    }
    assert asked == {"new_master_elected": 1, "keep_current_master": 1, "no_master_elected": 1}
    assert not standby.elections
    assert leader.applied[ElectMaster.__name__] == standby.applied[ElectMaster.__name__] == 3
    assert leader.applied[RegisterBroker.__name__] == 1


def test_refusals_are_counted_by_rule_and_code() -> None:
    metrics = Metrics()
    for applied in history():
        metrics.record(applied, active=True)
    assert sorted(code for _, code in metrics.refused) == [2011, 2012]


def test_elections_of_the_controllers_own_accord_carry_no_cluster() -> None:
    rig = Rig().lead().three()
    metrics, applying = Metrics(), rig.folder.apply

    def watched(offset: int, data: bytes):  # type: ignore[no-untyped-def]
        applied = applying(offset, data)
        metrics.record(applied, active=True)
        return applied

    rig.folder.apply = watched  # type: ignore[method-assign]
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    assert dict(metrics.elections) == {("", "a", "new_master_elected"): 1}
