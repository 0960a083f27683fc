"""Which address of a controller someone can reach, by the network the question came from.

Responsible for: the longest network that holds an address, for this controller and for the leader.
Refuses to know: sockets, and who leads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Networks = Iterable[tuple[str, str]]
"""(CIDR, address) pairs."""


def reachable(networks: Networks | Mapping[str, str], peer: str) -> str | None:
    """The address for whoever asks from `peer` (host:port); None when no network holds it."""
    host = _host(peer)
    if host is None:
        return None
    pairs = networks.items() if isinstance(networks, Mapping) else networks
    best: tuple[int, str] | None = None
    for network, address in pairs:
        try:
            found = ip_network(network)
        except ValueError:
            continue
        if (
            found.version == host.version
            and host in found
            and (best is None or found.prefixlen > best[0])
        ):
            best = (found.prefixlen, address)
    return None if best is None else best[1]


def _host(peer: str) -> IPv4Address | IPv6Address | None:
    try:
        host = ip_address(peer.rpartition(":")[0].strip("[]"))
    except ValueError:
        return None
    mapped = host.ipv4_mapped if isinstance(host, IPv6Address) else None
    return mapped or host


def leader_as_seen(
    peer: str, *, default: str, own: Mapping[str, str], leaders: Networks | None
) -> str:
    """
    The leader's address for whoever asks from `peer`.

    `own`: the networks of the controller that is asked; `leaders`: those of the leader, None when
    that one leads. Where it is known in that network itself and the leader is not, it names itself:
    it forwards (design D5).
    """
    here = reachable(own, peer)
    if leaders is None:
        return here or default
    return reachable(leaders, peer) or here or default
