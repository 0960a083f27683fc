"""Replicas that have not found their new master are told where it takes links."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from brokers.clock import Clock
from brokers.membership import ha_announce
from brokers.membership.ha_announce import TOLD_FOR_MS, Announcements, Mastership
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer
from tests.support.brokers import free_port, until

LEADS = Mastership(4, "m:1", "m:7", {2: "b:1", 3: "c:1", 4: ""}, linked=())


def test_only_replicas_without_a_link_are_told() -> None:
    announcements = Announcements()
    assert announcements.due(LEADS, 0) == ["b:1", "c:1"]
    assert announcements.due(replace(LEADS, linked={2}), 1000) == ["c:1"]
    assert announcements.due(replace(LEADS, linked={2, 3}), 2000) == []


def test_a_link_lost_early_is_told_again_and_late_no_more() -> None:
    announcements = Announcements()
    announcements.due(LEADS, 0)
    assert announcements.due(replace(LEADS, linked={2, 3}), 1000) == []
    assert announcements.due(replace(LEADS, linked={3}), TOLD_FOR_MS - 1) == ["b:1"]
    assert announcements.due(LEADS, TOLD_FOR_MS) == []


def test_every_mastership_begins_anew_and_none_tells_nobody() -> None:
    announcements = Announcements()
    assert announcements.due(replace(LEADS, epoch=None), 0) == []
    announcements.due(LEADS, 0)
    assert announcements.due(replace(LEADS, epoch=5), TOLD_FOR_MS) == ["b:1", "c:1"]


async def test_the_word_reaches_who_listens_and_one_that_does_not_delays_nobody() -> None:
    heard: list[RemotingCommand] = []

    def reply(_connection: Connection, request: RemotingCommand) -> RemotingCommand:
        heard.append(request)
        return request.reply()

    server, client = RemotingServer(reply), RemotingClient()
    await server.start()
    leads = replace(
        LEADS,
        replicas={2: f"127.0.0.1:{free_port()}", 3: f"127.0.0.1:{server.port}", 4: "nonsense"},
    )
    telling = asyncio.ensure_future(ha_announce.run(client, lambda: leads, Clock(), period_ms=1))
    await until(lambda: len(heard) > 1, "it was told twice")
    assert not telling.done()
    assert heard[0].code == 906
    assert heard[0].ext == {
        "masterHaAddress": "m:7",
        "masterFlushOffset": "0",
        "masterAddress": "m:1",
    }
    telling.cancel()
    await client.close()
    await server.close()
