"""RULES 16: what Java brokers and mqadmin count on, each line with the tests that show
it.
"""

import itertools
import json

import pytest

from tests.conformance.rows import Row, Shown, Table
from tests.support.controller_rig import CLUSTER, SET, Rig

CODES, REQUESTS, LIVENESS = (
    f"tests/conformance/test_{name}.py" for name in ("2_codes", "3_requests", "8_liveness")
)
WIRE = "tests/integration/test_controller_wire.py"
NAMES = {"clusterName": CLUSTER, "brokerName": SET}

BROKERS = Table("16-brokers")
BROKERS.shown(
    "1-1005-names-a-reachable-leader",
    "tests/unit/processors/controller/test_peers.py::test_1005_names_an_address_that_the_asker_can_reach",
    f"{WIRE}::test_the_properties_file_is_what_counts",
)
BROKERS.shown(
    "2-requests-as-recorded",
    f"{WIRE}::test_a_recorded_life_of_java_brokers_gets_the_recorded_answers",
    f"{REQUESTS}::test_requests",
    f"{CODES}::test_codes",
)


@BROKERS.row("3-bodies-are-present", shipped=[True, True, True, True, True, True])
def _() -> list[bool]:
    """1001, 1002, 1003, 1004 on 0; 1002 on 2011; and masterEpoch in 1004."""
    rig = Rig().lead()
    joined = rig.join(1)
    elected, kept = rig.elect(1), rig.elect(1)
    rig.join(2)
    altered = rig.alter("1,2", 1)
    info = rig.request(1004, {"brokerName": SET})
    assert info is not None and (joined.code, elected.code, kept.code, altered.code, info.code) == (
        0,
        0,
        2011,
        0,
        0,
    )
    return [
        *(bool(json.loads(one.body)) for one in (altered, elected, joined, info, kept)),
        "masterEpoch" in info.ext,
    ]


@BROKERS.row("4-an-elected-master-has-an-address", shipped=["b1:10911", "b1:10911"])
def _() -> list[str]:
    rig = Rig().lead()
    rig.join(1)
    return [rig.elect(1).ext["masterAddress"], rig.elect(1).ext["masterAddress"]]


BROKERS.shown(
    "5-904-one-way",
    "tests/unit/processors/controller/test_heartbeats.py::"
    "test_904_is_taken_by_every_controller_and_answered_when_it_was_not_one_way",
    f"{WIRE}::test_a_one_way_request_is_never_answered",
)
BROKERS.shown(
    "6-1008-to-the-brokers-own-address",
    f"{WIRE}::test_a_new_master_is_told_by_1008_on_the_brokers_own_address",
)


@BROKERS.row("7-epochs-only-grow", shipped=True)
def _() -> bool:
    """Also over a cleaning: what a broker's epoch file holds is never given out again."""
    rig = Rig().lead().three()
    epochs = [rig.state.sets[SET].master_epoch]
    for broker in (2, 3):
        rig.elect(broker, designate=True)
        epochs.append(rig.state.sets[SET].master_epoch)
    rig.request(1011, NAMES | {"isCleanLivingBroker": "true"})
    offered = rig.request(1012, NAMES)
    assert offered is not None and offered.ext["nextBrokerId"] == "4"
    rig.join(4)
    rig.elect(4)
    epochs.append(rig.state.sets[SET].master_epoch)
    return all(before < after for before, after in itertools.pairwise(epochs))


BROKERS.shown("8-first-heartbeat-may-come-late", f"{LIVENESS}::test_liveness")
BROKERS.shown(
    "9-answer-within-3-s",
    f"{WIRE}::test_without_the_log_every_answer_comes_in_time_and_says_that_it_proves_nothing",
    "tests/unit/processors/controller/test_peers.py::test_a_leader_that_never_answers_ends_in_unknown",
)
BROKERS.shown(
    "10-serialisations-and-extra-fields",
    f"{WIRE}::test_both_header_serialisations_and_unknown_fields_are_read",
)

TOOL = Table("16-mqadmin")
TOOL.shown(
    "1-1005-then-the-leader",
    f"{WIRE}::test_a_recorded_life_of_java_brokers_gets_the_recorded_answers",
)
TOOL.shown("2-1006-takes-an-array", f"{REQUESTS}::test_requests")
TOOL.shown(
    "3-1010-is-never-empty",
    "tests/unit/processors/settings/test_rocketmq.py::test_names_are_sorted_and_the_text_is_never_empty",
)
TOOL.shown(
    "4-1009-takes-properties",
    "tests/unit/processors/controller/test_operators.py::test_1009_row_by_row",
)


@TOOL.row("5-isCleanLivingBroker", shipped=[2009, 0])
def _() -> list[int]:
    rig = Rig().lead().three()
    ids = NAMES | {"brokerControllerIdsToClean": "3"}
    answers = [
        rig.request(1011, ids | {"isCleanLivingBroker": living}) for living in ("false", "true")
    ]
    return [answer.code for answer in answers if answer is not None]


@TOOL.row("6-peers-are-parted-by-semicolons", shipped=["c1:c1:9878", ""])
def _() -> list[str]:
    answer = Rig().lead().request(1005)
    assert answer is not None
    return answer.ext["peers"].split(";")


@pytest.mark.parametrize("row", [*BROKERS.rows, *TOOL.rows])
def test_checklist(row: Row | Shown) -> None:
    row.check()
