"""Whose HA links a master takes (design S16).

Responsible for: which ids are registered in this set, from which hosts they came, whether a second
link may take the place of the first, whom to ask whether a replica has its copy of the tables.
Refuses to know: packets, acknowledgements, sockets.

Without authentication a host is the only proof there is: whoever shares the host of a replica may
still speak for it while it has no living link, and so may anybody for a replica that was never seen
at the host it registered (NAT, several addresses).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping

from brokers.ha.master_link import MasterLink
from brokers.ha.sync_set import SlaveFacts
from brokers.remoting.addresses import host_of

ALIVE_HEARTBEATS = 1.5
"""A link that spoke within this many heartbeats is not pushed out by another one under the same
id.
"""


class Admission:
    """Remembers, for as long as the process lives, which registered replicas came from the host
    they registered.
    """

    def __init__(self) -> None:
        self.registered: Mapping[int, str] = {}
        self._at_home: dict[int, str] = {}
        self.has_tables: Callable[[int], bool] = lambda broker_id: True

    def learn(self, registered: Mapping[int, str]) -> None:
        """Ids and addresses from the controller; empty when it gives none (a Java controller)."""
        if registered:
            self.registered = dict(registered)
            self._at_home = {
                one: host
                for one, host in self._at_home.items()
                if host == host_of(self.registered.get(one, ""))
            }

    def is_known(self, broker_id: int, members: Collection[int]) -> bool:
        """Registered, or in the set, or the registrations are unknown."""
        return not self.registered or broker_id in self.registered or broker_id in members

    def refusal(self, broker_id: int, peer: str, members: Collection[int]) -> str | None:
        """Why no handshake under this id is answered to that address ("host:port", empty: not
        known); None when it is.
        """
        if not self.is_known(broker_id, members):
            return f"no replica {broker_id} is registered in this set"
        host = host_of(peer)
        if host and host == host_of(self.registered.get(broker_id, "")):
            self._at_home[broker_id] = host
            return None
        home = self._at_home.get(broker_id)
        return f"replica {broker_id} links from {home}, not from {host}" if home and host else None

    def gives_way(self, first: MasterLink, peer: str) -> bool:
        """Whether a link from another host makes room at once for one of the same id from its own:
        it never was that replica's.
        """
        home = self._at_home.get(-1 if first.peer_id is None else first.peer_id, "")
        return home != "" and host_of(peer) == home and host_of(first.peer) not in ("", home)

    def facts(
        self,
        links: Iterable[MasterLink],
        counted: Callable[[MasterLink], int],
        members: Collection[int],
        now_ms: int,
    ) -> dict[int, SlaveFacts]:
        """The linked slaves by id; `counted(link)`: what it acknowledged. A slave that could become
        a member is asked for its tables.
        """
        seen = {}
        for link in links:
            if (peer := link.peer_id) is not None:
                acked = counted(link)
                is_asked = acked >= 0 and not link.learner and peer not in members
                seen[peer] = SlaveFacts(
                    acked,
                    link.waiting_ms(now_ms=now_ms),
                    link.learner,
                    not is_asked or self.has_tables(peer),
                )
        return seen


def has_to_go(links: Mapping[int, MasterLink], links_max: int) -> int | None:
    """Which link makes room for a new one; None while there is room. Only those that have not
    shaken hands yet: of the host with most of them the oldest, so that whoever opens links and says
    nothing shuts out no replica, which speaks at once.
    """
    silent = {key: host_of(one.peer) for key, one in links.items() if one.peer_id is None}
    if len(silent) < links_max:
        return None
    counted = Counter(silent.values())
    return max(silent, key=lambda key: counted[silent[key]])


def no_room(
    links: Iterable[MasterLink], broker_id: int, members: Collection[int], links_max: int
) -> str | None:
    """Why one more handshake is not answered: without a list of who is registered, ids may be
    invented. Members have room.
    """
    introduced = sum(one.peer_id is not None for one in links)
    return (
        None
        if introduced <= links_max or broker_id in members
        else (f"more than {links_max} links")
    )


def keeps_its_place(first: MasterLink, now_ms: int, heartbeat_ms: int) -> bool:
    """Whether a link under the id of another one, which acknowledges and speaks, has to wait until
    that one is silent.
    """
    return (
        first.acked is not None and first.silent_ms(now_ms=now_ms) < ALIVE_HEARTBEATS * heartbeat_ms
    )
