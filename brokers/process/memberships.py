"""Who gives a broker its place in its set: controllers, or its configuration.

Refuses to know: what either does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from brokers.clock import Clock
from brokers.membership.controller_messages import Introduction
from brokers.membership.fixed_membership import FixedHooks, FixedMembership, FixedPlace
from brokers.membership.identity_file import IdentityFiles
from brokers.membership.membership import Membership, MembershipHooks, MembershipTimers
from brokers.membership.place import PlaceInSet
from brokers.process.config import BrokerConfig
from brokers.process.replica import LocalReplica
from brokers.remoting.client import RemotingClient
from brokers.replica.roles import RoleNotice


def make_membership(
    config: BrokerConfig,
    replica: LocalReplica,
    client: RemotingClient,
    clock: Clock,
    report: Callable[[str, Mapping[str, object]], None],
    on_identity: Callable[[int], None],
    on_notice: Callable[[RoleNotice], None],
    on_master: Callable[[str], None],
) -> PlaceInSet:
    """For `on_identity`, `on_notice`, `report` see MembershipHooks, for `on_master` FixedHooks."""
    if config.broker_id is not None:
        place = FixedPlace(
            config.cluster_name,
            config.broker_name,
            config.broker_id,
            config.advertised,
            config.name_servers,
            None if config.enable_slave_acting_master else config.replica_poll_ms,
        )
        return FixedMembership(
            place, client, FixedHooks(on_identity, replica.alive_members, on_master)
        )
    me = Introduction(
        config.cluster_name,
        config.broker_name,
        config.advertised,
        config.ha_advertised,
        replica.boot.incarnation,
        config.min_in_sync_replicas if config.all_ack else 1,
    )
    timers = MembershipTimers(
        config.heartbeat_interval_ms,
        config.controller_heartbeat_timeout_ms,
        config.replica_poll_ms,
        config.election_priority,
        asks_for_elections=not config.async_learner,
    )
    hooks = MembershipHooks(on_identity, on_notice, replica.position, replica.clean, report)
    files = IdentityFiles(config.store_dir)
    return Membership(me, config.controllers, files, timers, hooks, clock)
