"""What name servers and members are told about a role."""

from __future__ import annotations

from pathlib import Path

from brokers.process.replica import LocalReplica
from brokers.process.role_switch import RoleSwitch, linked_replicas
from brokers.remoting.client import RemotingClient
from brokers.remoting.known_hosts import KnownHosts
from brokers.replica.effects import RoleChanged
from brokers.replica.ha_status import SlaveSeen
from brokers.service.role.forward import Forwarder
from brokers.service.role.role_view import RoleView
from brokers.service.tables.table_files import TableFiles
from tests.support.brokers import broker_config


def switch_of(folder: Path) -> tuple[RoleSwitch, RoleView, LocalReplica]:
    config = broker_config(folder, ["127.0.0.1:1"])
    replica, roles = LocalReplica(config), RoleView()
    forwarder = Forwarder(roles, RemotingClient(), 10, lambda peer: False)
    tables = TableFiles(folder)
    switch = RoleSwitch(
        *(config, roles, tables, replica, forwarder, lambda: {1: "h:1"}),
        *(lambda kind, fields: None, KnownHosts(tuple).is_at),
    )
    return switch, roles, replica


async def test_the_master_has_id_0_in_routes_and_a_slave_its_own(tmp_path: Path) -> None:
    switch, roles, replica = switch_of(tmp_path)
    assert switch.route_entry() is None and switch.other_members() == {}
    switch.attach(replica.make(2))
    assert switch.route_entry() is None
    roles.changed(RoleChanged("MASTER", 1, 2, "h:2", (2,), 1))
    entry = switch.route_entry()
    assert entry is not None and entry.broker_id == 0
    roles.changed(RoleChanged("SLAVE", 2, 1, "h:1", (1, 2), 2))
    entry = switch.route_entry()
    assert entry is not None and entry.broker_id == 2
    replica.close()


def test_a_link_that_does_not_say_whose_it_is_counts_for_who_is_registered_at_its_host() -> None:
    def seen(address: str, broker_id: int | None, acked: int) -> SlaveSeen:
        return SlaveSeen(address, broker_id, True, acked, acked, 0)

    replicas = {1: "a:10911", 2: "b:10911", 3: "c:10911"}
    links = [seen("a:5", None, 7), seen("b:5", None, -1), seen("c:5", 3, 7)]
    assert linked_replicas(links, replicas, KnownHosts(tuple).is_at) == {1, 3}


async def test_a_link_shows_the_number_of_a_replica_behind_a_name() -> None:
    replicas = {1: "localhost:10911", 2: "10.0.0.2:10911"}
    hosts = KnownHosts(replicas.values)
    link = SlaveSeen("[::ffff:127.0.0.1]:5", None, True, 7, 7, 0)
    assert linked_replicas([link], replicas, hosts.is_at) == set(), "it was not looked up yet"
    await hosts.look_up()
    assert linked_replicas([link], replicas, hosts.is_at) == {1}
