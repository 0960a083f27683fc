"""A real controller core on a log in memory, behind a real remoting server: what blocking callers
are tested against.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from processors.controller import effects as fx
from tests.support import remoting_thread
from tests.support.controller_rig import Rig

STRANGER = 1_000
"""Connections from outside are numbered from here, so that they are none of the rig's own
brokers.
"""


@contextmanager
def serving_core(rig: Rig) -> Iterator[str]:
    """Requests go to the rig's core, one at a time; every answer must come at once, as its log
    does. Gives the address.
    """

    def handle(connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        conn_id = STRANGER + connection.id
        rig.now_ms += 1
        rig.perform(rig.core.on_request(conn_id, connection.peer, request, rig.now_ms, rig.wall_ms))
        found = [
            one
            for one in rig.take(fx.Reply)
            if one.conn_id == conn_id and one.response.opaque == request.opaque
        ]
        return found[-1].response if found else None

    with remoting_thread.serving(handle) as address:
        yield address
