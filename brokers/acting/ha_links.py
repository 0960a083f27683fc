"""Which link to a master is which member's (PROTOCOL 7.3).

Responsible for: matching members with links of the replication of sets without controllers, which
say no name. Refuses to know: sockets, names of hosts (addresses are handed in), what follows.

By an address alone RocketMQ cannot tell members of one host apart, and does not find one behind a
name or a translated address. Here a link serves one member, and is its own by the first of these:
the member said so itself; it comes from an address of the member's host; it was opened after the
member had been told where to link to, and comes from no member's host. So k members of one host
need k links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from brokers.remoting.addresses import host_of


@dataclass(frozen=True, slots=True)
class HaLink:
    """A slave's link as the master sees it. `host`: where it comes from, as a number. `announced`:
    the address for clients of the member that said that this link is its own, where it did.
    """

    link_id: int
    host: str
    opened_ms: int
    transfers: bool
    heard_ms: int
    announced: str | None = None


@dataclass(frozen=True, slots=True)
class Sought:
    """A member that is to be linked. `hosts`: addresses of its host; without any, what its address
    says. `told_ms`: when it was told where to link to; None: not yet.
    """

    address: str
    hosts: frozenset[str] = frozenset()
    told_ms: int | None = None

    @property
    def own_hosts(self) -> frozenset[str]:
        return self.hosts or frozenset((host_of(self.address),))


def match(sought: Iterable[Sought], links: Iterable[HaLink]) -> Mapping[str, HaLink]:
    """Member's address -> its link, of links that transfer."""
    members = list(sought)
    free = {one.link_id: one for one in links if one.transfers}
    found: dict[str, HaLink] = {}
    for one in list(free.values()):
        if one.announced is not None:
            # It is somebody's, and never another one's.
            del free[one.link_id]
            if any(member.address == one.announced for member in members):
                found[one.announced] = one
    for member in members:
        _take(member, free, found, _from_host(member.own_hosts))
    known = frozenset[str]().union(*(member.own_hosts for member in members))
    for member in members:
        if member.told_ms is not None:
            _take(member, free, found, _newcomer(member.told_ms, known))
    return found


def _from_host(hosts: frozenset[str]) -> Callable[[HaLink], bool]:
    return lambda link: link.host in hosts


def _newcomer(since_ms: int, known: frozenset[str]) -> Callable[[HaLink], bool]:
    return lambda link: link.opened_ms >= since_ms and link.host not in known


def _take(
    member: Sought,
    free: dict[int, HaLink],
    found: dict[str, HaLink],
    fits: Callable[[HaLink], bool],
) -> None:
    if member.address in found:
        return
    fitting = [one for one in free.values() if fits(one)]
    if fitting:
        chosen = max(fitting, key=lambda one: one.opened_ms)
        found[member.address] = free.pop(chosen.link_id)
