"""The route table of a name server: which broker holds which topic, under which id and address.

Responsible for: the rules of PROTOCOL 4.1 and 4.20, what follows from a change (effects), and the
shape of the answers made from the table.
Refuses to know: sockets, clocks (times are arguments, ms of a steady clock), the wire form of a
registration.

Invariants:
  - an address appears under at most one id of a broker name;
  - a broker name without an address has no group and no topic;
  - every address of a group has a live entry, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from processors.nameserver import acting
from processors.nameserver.departures import Departure, Left, Why
from processors.nameserver.effects import Effect
from processors.nameserver.records import (
    MASTER_ID,
    PERM_READ_WRITE,
    BrokerGroup,
    DataVersion,
    LiveBroker,
    Registered,
    Registration,
    TopicQueues,
    Verdict,
)

# Strangers can register whatever they like; the tables must not grow without an end.
BROKERS_MAX = 10_000
TOPICS_MAX = 500_000


class RouteTable:
    """All brokers and topics one name server knows. Connection ids grow: the one that was opened
    later has the larger.
    """

    def __init__(self) -> None:
        self._groups: dict[str, BrokerGroup] = {}
        # By address: one process has one, whatever name and id it registers under.
        self._live: dict[str, LiveBroker] = {}
        self._topics: dict[str, dict[str, TopicQueues]] = {}
        self._registrations = 0

    @property
    def brokers(self) -> tuple[LiveBroker, ...]:
        return tuple(self._live.values())

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted(self._topics))

    # -- what brokers do ---------------------------------------------------------------------------

    def register(
        self,
        registration: Registration,
        connection_id: int,
        now_ms: int,
        *,
        drops_absent: bool = False,
    ) -> Registered:
        """Take a registration in; the table is unchanged unless it is ACCEPTED. `drops_absent`:
        topics that it does not name are gone.
        """
        group = self._groups.get(registration.broker_name)
        if group is not None and self._is_stale(group, registration):
            # Should the same process stand here under another id, that entry is out of date as
            # well.
            return Registered(Verdict.STALE, effects=self._take_away(registration.address))
        if len(registration.topics) == 1 and (
            group is None or registration.broker_id not in group.addresses
        ):
            return Registered(Verdict.SINGLE_TOPIC)
        known = self._live.get(registration.address)
        if known is None and len(self._live) >= BROKERS_MAX:
            return Registered(Verdict.TABLE_FULL)
        effects: list[Effect] = []
        if known is not None and known.broker_name != registration.broker_name:
            effects += self._take_away(known.address)
            known = None
        if group is None:
            group = BrokerGroup(registration.cluster_name, registration.broker_name)
            self._groups[group.broker_name] = group
        before, acted = group.addresses, group.acting_master
        group.acting_master = bool(registration.acting_master)
        group.zone = registration.zone
        self._place(group, registration)
        rewrites = (
            registration.broker_id not in before
            or known is None
            or known.version != registration.version
        )
        self._take_topics(group, registration, rewrites, drops_absent)
        self._enter(registration, known, connection_id, now_ms)
        if (before, acted) != (group.addresses, group.acting_master):
            effects.append(acting.members_seen(group))
        if before and registration.broker_id < min(before):
            effects.append(acting.came_with_smaller_id(group, registration.ha_address))
        return self._registered(group, registration, tuple(effects))

    def _enter(
        self, said: Registration, known: LiveBroker | None, connection_id: int, now_ms: int
    ) -> None:
        filter_servers = said.filter_servers
        if filter_servers is None:
            filter_servers = () if known is None else known.filter_servers
        self._registrations += 1
        self._live[said.address] = LiveBroker(
            said.cluster_name,
            said.broker_name,
            said.broker_id,
            said.address,
            said.ha_address,
            said.version,
            said.timeout_ms,
            connection_id,
            now_ms,
            self._registrations,
            False,
            filter_servers,
        )

    def heartbeat(
        self, cluster_name: str, address: str, connection_id: int, now_ms: int
    ) -> LiveBroker | None:
        """Refresh a known broker, which stands from now on for that connection if it is the newer
        one. None: it is not known, and has to register.
        """
        live = self._live.get(address)
        if live is None or live.cluster_name != cluster_name:
            return None
        live.last_heard_ms = now_ms
        if connection_id > live.connection_id:
            live.connection_id, live.lost = connection_id, False
        return live

    def query_data_version(
        self, cluster_name: str, address: str, version: DataVersion, connection_id: int, now_ms: int
    ) -> tuple[bool, DataVersion | None]:
        """Whether the broker should register again, and the version known here. Counts as a
        heartbeat.
        """
        live = self.heartbeat(cluster_name, address, connection_id, now_ms)
        return (True, None) if live is None else (live.version != version, live.version)

    # -- how brokers leave -------------------------------------------------------------------------

    def said_goodbye(self, broker_name: str, address: str, connection_id: int) -> Departure | None:
        """A broker unregisters. None: it is not known under that name, or has registered over a
        newer connection since: what an earlier process of that address said last takes nothing
        away from the one that runs now.
        """
        live = self._live.get(address)
        if live is None or live.broker_name != broker_name or connection_id < live.connection_id:
            return None
        return _departure(live, Why.GOODBYE)

    def connection_closed(self, connection_id: int) -> tuple[Departure, ...]:
        """Every broker that was heard last over this connection is to leave."""
        lost = [live for live in self._live.values() if live.connection_id == connection_id]
        for live in lost:
            live.lost = True
        return tuple(_departure(live, Why.LOST) for live in lost)

    def overdue(self, now_ms: int) -> tuple[Departure, ...]:
        """Who is to leave now: silent for longer than they said, or lost and still here."""
        found = []
        for live in self._live.values():
            if live.last_heard_ms + live.timeout_ms < now_ms:
                found.append(_departure(live, Why.SILENT))
            elif live.lost:
                found.append(_departure(live, Why.LOST))
        return tuple(found)

    def heard_nobody(self, pause_ms: int, now_ms: int) -> None:
        """The name server itself stood still for so long, until now: that counts as nobody's
        silence.
        """
        for live in self._live.values():
            live.last_heard_ms = min(now_ms, live.last_heard_ms + pause_ms)

    def remove(self, departures: Iterable[Departure]) -> Left:
        """Take them away together, in their order; who registered again since stays."""
        left: list[tuple[LiveBroker, Why]] = []
        offline: dict[str, str] = {}
        for departure in departures:
            live = self._live.get(departure.address)
            if live is None or live.registration != departure.registration:
                continue
            group = self._groups[live.broker_name]
            if live.broker_id == min(group.addresses):
                offline[live.broker_name] = live.address
            self._forget(live)
            left.append((live, departure.why))
        return Left(tuple(left), self._settled([live.broker_name for live, _ in left], offline))

    def _take_away(self, address: str) -> tuple[Effect, ...]:
        live = self._live.get(address)
        return () if live is None else self.remove([_departure(live, Why.GOODBYE)]).effects

    def _forget(self, live: LiveBroker) -> None:
        del self._live[live.address]
        group = self._groups[live.broker_name]
        group.addresses = {
            broker_id: held for broker_id, held in group.addresses.items() if held != live.address
        }

    def _settled(self, names: Iterable[str], offline: Mapping[str, str]) -> tuple[Effect, ...]:
        """Topics of names that have lost brokers, in one walk; what others are to hear."""
        groups = {name: self._groups[name] for name in names}
        gone = {name for name, group in groups.items() if not group.addresses}
        closed = {name for name, group in groups.items() if self._acts(group)} - gone
        if gone or closed:
            self._walk_topics(gone, closed)
        effects: list[Effect] = []
        for name, group in groups.items():
            effects.append(acting.members_seen(group))
            if name in gone:
                del self._groups[name]
            elif name in offline:
                effects.append(acting.smallest_id_left(group, offline[name]))
        return tuple(effects)

    @staticmethod
    def _acts(group: BrokerGroup) -> bool:
        """Whether a slave of it acts, so that nobody may write."""
        return group.acting_master and MASTER_ID not in group.addresses

    def _walk_topics(self, gone: set[str], closed: set[str]) -> None:
        for topic, brokers in list(self._topics.items()):
            for name in brokers.keys() & closed:
                brokers[name] = brokers[name].without_write()
            for name in brokers.keys() & gone:
                del brokers[name]
            if not brokers:
                del self._topics[topic]

    # -- what clients ask --------------------------------------------------------------------------

    def route(
        self, topic: str, zone: str | None = None, *, acting_masters: bool = False
    ) -> dict[str, object] | None:
        """TopicRouteData as a JSON value, None when no broker has the topic. `zone`: without the
        brokers that have a master and are of another zone. `acting_masters`: where a set that wants
        it has no master, its smallest id stands for it.
        """
        queues = self._topics.get(topic)
        if not queues:
            return None
        shown: dict[str, Mapping[int, str]] = {}
        for name in sorted(queues):
            group = self._groups[name]
            shown[name] = (
                acting.addresses_in_route(topic, group, queues[name])
                if acting_masters
                else group.addresses
            )
        names = list(shown) if zone is None else acting.without_far_zones(zone, self._groups, shown)
        return {
            "brokerDatas": [self._groups[name].to_wire(shown[name]) for name in names],
            "filterServerTable": {
                address: list(servers)
                for name in names
                for address in self._groups[name].addresses.values()
                if (servers := self._live[address].filter_servers)
            },
            "queueDatas": [queues[name].to_wire(name) for name in names],
        }

    def cluster_info(self) -> dict[str, object]:
        """ClusterInfo as a JSON value: all groups, and their names by cluster."""
        clusters: dict[str, list[str]] = {}
        for name in sorted(self._groups):
            for cluster in sorted(self._clusters_of(name)):
                clusters.setdefault(cluster, []).append(name)
        return {
            "brokerAddrTable": {name: group.to_wire() for name, group in self._groups.items()},
            "clusterAddrTable": clusters,
        }

    def _clusters_of(self, broker_name: str) -> set[str]:
        """Two clusters that use one name share its brokers, and both list it."""
        group = self._groups[broker_name]
        named = {self._live[address].cluster_name for address in group.addresses.values()}
        return named | {group.cluster_name}

    def member_group(self, cluster_name: str, broker_name: str) -> dict[str, object]:
        """The members of a name; empty when unknown. The cluster is only repeated
        (PROTOCOL 4.1).
        """
        group = self._groups.get(broker_name)
        addresses = {} if group is None else dict(group.addresses)
        members = {"brokerAddrs": addresses, "brokerName": broker_name, "cluster": cluster_name}
        return {"brokerMemberGroup": members}

    def topics_of_cluster(self, cluster_name: str) -> list[str]:
        """Topics of the brokers of a cluster, in order."""
        names = {name for name in self._groups if cluster_name in self._clusters_of(name)}
        return [topic for topic in self.topics if names & self._topics[topic].keys()]

    def topics_flagged(self, wanted: int, unwanted: int = 0) -> list[str]:
        """Topics of which the first broker's queues have the flags `wanted` and none of
        `unwanted`.
        """
        found = []
        for topic in self.topics:
            queues = self._topics[topic]
            flags = queues[min(queues)].sys_flag
            if flags & wanted == wanted and not flags & unwanted:
                found.append(topic)
        return found

    def system_list(self) -> tuple[list[str], str | None]:
        """(names of clusters and brokers, which have topics of their name; a broker's address)."""
        clusters = {name for group in self._groups for name in self._clusters_of(group)}
        return sorted(clusters | self._groups.keys()), next(iter(self._live), None)

    # -- what operators do -------------------------------------------------------------------------

    def wipe_writes(self, broker_name: str) -> int:
        """Nobody sends to a broker any more, until it registers something new; how many topics it
        has.
        """
        return self._with_perm(broker_name, lambda queues: queues.without_write())

    def allow_writes(self, broker_name: str) -> int:
        """The other way; read and write it is then, whatever it was."""
        return self._with_perm(broker_name, lambda queues: queues.with_perm(PERM_READ_WRITE))

    def _with_perm(self, broker_name: str, made: Callable[[TopicQueues], TopicQueues]) -> int:
        found = [brokers for brokers in self._topics.values() if broker_name in brokers]
        for brokers in found:
            brokers[broker_name] = made(brokers[broker_name])
        return len(found)

    def forget_topic(self, topic: str, cluster_name: str | None = None) -> None:
        """A topic is gone, at all brokers or at those of one cluster, until one of them names it
        again.
        """
        brokers = self._topics.get(topic, {})
        for name in list(brokers):
            if cluster_name is None or cluster_name in self._clusters_of(name):
                del brokers[name]
        if not brokers:
            self._topics.pop(topic, None)

    def add_topic(self, topic: str, queues: Mapping[str, TopicQueues]) -> None:
        """Somebody names queues of a topic: those of registered brokers are taken, of sets where a
        slave acts without writes.
        """
        if topic not in self._topics and len(self._topics) >= TOPICS_MAX:
            return
        named = {
            name: one.without_write() if self._acts(self._groups[name]) else one
            for name, one in queues.items()
            if name in self._groups
        }
        if named:
            self._topics[topic] = {**self._topics.get(topic, {}), **named}

    def master_of(self, broker_name: str) -> LiveBroker | None:
        """The master of a name, None when it has none here."""
        group = self._groups.get(broker_name)
        address = None if group is None else group.addresses.get(MASTER_ID)
        return None if address is None else self._live[address]

    # -- rules -------------------------------------------------------------------------------------

    def _is_stale(self, group: BrokerGroup, registration: Registration) -> bool:
        state_version = registration.version.state_version
        held_by = group.addresses.get(registration.broker_id)
        if held_by == registration.address:
            return False
        if held_by is not None:
            if self._live[held_by].version.state_version > state_version:
                return True
        # Java forgets the last master when its connection closes; a paused older one could then
        # come back for a moment. Version 0 is no epoch: such a broker has no controller and is not
        # measured by one.
        return (
            registration.broker_id == MASTER_ID and 0 < state_version < group.highest_master_version
        )

    def _place(self, group: BrokerGroup, registration: Registration) -> None:
        replaced = group.addresses.get(registration.broker_id)
        if replaced is not None and replaced != registration.address:
            del self._live[replaced]
        # One process, another role: the address moves to its new id.
        kept = {
            broker_id: address
            for broker_id, address in group.addresses.items()
            if address != registration.address and broker_id != registration.broker_id
        }
        group.addresses = dict(
            sorted((kept | {registration.broker_id: registration.address}).items())
        )
        if registration.broker_id == MASTER_ID:
            group.highest_master_version = max(
                group.highest_master_version, registration.version.state_version
            )

    def _take_topics(
        self, group: BrokerGroup, registration: Registration, rewrites: bool, drops_absent: bool
    ) -> None:
        """`rewrites`: also what is known already."""
        is_prime_slave = (
            registration.broker_id != MASTER_ID
            and registration.acting_master is not None
            and registration.broker_id == min(group.addresses)
        )
        if registration.broker_id != MASTER_ID and not is_prime_slave:
            return
        if drops_absent:
            for topic in self._topics.keys() - registration.topics.keys():
                self._drop_queues(topic, group.broker_name)
        for topic, queues in registration.topics.items():
            brokers = self._topics.get(topic)
            if brokers is None:
                if len(self._topics) >= TOPICS_MAX:
                    continue
                brokers = self._topics[topic] = {}
            if rewrites or group.broker_name not in brokers:
                read_only = is_prime_slave and group.acting_master
                brokers[group.broker_name] = queues.without_write() if read_only else queues

    def _drop_queues(self, topic: str, broker_name: str) -> None:
        brokers = self._topics[topic]
        brokers.pop(broker_name, None)
        if not brokers:
            del self._topics[topic]

    def _registered(
        self, group: BrokerGroup, registration: Registration, effects: tuple[Effect, ...]
    ) -> Registered:
        master = None if registration.broker_id == MASTER_ID else self.master_of(group.broker_name)
        if master is None:
            return Registered(Verdict.ACCEPTED, effects=effects)
        return Registered(Verdict.ACCEPTED, master.address, master.ha_address, effects)


def _departure(live: LiveBroker, why: Why) -> Departure:
    return Departure(live.broker_name, live.address, live.registration, why)
