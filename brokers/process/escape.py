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


def make_escape(
    config: BrokerConfig, client: RemotingClient, name_servers: NameServers, clock: Clock
) -> EscapeBridge | None:
    """None where controllers elect: a set of theirs has a master, or nobody acts for it."""
    if config.broker_id is None:
        return None
    place = Place(config.cluster_name, config.broker_name, config.broker_id, config.advertised)

    async def masters_of(topic: str) -> Route | None:
        return await name_servers.masters_of(topic, config.broker_name)

    return EscapeBridge(
        client.call,
        masters_of,
        lambda: place,
        clock,
        allowed=bool(getattr(config, "enable_remote_escape", True)),
    )
