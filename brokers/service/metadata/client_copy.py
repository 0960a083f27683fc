"""A slave copies who greeted its master (19016): it may lead before those clients greet it.

Responsible for: the master's answer, what a slave makes of it, when a replica begins to go by it.
Refuses to know: when it is asked, what a client may do.
"""

from __future__ import annotations

from brokers.clock import Clock
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.clients.groups import ClientGroups
from brokers.service.metadata.table_pieces import TEXT_BYTES_MAX, table_piece
from brokers.service.role.role_view import RoleView
from brokers.service.role.services import Served, Service, Where


class ClientCopy(Service):
    """`text`: what this replica took over last, empty at first."""

    def __init__(self, groups: ClientGroups, roles: RoleView, clock: Clock) -> None:
        self._groups = groups
        self._roles = roles
        self._clock = clock

    def serves(self) -> dict[int, Served]:
        return {RequestCode.REGENT_CLIENTS: Served(self.dump, Where.FOR_REPLICAS)}

    @property
    def text(self) -> bytes:
        return self._groups.known.copied

    def dump(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """19016, in pieces, from a master only."""
        if self._roles.role != "MASTER":
            return request.reply(
                ResponseCode.SERVICE_NOT_AVAILABLE, remark="this replica does not lead"
            )
        return table_piece(request, self._groups.text)

    def adopt(self, text: bytes) -> None:
        """Go by what the master knows. ValueError when the text says nothing."""
        self._groups.known.adopt(text, TEXT_BYTES_MAX)

    def mastership_begins(self) -> None:
        self._groups.lead(self._clock.wall_ms())

    def mastership_over(self) -> None:
        self._groups.known.follow()
