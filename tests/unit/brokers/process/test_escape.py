"""The way out of a set, as a broker's settings make it."""

from __future__ import annotations

from pathlib import Path

from brokers.clock import Clock
from brokers.membership.namesrv_client import NameServers
from brokers.process.escape import make_escape, popped_topic
from brokers.remoting.client import RemotingClient
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import TopicConfig
from tests.support.brokers import broker_config


async def test_where_controllers_elect_nobody_acts(tmp_path: Path) -> None:
    tables, client = TableFiles(tmp_path), RemotingClient()
    servers = NameServers([], lambda: None, 1_000)
    elected = broker_config(tmp_path, ["127.0.0.1:1"])
    assert make_escape(elected, tables, client, servers, Clock()) is None
    fixed = broker_config(tmp_path, [], broker_id=0)
    assert make_escape(fixed, tables, client, servers, Clock()) is not None
    await servers.close(None)
    await client.close()


def test_a_retry_topic_is_that_of_a_topic_and_a_group_that_are_known(tmp_path: Path) -> None:
    tables = TableFiles(tmp_path)
    tables.topics.put([TopicConfig("T", 1, 1), TopicConfig("a_T", 1, 1)], 0)
    tables.groups.ensure("g", 0)
    assert popped_topic("%RETRY%g_T", tables) == "T"
    assert popped_topic("%RETRY%g+T", tables) == "T"
    assert popped_topic("%RETRY%g_a_T", tables) == "a_T"
    assert popped_topic("%RETRY%h_T", tables) is None
    assert popped_topic("%RETRY%g", tables) is None
