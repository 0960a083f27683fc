"""Slave acting master (RIP-32) at a name server: who stands in a route for a master that is not
there, and who hears that the smallest id has changed (PROTOCOL 4.20).

Refuses to know: how the table came to be, sockets.
"""

from __future__ import annotations

from collections.abc import Mapping

from processors.nameserver.effects import MembersSeen, MinIdChanged
from processors.nameserver.records import MASTER_ID, PERM_WRITE, BrokerGroup, TopicQueues

MEMBERS_TOPIC_PREFIX = "rmq_sys_SYNC_BROKER_MEMBER_"
"""Topics that tell brokers, in their route, who is there: with true ids, whoever acts."""


def addresses_in_route(topic: str, group: BrokerGroup, queues: TopicQueues) -> dict[int, str]:
    """Id to address as clients of `topic` are told: where a set that wants it has no master, and
    nobody can write to it, the smallest id stands there as the master.
    """
    shown = dict(group.addresses)
    acts = group.acting_master and MASTER_ID not in shown and not queues.perm & PERM_WRITE
    if shown and acts and not topic.startswith(MEMBERS_TOPIC_PREFIX):
        shown = {MASTER_ID: shown.pop(min(shown)), **shown}
    return shown


def members_seen(group: BrokerGroup) -> MembersSeen:
    """Who is there now."""
    return MembersSeen(
        group.cluster_name, group.broker_name, group.acting_master, dict(group.addresses)
    )


def came_with_smaller_id(group: BrokerGroup, ha_address: str) -> MinIdChanged:
    """A broker registered with an id below all others: the others hear of it, acting or not."""
    min_id, addresses = min(group.addresses), group.addresses
    others = tuple(address for broker_id, address in addresses.items() if broker_id != min_id)
    # one that is alone took another id, and hears of itself
    return _changed(group, None, ha_address, others or tuple(addresses.values()))


def smallest_id_left(group: BrokerGroup, offline_address: str) -> MinIdChanged:
    """Those that stay hear of it where a slave of theirs may act."""
    told = tuple(group.addresses.values()) if group.acting_master else ()
    return _changed(group, offline_address, None, told)


def _changed(
    group: BrokerGroup, offline: str | None, ha_address: str | None, receivers: tuple[str, ...]
) -> MinIdChanged:
    min_id = min(group.addresses)
    return MinIdChanged(
        group.cluster_name,
        group.broker_name,
        min_id,
        group.addresses[min_id],
        offline,
        ha_address,
        receivers,
    )


def without_far_zones(
    zone: str, groups: Mapping[str, BrokerGroup], addresses: Mapping[str, Mapping[int, str]]
) -> list[str]:
    """Names that a client of `zone` is told of: those of its zone, and those without a master in
    the route, be it one that acts.
    """
    return [
        name
        for name, shown in addresses.items()
        if groups[name].zone == zone or MASTER_ID not in shown
    ]
