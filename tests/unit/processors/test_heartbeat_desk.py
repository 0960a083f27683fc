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
    ({"brokerId": ""}, 2005), ({"brokerId": "x"}, 1), ({"epoch": "1.5"}, 1), ({"maxOffset": str(1 << 63)}, 1), ({"brokerName": ""}, 1),
])  # fmt: skip
def test_a_904_that_cannot_be_read(change: dict[str, str], code: int) -> None:
    answer = Rig().lead().request(904, BEAT | change)
    assert answer is not None and answer.code == code and answer.remark


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
