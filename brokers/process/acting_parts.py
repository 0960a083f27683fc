"""The parts by which a broker of a set without controllers acts, put together (PROTOCOL 7).

Refuses to know: what any of them decides.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from brokers.acting.config import ActingConfig
from brokers.acting.lock_quorum import LockQuorum, others_of
from brokers.acting.messages import Place
from brokers.clock import Clock
from brokers.membership.fixed_membership import FixedMembership
from brokers.membership.namesrv_client import NameServers
from brokers.membership.place import PlaceInSet
from brokers.process.acting.calls import ActingCalls
from brokers.process.acting.requests import ActingLocks, ActingRequests
from brokers.process.acting.shell import ActingHooks, ActingShell
from brokers.process.acting.special_services import SpecialServices
from brokers.process.acting.tables import OwnTables
from brokers.process.config import BrokerConfig
from brokers.process.replica import LocalReplica
from brokers.process.role_switch import RoleSwitch
from brokers.remoting.client import RemotingClient
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.known_hosts import KnownHosts
from brokers.replica.replica_port import Replica
from brokers.service.client_service import ClientService
from brokers.service.escape.bridge import Report


@dataclass(frozen=True, slots=True)
class Acting:
    """To be run as long as the broker."""

    shell: ActingShell
    locks: ActingLocks
    requests: ActingRequests
    special: SpecialServices

    def begin(
        self, dispatcher: Dispatcher, spawn: Callable[[Coroutine[object, object, None]], None]
    ) -> None:
        """The ports listen, and the replica runs."""
        for code, handler in self.requests.own().items():
            dispatcher.register(code, handler)
        spawn(self.shell.run())
        spawn(self.locks.run())

    async def end(self) -> None:
        """Before anything else ends: what is under way to other sets is waited for."""
        await self.special.end()


def make_acting(
    config: BrokerConfig,
    clock: Clock,
    replica: Replica,
    others: tuple[RemotingClient, NameServers, PlaceInSet, KnownHosts],
    service: ClientService,
    switch: RoleSwitch,
    report: Report,
) -> Acting | None:
    """None where no slave acts for its master. `others`: how other brokers and name servers are
    reached, who is there, and from which hosts they speak.
    """
    (client, name_servers, membership, known_hosts), roles = others, switch.roles
    if not config.enable_slave_acting_master or not isinstance(membership, FixedMembership):
        return None
    assert isinstance(replica, LocalReplica)
    rules = acting_config(config)
    tables = service.tables
    calls = ActingCalls(rules.place, name_servers, client, lambda: tables.topics.version)
    special = SpecialServices(service)
    hooks = ActingHooks(
        register=name_servers.register,
        special=special.switch,
        over=special.over,
        act=roles.act,
        hold=switch.hold,
        resume=switch.resume,
        forget=replica.part,
        follow=replica.follow,
        look_again=service.pulls.answer_held,
        members=membership.told,
        alive=replica.alive_members,
        report=report,
    )
    shell = ActingShell(
        rules,
        clock,
        calls,
        OwnTables(tables, timers=config.timer_wheel_enable),
        hooks,
        lambda: replica.core,
        opened_end=replica.store.log_end,
        hosts_of=known_hosts.numbers_of,
    )
    locks = ActingLocks(
        _quorum(config, clock, replica, service),
        calls,
        clock,
        lambda: others_of(membership.replicas, rules.place.broker_id),
        tables.topics.has_queue,
        report,
    )
    service.locks.is_shared = False
    reads = service.pulls.slave_reads
    reads.acts = lambda: roles.acting
    _ask_first(service, shell, report)
    name_servers.tell_of_masters(shell.named)
    requests = ActingRequests(shell, roles, reads, locks, config.advertised, service.leaves_within)
    switch.acts_by(shell, requests.before)
    return Acting(shell, locks, requests, special)


def _ask_first(service: ClientService, shell: ActingShell, report: Report) -> None:
    """Before each piece of work, and before each put that leaves, of which is told."""
    service.turns.may_deliver = shell.may_deliver
    if service.escape is not None:
        service.escape.report, service.escape.look_first = report, shell.may_deliver


def _quorum(
    config: BrokerConfig, clock: Clock, replica: LocalReplica, service: ClientService
) -> LockQuorum:
    return LockQuorum(
        service.locks.locks,
        f"{config.advertised}/{replica.boot.incarnation}",
        config.total_replicas,
        strict=config.lock_in_strict_mode,
        forgot_at_ms=clock.now_ms(),
        began_empty=not replica.store.log_end,
    )


def acting_config(config: BrokerConfig) -> ActingConfig:
    """The rules' own settings."""
    assert config.broker_id is not None
    return ActingConfig(
        Place(config.cluster_name, config.broker_name, config.broker_id, config.advertised),
        config.ha_advertised,
        tuple(dict.fromkeys(config.name_servers)),
        total_replicas=config.total_replicas,
        skip_pre_online=config.skip_pre_online,
        compat=config.compatible_with_old_name_servers,
        static_ha_address=config.ha_master_address is not None,
        heartbeat_ms=config.heartbeat_interval_ms,
        member_poll_ms=config.member_group_poll_ms,
        register_ms=config.name_server_register_ms,
        not_active_ms=config.broker_not_active_ms,
    )
