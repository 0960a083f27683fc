"""What is asked of a RocketMQ controller and of brokers, over real sockets."""

from __future__ import annotations

import json

import pytest

from brokers.remoting.command import RemotingCommand
from infra.controllers.calls import Refused
from infra.migration import java_controller
from infra.migration.export_requests import Ask, Goal, drive_requests
from infra.migration.java_controller import JavaControllers, JavaLink
from infra.problems import Problem
from infra.processes.ports import pick_block
from tests.support import remoting_thread
from tests.support.java_side import BrokerStub, JavaSide

LIMIT_MS = 5_000
GOAL = Goal("regent", "broker-a", 1, 3, {1: "h:1", 2: "h:2"}, 5, 5)


def nobody() -> str:
    return f"127.0.0.1:{pick_block(1)}"


def test_the_group_and_its_sets_are_read() -> None:
    with JavaSide().serving() as java:
        for ask in drive_requests(GOAL, 1):
            java.model.send(ask)
        group = JavaControllers(java.address, LIMIT_MS)
        assert group.leader == java.address and group.addresses == [java.address]
        found = group.sets({"broker-a": "regent", "broker-x": ""})
        assert found["broker-x"] is None
        assert found["broker-a"] == java.model.seen("broker-a")


def test_a_controller_that_is_not_there_is_a_problem() -> None:
    with pytest.raises(Problem, match="does not answer"):
        JavaControllers(nobody(), LIMIT_MS)
    assert java_controller.is_silent(nobody(), LIMIT_MS)


def test_brokers_and_their_links_are_read_and_who_is_silent_is_none() -> None:
    master, slave, away = BrokerStub(1, True), BrokerStub(2, False, end=800), nobody()
    with JavaSide().serving(master, slave):
        facts = java_controller.brokers_at([master.address, slave.address, away], LIMIT_MS)
        links = java_controller.ha_links([master.address, slave.address, away], LIMIT_MS)
    assert facts[away] is None and links[away] is None
    one, two = facts[master.address], facts[slave.address]
    assert one is not None and one.is_master and one.last_epoch == 4
    assert two is not None and not two.is_master and two.cluster_name == "regent"
    assert [(one.end_offset, one.is_master) for one in links.values() if one] == [
        (900, True),
        (800, False),
    ]


def test_a_link_sends_what_is_planned_and_stops_at_the_first_other_answer() -> None:
    with JavaSide().serving() as java, JavaLink(java.address, LIMIT_MS) as link:
        asks = drive_requests(GOAL, 1)
        link.send(asks[0])
        with pytest.raises(Refused, match="assign id 7"):
            link.send(
                Ask(
                    1013,
                    {**asks[0].fields, "registerCheckCode": "other:1;2"},
                    meaning="assign id 7",
                )
            )


def test_a_link_to_nobody_is_a_problem() -> None:
    with pytest.raises(Problem, match="Is it running"), JavaLink(nobody(), LIMIT_MS):
        pass


def test_sets_are_named_by_a_name_server() -> None:
    body = {
        "brokerAddrTable": {
            "broker-a": {"cluster": "regent", "brokerName": "broker-a", "brokerAddrs": {}}
        },
        "clusterAddrTable": {},
    }

    def answer(_: object, request: RemotingCommand) -> RemotingCommand:
        return request.reply(body=json.dumps(body).encode())

    with remoting_thread.serving(answer) as address:
        assert java_controller.set_names(address, LIMIT_MS) == {"broker-a": "regent"}
    with pytest.raises(Problem, match="name server"):
        java_controller.set_names(nobody(), LIMIT_MS)


def test_what_is_no_address_is_wrong_usage() -> None:
    with pytest.raises(Problem) as caught:
        java_controller.require_address("--from", "here")
    assert caught.value.exit_code == 2
