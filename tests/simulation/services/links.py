"""HA links of a member over simulated pipes, in place of the product's sockets.

Responsible for: what `brokers.replica.driver.ReplicaDriver` asks of its transport. Refuses to know:
packets, roles.
"""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING

from brokers.ha.transport import LinkOwner, Resolve
from tests.simulation.network import End

if TYPE_CHECKING:
    from tests.simulation.services.member import Member


class Links:
    """As `brokers.ha.transport.HaTransport`."""

    def __init__(self, member: Member, owner: LinkOwner, resolve: Resolve) -> None:
        self._member, self._owner, self._resolve = member, owner, resolve
        self._links: dict[int, End] = {}
        self._ids, self._attempt = count(1), 0
        member.links = self

    def listen(self, _host: str, port: int) -> int:
        return port

    def accept(self, end: End) -> bool:
        """Another member connects."""
        self._open(end, outbound=False)
        return True

    def connect(self, address: str) -> None:
        self._attempt += 1
        attempt, member = self._attempt, self._member
        other = member.realm.node_at(address)

        def opened(end: End) -> None:
            if attempt == self._attempt:
                self._open(end, outbound=True)
            else:
                end.close("replaced")

        def failed(why: str) -> None:
            if attempt == self._attempt:
                member.loop.within(lambda: self._owner.on_connect_failed(why))

        member.realm.network.connect(member, other, other.accept_ha, opened, failed)

    def _open(self, end: End, *, outbound: bool) -> None:
        link_id, within = next(self._ids), self._member.loop.within
        self._links[link_id] = end
        within(lambda: self._owner.on_opened(link_id, outbound=outbound))
        if end.open:
            end.listen(
                lambda data: within(lambda: self._data(link_id, data)),
                lambda reason: within(lambda: self._closed(link_id, reason)),
            )

    def _data(self, link_id: int, data: bytes) -> None:
        if link_id in self._links:
            self._owner.on_data(link_id, memoryview(data))

    def _closed(self, link_id: int, reason: str) -> None:
        if self._links.pop(link_id, None) is not None:
            self._owner.on_closed(link_id, reason)

    def send(self, link_id: int, data: bytes, offset: int = 0, count: int = 0) -> None:
        end = self._links.get(link_id)
        if end is None:
            return
        whole = bytes(data)
        while count:
            place = self._resolve(offset, count)
            assert place is not None, "the core sends bytes that the log does not have"
            piece = os.pread(place.fileno, min(count, place.count), place.position)
            whole, offset, count = whole + piece, offset + len(piece), count - len(piece)
        end.send(whole, "ha")

    def peer(self, link_id: int) -> str:
        end = self._links.get(link_id)
        return "" if end is None else self._member.realm.peer_of(end.peer.owner)

    def close_link(self, link_id: int) -> None:
        end = self._links.pop(link_id, None)
        if end is not None:
            end.close("closed")

    def hold(self, hold_ms: int) -> None:
        """What is sent from now on comes so much later."""
        for end in self._links.values():
            end.hold(hold_ms)

    def close(self) -> None:
        for link_id in list(self._links):
            self.close_link(link_id)
