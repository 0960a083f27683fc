"""What the other controllers report about themselves: release, rules, ways to reach them.

Responsible for: the newest word of each configured peer, and for how long it counts as heard.
Refuses to know: who may lead (`leadership`), and sockets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

HEARD_MS = 1_000
"""A controller that said nothing for this long is not counted on; it speaks several times in this
time.
"""
NETWORKS_MAX = 64
TEXT_CHARS_MAX = 4_096


@dataclass(frozen=True, slots=True)
class PeerReport:
    """One heartbeat of a peer, the parts that no election depends on."""

    heard_ms: int
    release: str
    rules: tuple[int, ...]
    able: bool
    active: bool
    applied_offset: int
    networks: tuple[tuple[str, str], ...]
    http_address: str
    brokers_heard: int


class PeerReports:
    """By controller id; only configured peers are written down."""

    def __init__(self, peers: Iterable[str]) -> None:
        self._known = frozenset(peers)
        self._words: dict[str, PeerReport] = {}

    def note(self, peer_id: str, ext: Mapping[str, str], now_ms: int) -> None:
        """Take the header fields of a peer's heartbeat (19001); absent ones come from an older
        release.
        """
        if peer_id not in self._known:
            return
        self._words[peer_id] = PeerReport(
            heard_ms=now_ms,
            release=ext.get("release", "")[:TEXT_CHARS_MAX],
            rules=_numbers(ext.get("rules", "")),
            able=ext.get("able") == "true",
            active=ext.get("active") == "true",
            applied_offset=next(iter(_numbers(ext.get("appliedOffset", ""))), -1),
            networks=networks_of(ext.get("networks", "")),
            http_address=ext.get("httpAddress", "")[:TEXT_CHARS_MAX],
            brokers_heard=next(iter(_numbers(ext.get("brokersHeard", ""))), 0),
        )

    def last_report(self, peer_id: str) -> PeerReport | None:
        """The newest heartbeat, however old."""
        return self._words.get(peer_id)

    def report(self, peer_id: str, now_ms: int) -> PeerReport | None:
        """The newest heartbeat, unless the peer has been silent for too long since."""
        word = self._words.get(peer_id)
        return None if word is None or now_ms - word.heard_ms > HEARD_MS else word


def networks_text(networks: Mapping[str, str]) -> str:
    """`network=address;…`, as peers get it."""
    return ";".join(f"{network}={address}" for network, address in networks.items())


def networks_of(text: str) -> tuple[tuple[str, str], ...]:
    """What `networks_text` wrote; parts that are no pair are left out."""
    pairs = (part.partition("=") for part in text[:TEXT_CHARS_MAX].split(";")[:NETWORKS_MAX])
    return tuple((network, address) for network, equals, address in pairs if equals and address)


def _numbers(text: str) -> tuple[int, ...]:
    parts = (part.strip() for part in text[:TEXT_CHARS_MAX].split(","))
    return tuple(
        int(part) for part in parts if part.isascii() and part.isdigit() and len(part) <= 18
    )


Networks = Iterable[tuple[str, str]]
"""(CIDR, address) pairs."""


def reachable(networks: Networks | Mapping[str, str], peer: str) -> str | None:
    """The address for requests from `peer` (host:port); None when no network holds it."""
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
    """The leader's address for whoever asks from `peer`.

    `own`: the networks of the controller that is asked; `leaders`: those of the leader, None when
    that one leads. Where it is known in that network itself and the leader is not, it names itself:
    it forwards (design D5).
    """
    here = reachable(own, peer)
    if leaders is None:
        return here or default
    return reachable(leaders, peer) or here or default
