"""What a service of this broker declares: its request codes, who serves them, and its life.

Responsible for: turning declarations into handlers. A new request code is a line in `serves` of the
service that has it; a new service is a line in `client_service.ClientService`.
Refuses to know: which services there are, and what they do.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection, Express, Handler, TakeExpress
from brokers.service.role.forward import CALL_TIMEOUT_MS, Forwarder


class Where(Enum):
    """Who answers a request, and who may ask."""

    HERE = "every replica answers for itself"
    MASTER = "the master answers; another replica passes the request on, or holds it"
    FOR_REPLICAS = "every replica answers, and only replicas of its set may ask"
    TABLE = "every replica answers; who follows a master hears that master only"


class Moves(Enum):
    """What RocketMQ's brokerPermission may forbid."""

    NOTHING = 0
    MESSAGES_IN = 1
    MESSAGES_OUT = 2


Aside = Callable[
    [Connection, RemotingCommand], "RemotingCommand | Awaitable[RemotingCommand] | None"
]


@dataclass(frozen=True, slots=True)
class Served:
    """How the requests of one code are served.

    `writes`: not during a hand-over, and not when its client may have given up on it since
    (`brokers.remoting.standstill`). `repeatable`: asking the master twice does no harm.
    `timeout_ms`: how long the master's answer is waited for. `express`: takes the usual requests
    together (`brokers.remoting.connection.Express`). `aside`: what another replica than the master
    answers itself, None where it passes the request on all the same.
    """

    handler: Handler
    where: Where = Where.HERE
    writes: bool = False
    repeatable: bool = False
    timeout_ms: int = CALL_TIMEOUT_MS
    express: TakeExpress | None = None
    aside: Aside | None = None
    moves: Moves = Moves.NOTHING


class Service:
    """Base of all services: one declares what it serves, and takes of its life what it needs."""

    def serves(self) -> Mapping[int, Served]:
        """Request code to how it is served; asked once."""
        raise NotImplementedError

    def mastership_begins(self) -> None:
        """Before the first request is served as master. LogError, OSError: it cannot lead."""

    def mastership_over(self) -> None:
        """This replica is not the master any more."""

    def acting_begins(self) -> None:
        """This slave delivers for its master from now on (PROTOCOL 7.2)."""

    def acting_over(self) -> None:
        """It does so no more: nothing is put when this returns."""

    def connection_closed(self, connection: Connection) -> None:
        """A client, or a peer, is gone."""

    def tick(self, now_ms: int) -> None:
        """Every few dozen milliseconds."""

    def close(self) -> None:
        """The broker ends."""


def declared(services: Iterable[Service]) -> dict[int, Served]:
    """What all of them serve. ValueError when two serve the same code."""
    found: dict[int, Served] = {}
    for service in services:
        for code, served in service.serves().items():
            if int(code) in found:
                raise ValueError(f"two services serve request code {int(code)}")
            found[int(code)] = served
    return found


def handlers_of(served: Mapping[int, Served], forwarder: Forwarder) -> dict[int, Handler]:
    """Request code to handler, as the declarations say."""
    return {code: _handler(one, forwarder) for code, one in served.items()}


def never_old(served: Mapping[int, Served]) -> set[int]:
    """The request codes that are refused when they may be old."""
    return {code for code, one in served.items() if one.writes}


def _handler(served: Served, forwarder: Forwarder) -> Handler:
    handler = served.handler
    if served.where is Where.MASTER:
        handler = forwarder.by_master(
            handler, served.timeout_ms, repeatable=served.repeatable, writes=served.writes
        )
        if served.aside is not None:
            handler = _aside_or(served.aside, handler)
    elif served.where is Where.FOR_REPLICAS:
        handler = forwarder.of_replicas(handler)
    elif served.where is Where.TABLE:
        handler = forwarder.to_followers(handler)
    return handler if served.express is None else Express(handler, served.express)


def _aside_or(aside: Aside, otherwise: Handler) -> Handler:
    def handle(connection: Connection, request: RemotingCommand) -> Answer:
        answer = aside(connection, request)
        return otherwise(connection, request) if answer is None else answer

    return handle
