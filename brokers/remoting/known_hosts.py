"""The hosts from which owners of known addresses connect.

Responsible for: the numbers that the names among known addresses stand for, looked up again and
again: a connection shows a number, and a name may move to another one. Refuses to know: who is
behind an address, and what he may do.

A host proves no identity; it only keeps out connections from elsewhere.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable

from brokers.remoting.addresses import host_of, is_number

NAMES_MAX = 1_000
"""Names beyond these are not looked up."""
LOOK_UP_MS = 2_000
LOOK_UP_TIMEOUT_S = 5.0
MAPPED = "::ffff:"


class KnownHosts:
    """`addresses()`: "host:port" each, as configured or registered; empty texts are nobody's."""

    def __init__(self, addresses: Callable[[], Iterable[str]]) -> None:
        self._addresses = addresses
        self._numbers: dict[str, frozenset[str]] = {}

    def holds(self, peer: str) -> bool:
        """Whether `peer` ("host:port") is at the host of one of the addresses."""
        return any(self.is_at(address, peer) for address in self._addresses() if address)

    def is_at(self, address: str, peer: str) -> bool:
        """Whether `peer` is at the host of this one."""
        host, known = _plain(host_of(peer)), _plain(host_of(address))
        return host != "" and (host == known or host in self._numbers.get(known, ()))

    def _hosts(self) -> Iterable[str]:
        return (_plain(host_of(address)) for address in self._addresses() if address)

    def numbers_of(self, address: str) -> frozenset[str]:
        """What its owner's connections may show; empty where its name was not looked up yet."""
        host = _plain(host_of(address))
        return frozenset((host,)) if is_number(host) else self._numbers.get(host, frozenset())

    async def look_up(self) -> None:
        """All names among the addresses; one that cannot be looked up now keeps the numbers it
        had.
        """
        names = [name for name in dict.fromkeys(self._hosts()) if not is_number(name)][:NAMES_MAX]
        found = await asyncio.gather(*map(_numbers_of, names))
        self._numbers = {
            name: numbers or self._numbers.get(name, frozenset())
            for name, numbers in zip(names, found, strict=True)
        }

    async def keep(self) -> None:
        """Look up again and again."""
        while True:
            await self.look_up()
            await asyncio.sleep(LOOK_UP_MS / 1000)


async def _numbers_of(name: str) -> frozenset[str]:
    try:
        async with asyncio.timeout(LOOK_UP_TIMEOUT_S):
            found = await asyncio.get_running_loop().getaddrinfo(
                name, None, proto=socket.IPPROTO_TCP
            )
    except (OSError, TimeoutError, UnicodeError):
        return frozenset()
    return frozenset(str(one[4][0]) for one in found)


def _plain(host: str) -> str:
    """An IPv4 host in its usual form, also where it connected to an IPv6 socket."""
    return host.removeprefix(MAPPED)
