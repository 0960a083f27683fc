"""What a change of role means for the rest of the broker, in the order that loses no time (design
section 5).

Responsible for: queues and tables before the role view, the role view before the routes, the routes
at once; keeping the members' topic tables equal to the master's; what a name server is told.
Refuses to know: how a role comes about.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from brokers.membership.ha_announce import Mastership
from brokers.membership.namesrv_client import NameServers, RouteEntry
from brokers.process.config import BrokerConfig
from brokers.remoting.connection import Handler
from brokers.remoting.dispatcher import Dispatcher
from brokers.replica.core_port import CoreView
from brokers.replica.effects import RoleChanged
from brokers.replica.ha_status import SlaveSeen
from brokers.replica.replica_port import Replica
from brokers.service.client_service import ClientService
from brokers.service.metadata.permission import BrokerPermission
from brokers.service.metadata.topic_changes import TopicChanges
from brokers.service.reading.slave_reads import SlaveReads
from brokers.service.role.forward import Forwarder
from brokers.service.role.role_view import RoleView
from brokers.service.role.services import Served
from brokers.service.tables.table_files import TableFiles
from brokers.store.files.errors import LogError

WATCH_MS = 500
Before = Callable[[Mapping[int, Handler], Mapping[int, Served]], Mapping[int, Handler]]

_log = logging.getLogger("regent.broker.role")


def linked_replicas(
    slaves: Collection[SlaveSeen], replicas: Mapping[int, str], is_at: Callable[[str, str], bool]
) -> set[int]:
    """Broker ids of those that copy from here. The stream of sets without controllers does not say
    who is at its other end: whoever is registered from that host. `is_at(address, peer)`: a link
    shows a number where an address may have a name.
    """
    peers = [one.address for one in slaves if one.broker_id is None and one.acked >= 0]
    told = {one.broker_id for one in slaves if one.broker_id is not None}
    return told | {
        key for key, address in replicas.items() if any(is_at(address, one) for one in peers)
    }


class Standing(Protocol):
    """What may keep a broker from its role: it comes back into a set whose slaves act (PROTOCOL
    7.3), or leads first behind a changeover (7.8). `isolated`: nobody is to see it.
    """

    @property
    def isolated(self) -> bool: ...
    def may_register(self) -> bool: ...


class RoleSwitch:
    """Bound to one replica by `attach`, once this broker has an identity.

    `addresses()`: the replicas of the set by broker id; for `is_at` see linked_replicas.
    """

    def __init__(
        self,
        config: BrokerConfig,
        roles: RoleView,
        tables: TableFiles,
        replica: Replica,
        forwarder: Forwarder,
        addresses: Callable[[], Mapping[int, str]],
        report: Callable[[str, Mapping[str, object]], None],
        is_at: Callable[[str, str], bool],
    ) -> None:
        self._is_at = is_at
        self._config = config
        self.roles = roles
        self._tables = tables
        self._replica = replica
        self._forwarder = forwarder
        self.permission = BrokerPermission(
            config.broker_permission, tables.topics, config.advertised
        )
        self._core: CoreView | None = None
        self._addresses, self._report = addresses, report
        self._standings: list[Standing] = []
        self._when_held: Callable[[], None] = lambda: None
        self._acts = False
        self._before: Before = lambda handlers, served: handlers
        self._held: RoleChanged | None = None  # a master's role, until it may take it up

    def wire(
        self,
        service: ClientService,
        changes: TopicChanges,
        name_servers: NameServers,
        dispatcher: Dispatcher,
    ) -> None:
        self._service = service
        self._dispatcher = dispatcher
        self._changes = changes
        self._name_servers = name_servers
        name_servers.tell_of_order(service.made.ordered)

    def acts_by(self, standing: Standing, before: Before) -> None:
        """A set whose slaves act: `before` puts handlers in front of the usual ones."""
        self._standings.append(standing)
        self._before, self._acts = before, True

    def leads_after(self, standing: Standing, when_held: Callable[[], None]) -> None:
        """A mastership is held for as long as `standing` wants it. `when_held`: one is."""
        self._standings.append(standing)
        self._when_held = when_held

    def attach(self, core: CoreView) -> None:
        """This broker has an identity, and `core` plays its replica."""
        self._core = core

    def serve_clients(self) -> None:
        """What clients ask has its handlers from now on, as far as this broker allows it."""
        service = self._service
        handlers = self._before(service.handlers(), service.served)
        guarded = self.permission.guarded(handlers, service.served)
        for code, handler in guarded.items():
            self._dispatcher.register(code, handler)

    def permit(self, allowed: int, wall_ms: int) -> None:
        """This broker allows something else than before."""
        self.permission.allowed = allowed
        self.serve_clients()
        if self.roles.serving:
            self._tables.topics.registered_anew(wall_ms)
            self._tables.topics_file.save_soon()
        self._name_servers.changed()

    async def changed(self, change: RoleChanged) -> None:
        """The replica's hook; changes come one after the other."""
        core = self._core
        assert core is not None
        if change.role == "MASTER":
            if not core.is_master or core.master_epoch != change.master_epoch:
                return  # over already: the next role registers itself
            if self._is_isolated:
                self._held = change
                self._when_held()
            else:
                self._lead(change)
            return
        self._held = None
        follows_on = self._acts and self.roles.role == change.role == "SLAVE"
        self.roles.changed(change)
        self._name_servers.changed()
        if not follows_on:  # a slave that acts goes on when it hears of another master
            self._service.mastership_over()

    def _lead(self, change: RoleChanged) -> None:
        try:
            self._service.mastership_begins(change.master_epoch)
        except (LogError, OSError) as error:
            # A master that cannot serve must make room for one that can.
            _log.error("this replica cannot lead: %s", error)
            self._replica.storage_failed(str(error))
            return
        self.roles.changed(change)
        self._name_servers.changed()
        self._tables.topics_file.save_soon()

    def hold(self) -> None:
        """A master leaves its role for now: requests wait, and are refused. Its links stay."""
        if self.roles.role != "MASTER":
            return
        self._held = self.roles.current
        self.roles.changed(RoleChanged("FENCED", 0, None, None, (), 0, source="taken for dead"))
        self._service.mastership_over()

    def resume(self) -> None:
        """It takes up the role that it has by its settings, if its replica has it still."""
        held, self._held = self._held, None
        if held is not None and self._core is not None and self._core.is_master:
            self._lead(held)

    def other_members(self) -> dict[int, str]:
        """Remoting addresses of the other members, those about to join included; empty text for an
        unknown address.
        """
        core = self._core
        if core is None:
            return {}
        addresses = self._addresses()
        return {
            member: addresses.get(member, "")
            for member in core.acknowledging_members
            if member != core.broker_id
        }

    def slave_reads(self) -> SlaveReads:
        """Which replicas consumers may be sent to."""
        return SlaveReads(slaves=lambda: self.mastership().linked, own_id=self._followed)

    def _followed(self) -> int | None:
        """This replica's id while it follows a master whose address it knows."""
        core, roles = self._core, self.roles
        follows = roles.role == "SLAVE" and roles.master_address is not None
        return core.broker_id if core is not None and follows else None

    def holders(self) -> list[str]:
        """Other replicas with every confirmed message: the master first, then the other members."""
        found = (
            [self.roles.master_address]
            if self.roles.master_address and not self.roles.serving
            else []
        )
        return list(
            dict.fromkeys(
                [*found, *(address for address in self.other_members().values() if address)]
            )
        )

    def mastership(self) -> Mastership:
        """What this broker leads, for those of its replicas that have not found it yet."""
        core, config = self._core, self._config
        leads = core is not None and core.is_master and not self._is_isolated
        leads = leads and not config.by_majority  # there are no HA links to tell of
        epoch = core.master_epoch if core is not None and leads else None
        replicas = {
            key: address
            for key, address in self._addresses().items()
            if core is None or key != core.broker_id
        }
        linked = linked_replicas(self._replica.ha_status().slaves, replicas, self._is_at)
        return Mastership(epoch, config.advertised, config.ha_advertised, replicas, linked)

    @property
    def _is_isolated(self) -> bool:
        return any(one.isolated for one in self._standings)

    def is_held(self) -> bool:
        """Whether this replica has a mastership that it has not taken up."""
        return self._held is not None and self._core is not None and self._core.is_master

    def route_entry(self) -> RouteEntry | None:
        """The present registration at name servers; None without a role, or while this broker is
        fenced.
        """
        current, core, config = self.roles.current, self._core, self._config
        if core is None or current.role == "FENCED":
            return None
        if not all(one.may_register() for one in self._standings):
            return None
        acting = config.enable_slave_acting_master
        role_id = 0 if current.role == "MASTER" else core.broker_id
        return RouteEntry(
            config.cluster_name,
            config.broker_name,
            role_id,
            config.advertised,
            config.ha_advertised,
            config.broker_not_active_ms if acting else config.name_server_timeout_ms,
            self.permission.route_text(),
            acting,
        )

    async def watch(self) -> None:
        """What changes without a change of role: a regained clean state, new members, requests
        passed on.
        """
        agreed: tuple[int, tuple[int, ...]] = (0, ())
        forwarded = 0
        while True:
            await asyncio.sleep(WATCH_MS / 1000)
            core = self._core
            if core is None:
                continue
            self._note_clean()
            standing = (core.master_epoch, core.acknowledging_members)
            if self.roles.serving and standing != agreed and await self._changes.agree():
                agreed = standing
            if self._forwarder.forwarded > forwarded:
                count, forwarded = self._forwarder.forwarded - forwarded, self._forwarder.forwarded
                self._report(
                    "RequestsForwarded", {"count": count, "to_broker_id": core.master_id or 0}
                )

    def _note_clean(self) -> None:
        try:
            self._replica.note_clean()
        except OSError as error:
            # The next start counts as unclean, which only costs time.
            _log.error("the regained clean state cannot be noted: %s", error)
