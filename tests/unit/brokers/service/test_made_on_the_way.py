"""Groups and topics that come to be because somebody uses them."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from brokers.service.made_on_the_way import MadeOnTheWay
from brokers.service.tables.topics import TopicConfig
from tests.support.client_service import Desk


async def test_a_group_and_its_retry_topic_are_made_by_a_master_only(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        made: MadeOnTheWay = desk.service.made
        made.ensure_groups(["g"])
        assert desk.tables.groups.get("g") is None
        desk.lead()
        before = desk.registrations
        made.ensure_groups(["g", "g"])
        assert desk.tables.groups.get("g") is not None
        assert desk.tables.topics.get("%RETRY%g") is not None
        assert desk.registrations == before + 1


async def test_a_topic_that_is_there_is_not_registered_again(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead()
        made = desk.service.made
        made.topics([TopicConfig("R", 1, 1)])
        before = desk.registrations
        made.topics([TopicConfig("R", 1, 1)])
        made.topics([])
        assert desk.registrations == before


def greeting(*topics: str, unit_mode: bool = False) -> RemotingCommand:
    consumer = {
        "groupName": "g",
        "unitMode": unit_mode,
        "subscriptionDataSet": [{"topic": topic, "subString": "*"} for topic in topics],
    }
    body = {"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []}
    return RemotingCommand.request(34, body=fastjson.dumps(body))


@pytest.mark.parametrize(
    ("before", "named", "after"),
    [
        pytest.param(False, ["T"], True, id="it is named"),
        pytest.param(True, ["T"], True, id="it is in order already"),
        pytest.param(False, ["U", "none such"], False, id="others are named"),
        pytest.param(True, [], True, id="it is named no more: only an administrator undoes it"),
    ],
)
async def test_a_topic_that_a_name_server_names_is_read_in_order(
    tmp_path: Path, before: bool, named: list[str], after: bool
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead().tables.topics.put(
            [TopicConfig("T", order=before), TopicConfig("U", order=True)], 0
        )
        counter, registered = desk.tables.topics.version.counter, desk.registrations
        desk.service.made.ordered(named)
        config = desk.tables.topics.get("T")
        assert config is not None and config.order is after
        assert desk.tables.topics.get("none such") is None
        changed = before is not after
        assert desk.tables.topics.version.counter == counter + changed
        assert desk.registrations == registered + changed


async def test_a_slave_has_its_masters_word_for_what_is_read_in_order(tmp_path: Path) -> None:
    async with Desk(tmp_path) as desk:
        desk.tables.topics.put([TopicConfig("T")], 0)
        desk.follow("127.0.0.1:1").service.made.ordered(["T"])
        config = desk.tables.topics.get("T")
        assert config is not None and not config.order


@pytest.mark.parametrize(
    ("greetings", "order", "sys_flag"),
    [
        pytest.param([greeting("U")], False, 0, id="of a topic without order"),
        pytest.param([greeting("U", "O")], True, 0, id="of one in order as well"),
        pytest.param([greeting("U"), greeting("O")], True, 0, id="in order later"),
        pytest.param([greeting("O"), greeting()], True, 0, id="then without its subscriptions"),
        pytest.param([greeting("U", unit_mode=True)], False, 2, id="in unit mode"),
    ],
)
async def test_the_retry_topic_of_a_group_is_as_what_the_group_reads(
    tmp_path: Path, greetings: list[RemotingCommand], order: bool, sys_flag: int
) -> None:
    async with Desk(tmp_path) as desk:
        desk.lead().tables.topics.put([TopicConfig("U"), TopicConfig("O", order=True)], 0)
        for one in greetings:
            assert (await desk.ask(one)).code == 0
        config = desk.tables.topics.get("%RETRY%g")
        assert config is not None and (config.order, config.sys_flag) == (order, sys_flag)
