"""The way out of a set whose master is away, made of a broker's settings.

Refuses to know: what leaves, and when.
"""

from __future__ import annotations

from brokers.acting.messages import Place
from brokers.acting.targets import Route
from brokers.clock import Clock
from brokers.membership.namesrv_client import NameServers
from brokers.process.config import BrokerConfig
from brokers.remoting.client import RemotingClient
from brokers.service.escape.bridge import EscapeBridge
from brokers.service.tables.table_files import TableFiles
from brokers.service.tables.topics import RETRY_PREFIX


def make_escape(
    config: BrokerConfig,
    tables: TableFiles,
    client: RemotingClient,
    name_servers: NameServers,
    clock: Clock,
) -> EscapeBridge | None:
    """None where controllers elect: a set of theirs has a master, or nobody acts for it."""
    if config.broker_id is None:
        return None
    place = Place(config.cluster_name, config.broker_name, config.broker_id, config.advertised)

    async def masters_of(topic: str) -> Route | None:
        route = await name_servers.masters_of(topic, config.broker_name)
        if route is None or route.queues or not topic.startswith(RETRY_PREFIX):
            return route
        popped = popped_topic(topic, tables)
        found = (
            None if popped is None else await name_servers.masters_of(popped, config.broker_name)
        )
        # The first copy makes the topic there, with one queue.
        masters = () if found is None else found.masters
        return Route(tuple((name, address, 1) for name, address, _ in masters))

    return EscapeBridge(
        client.call,
        masters_of,
        name_servers.address_of,
        lambda: place,
        clock,
        allowed=config.enable_remote_escape,
    )


def popped_topic(retry: str, tables: TableFiles) -> str | None:
    """The topic whose popped messages are copied to this one; None: nobody here pops such."""
    for topic in tables.topics.configs:
        if retry.endswith((f"_{topic}", f"+{topic}")):
            group = retry[len(RETRY_PREFIX) : -len(topic) - 1]
            if tables.groups.get(group) is not None:
                return topic
    return None
