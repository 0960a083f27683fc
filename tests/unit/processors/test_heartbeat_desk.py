"""Heartbeats of brokers and of other controllers."""

import pytest

from processors import effects as fx
from tests.support.controller_rig import CLUSTER, SET, Log, Rig

BEAT = {"clusterName": CLUSTER, "brokerName": SET, "brokerAddr": "b1:10911", "brokerId": "1"}


@pytest.mark.parametrize("lead", [True, False])
def test_904_is_taken_by_every_controller_and_answered_when_it_was_not_one_way(lead: bool) -> None:
    rig = Rig()
    if lead:
        rig.lead()
    answer = rig.request(904, BEAT)
    assert answer is not None and (answer.code, answer.ext, answer.body) == (0, {}, b"") and answer.remark
    assert rig.request(904, BEAT, oneway=True) is None
    assert rig.core._context.liveness.pulse((CLUSTER, SET, 1)) is not None


@pytest.mark.parametrize(("change", "code"), [
    ({"brokerId": ""}, 2005), ({"brokerId": "x"}, 2005), ({"epoch": str(2**31 - 1)}, 2005), ({"brokerName": ""}, 1), ({"brokerAddr": ""}, 1),
])  # fmt: skip
def test_a_904_that_cannot_be_read(change: dict[str, str], code: int) -> None:
    answer = Rig().lead().request(904, BEAT | change)
    assert answer is not None and answer.code == code and answer.remark


@pytest.mark.parametrize("told", [
    {"epoch": "1.5"}, {"epoch": str(1 << 31)}, {"maxOffset": str(1 << 63)}, {"confirmOffset": "null"}, {"heartbeatTimeoutMills": "x"},
    {"electionPriority": "high"},
])  # fmt: skip
def test_what_a_904_tells_unreadably_counts_as_not_told_and_its_sender_lives(told: dict[str, str]) -> None:
    rig = Rig().lead()
    answer = rig.request(904, BEAT | told)
    pulse = rig.core._context.liveness.pulse((CLUSTER, SET, 1))
    assert answer is not None and answer.code == 0 and pulse is not None
    assert (pulse.epoch, pulse.max_offset, pulse.confirm_offset, pulse.timeout_ms, pulse.election_priority) == (-1, -1, -1, 10_000, 2**31 - 1)


def test_an_epoch_that_ends_all_epochs_does_not_keep_the_others_from_a_master() -> None:
    rig = Rig().lead().three()
    rig.heartbeat(3, epoch=2**31 - 1)
    rig.close_connection(1)
    rig.probe_result("b1:10911", "refused")
    assert rig.state.sets[SET].master_broker_id == 2


def test_a_heartbeat_with_a_timeout_of_nothing_makes_no_noise() -> None:
    rig = Rig().lead().three()
    for _ in range(5):
        rig.request(904, BEAT | {"brokerId": "3", "brokerAddr": "b3:10911", "heartbeatTimeoutMills": "-1"}, conn=3, oneway=True)
        rig.tick(100)
    assert rig.take(fx.NotifyRole) == [] and rig.take(fx.Note) == []


def test_a_peer_that_cannot_be_read_is_no_answer_either() -> None:
    rig = Rig("c1", Log(), {"c2": "c2:9878"}).lead()
    assert rig.request(19001, {"controllerId": "c2", "term": "x"}, oneway=True) is None
    assert rig.request(19001, {}, oneway=True) is None
