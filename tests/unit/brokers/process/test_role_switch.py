"""What name servers and members are told about a role."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokers.process.replica import LocalReplica
from brokers.process.role_switch import RoleSwitch
from brokers.remoting.client import RemotingClient
from brokers.replica.effects import RoleChanged
from brokers.service.role.forward import Forwarder
from brokers.service.role.role_view import RoleView
from brokers.service.tables.table_files import TableFiles
from tests.support.brokers import broker_config, until


def switch_of(folder: Path) -> tuple[RoleSwitch, RoleView, LocalReplica]:
    config = broker_config(folder, ["127.0.0.1:1"])
    replica, roles = LocalReplica(config), RoleView()
    forwarder = Forwarder(roles, RemotingClient(), 10, lambda peer: False)
    tables = TableFiles(folder)
    switch = RoleSwitch(
        config, roles, tables, replica, forwarder, lambda: {1: "h:1"}, lambda kind, fields: None
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


class Told:
    """Stands for the client service and the name servers: when each heard of a change."""

    def __init__(self) -> None:
        self.routes = 0

    def changed(self) -> None:
        self.routes += 1

    def mastership_over(self) -> None:
        return None


async def test_the_route_to_a_former_master_stays_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokers.process.role_switch.ROUTE_LEFT_MS", 50)
    switch, roles, replica = switch_of(tmp_path)
    told = Told()
    switch.wire(told, None, told)  # type: ignore[arg-type]
    switch.attach(replica.make(2))
    await switch.changed(RoleChanged("SLAVE", 1, 1, "h:1", (1, 2), 1))
    assert told.routes == 1
    roles.changed(RoleChanged("MASTER", 2, 2, "h:2", (1, 2), 2))
    await switch.changed(RoleChanged("SLAVE", 3, 1, "h:1", (1, 2), 3))
    # Until the new master is in the routes, clients find one that passes on.
    assert told.routes == 1
    await until(lambda: told.routes == 2, "the route was changed")
    replica.close()
