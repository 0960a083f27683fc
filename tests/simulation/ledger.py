"""What clients were told, beside what is stored: each message once, by whom it was sent, until it
is old enough to go.

Responsible for: the clients' side of what was acknowledged, and which offsets retention was allowed
to delete.
Refuses to know: replicas' roles, epochs, how a send found its master.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from brokers.service.sending.messages import packed_peer
from brokers.store.log.records import MessageFields
from brokers.store.log.scan import LogWalk
from tests.simulation.passing_on import peer_of
from tests.simulation.sim_log import FILE_BYTES
from tests.simulation.world import InvariantBroken

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode
    from tests.simulation.client_node import ClientNode
    from tests.simulation.cluster import Cluster

BORN_HOST, LENGTH_AT, BODY_AT = slice(48, 56), 84, 88
NAMES_BYTES = 16


class Ledger:
    """`gone_below`: all that is stored at lower offsets may be deleted anywhere."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.world = cluster, cluster.world
        self.gone_below = 0
        self._acked: dict[bytes, bytes] = {}
        self._stored_ms: dict[bytes, int] = {}

    def stored(self, made: Iterable[MessageFields]) -> None:
        """A master takes these into its log just now, whatever its clock says."""
        for message in made:
            self._stored_ms[_part(bytes(message.body[:NAMES_BYTES]))] = self.world.now_ms

    def acknowledged(self, data: bytes) -> None:
        """A master answers for this stored message."""
        self._acked[_name(data)] = data

    def told(self, client: ClientNode, body: bytes) -> None:
        """A client hears that this is stored: a master must have said so, of a message that came
        from this client.
        """
        name = _part(body)
        stored = self._acked.get(name)
        if stored is None:
            raise InvariantBroken(
                f"{client.name} is told that {name!r} is stored, and no master said so"
            )
        if stored[BORN_HOST] != packed_peer(peer_of(client)):
            raise InvariantBroken(
                f"{name!r} was sent by {client.name}, and is stored as somebody else's"
            )

    def stored_once(self, node: BrokerNode) -> None:
        """No client sends a message twice, so nobody else may (D5 says it of commands, the
        forwarder of sends).
        """
        seen: set[bytes] = set()
        disk = node.disk
        for record in LogWalk(
            disk.read_log, disk.log_min, disk.log_end, FILE_BYTES, check_body=False
        ):
            name = _name(disk.read_log(record.physical_offset, record.size))
            if name in seen:
                raise InvariantBroken(f"{name!r} was sent once and is stored twice")
            seen.add(name)

    def trimming(self, node: BrokerNode, below: int, reserved_ms: int, *, forced: bool) -> None:
        """Files that end at or below `below` are about to go: nothing unconfirmed, nothing young
        unless the disk is full.
        """
        assert node.core is not None
        if below > node.core.confirm_offset:
            raise InvariantBroken(
                f"{node.name} deletes its log below {below}, confirmed is "
                f"{node.core.confirm_offset}"
            )
        disk = node.disk
        for record in LogWalk(disk.read_log, disk.log_min, below, FILE_BYTES, check_body=False):
            name = _name(disk.read_log(record.physical_offset, record.size))
            if self._stored_ms.get(name, 0) + reserved_ms > self.world.now_ms and not forced:
                raise InvariantBroken(
                    f"{node.name} deletes the message at {record.physical_offset} before its time"
                )
        self.gone_below = max(self.gone_below, below)


def _name(data: bytes) -> bytes:
    length = int.from_bytes(data[LENGTH_AT:BODY_AT], "big")
    return _part(data[BODY_AT : BODY_AT + min(length, NAMES_BYTES)])


def _part(body: bytes) -> bytes:
    """`client:number` of a body."""
    return b":".join(body[:NAMES_BYTES].split(b":")[:2])
