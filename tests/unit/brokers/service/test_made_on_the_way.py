"""Groups and topics that come to be because somebody uses them."""

from __future__ import annotations

from pathlib import Path

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
