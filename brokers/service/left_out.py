"""Requests of RocketMQ 5.3.3 that brokers of ours do not serve, and what each of them belongs to
(PROTOCOL 4.2).

Responsible for: an answer that names what is left out: code 3, with RocketMQ's own words in front.
Refuses to know: what is served.
"""

from __future__ import annotations

from collections.abc import Mapping

from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.role.services import Served, Service

_ACCESS = "users and access control lists are not served"
_CONTAINER = "broker containers are left out"
_COLD = "flow control of cold reads is left out: they are read beside everything else"
_ROCKSDB = "stores in RocksDB are left out"
_GONE = "RocketMQ 5 itself serves it no more"

LEFT_OUT: Mapping[int, str] = {
    354: _ROCKSDB,
    355: _ROCKSDB,
    513: "logical queues (static topics) are left out",
    902: _CONTAINER,
    903: _CONTAINER,
    905: "no slave of this set acts for its master",
    908: "a replica's flushed offset is its own, and nobody sets it from outside",
    2001: _COLD,
    2002: _COLD,
    2003: _COLD,
    2004: "how the system reads ahead is left to the system",
    **dict.fromkeys(range(3001, 3011), _ACCESS),
    **dict.fromkeys((13, 22, 23, 27, 47, *range(209, 215), 301, 302), _GONE),
}
"""Request code to what is said of it."""


class LeftOut(Service):
    """Every replica says so."""

    def serves(self) -> dict[int, Served]:
        """All that is left out."""
        return dict.fromkeys(LEFT_OUT, Served(self._refuse))

    def _refuse(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        return request.reply(
            ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
            remark=f" request type {request.code} not supported: {LEFT_OUT[request.code]}",
        )
