"""What a service declares is how its requests are served."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Express
from brokers.replica.effects import RoleChanged
from brokers.service.role.forward import Forwarder
from brokers.service.role.role_view import RoleView
from brokers.service.role.services import Served, Service, Where, declared, handlers_of


class Peer:
    """Stands for a connection."""

    def __init__(self, peer: str) -> None:
        self.peer, self.closed = peer, False


class Echo(Service):
    """Serves one code for each place where it may be served."""

    def serves(self) -> dict[int, Served]:
        return {
            1: Served(self._answer),
            2: Served(self._answer, Where.MASTER),
            3: Served(self._answer, Where.FOR_REPLICAS),
            4: Served(self._answer, Where.MASTER, express=lambda _, request: True),
        }

    def _answer(self, _connection: object, request: RemotingCommand) -> RemotingCommand:
        return request.reply(body=b"here")


async def answer_of(code: int, roles: RoleView, peer: str = "10.0.0.9:1") -> RemotingCommand:
    forwarder = Forwarder(roles, RemotingClient(), 1, lambda peer: peer.startswith("10.0.0.1:"))
    handler = handlers_of(declared([Echo()]), forwarder)[code]
    asked: Any = handler(Peer(peer), RemotingCommand.request(code))  # type: ignore[arg-type]
    found = asked if isinstance(asked, RemotingCommand) else await asked
    assert isinstance(found, RemotingCommand)
    return found


async def test_what_is_served_here_is_served_in_every_role() -> None:
    assert (await answer_of(1, RoleView())).body == b"here"


async def test_what_is_the_masters_is_served_by_a_master_and_held_by_others() -> None:
    roles = RoleView()
    assert (await answer_of(2, roles)).code == ResponseCode.SERVICE_NOT_AVAILABLE
    roles.changed(RoleChanged("MASTER", 1, 1, "h:1", (1,), 1))
    assert (await answer_of(2, roles)).body == b"here"


async def test_what_is_for_replicas_is_refused_to_others() -> None:
    assert (await answer_of(3, RoleView())).code == ResponseCode.NO_PERMISSION
    assert (await answer_of(3, RoleView(), "10.0.0.1:4711")).body == b"here"


async def test_an_express_way_stands_beside_the_handler() -> None:
    forwarder = Forwarder(RoleView(), RemotingClient(), 1, lambda peer: False)
    handlers = handlers_of(declared([Echo()]), forwarder)
    assert isinstance(handlers[4], Express) and not isinstance(handlers[2], Express)


def test_two_services_with_one_code_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="request code 1"):
        declared([Echo(), Echo()])


def test_of_its_life_a_service_takes_what_it_needs() -> None:
    echo = Echo()
    echo.mastership_begins()
    echo.mastership_over()
    echo.connection_closed(Peer("h:1"))  # type: ignore[arg-type]
    echo.tick(1)
    echo.close()
