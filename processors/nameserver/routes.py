"""The route table of a name server: which broker holds which topic, under which id and address.

Responsible for: the rules of PROTOCOL 4.1 and,
and the shape of the answers made from the table.
Refuses to know: sockets, clocks (times are arguments, ms of a steady clock), the wire form of a
registration.

Invariants:
  - an address appears under at most one id of a broker name;
  - a broker name without an address has no group and no topic;
  - every address of a group has a live entry, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from processors.nameserver.records import (
    BrokerGroup,
    DataVersion,
    LiveBroker,
    Registered,
    Registration,
    TopicQueues,
    Verdict,
)

MASTER_ID = 0
PERM_READ_WRITE = 6
# Strangers can register whatever they like; the tables must not grow without an end.
BROKERS_MAX = 10_000
TOPICS_MAX = 500_000


class RouteTable:
    """All brokers and topics one name server knows."""

    def __init__(self) -> None:
        self._groups: dict[str, BrokerGroup] = {}
        # By address: one process has one, whatever name and id it registers under.
        self._live: dict[str, LiveBroker] = {}
        self._topics: dict[str, dict[str, TopicQueues]] = {}
        # What operators made of a master's topics stays while it repeats itself: its version then.
        self._touched: dict[str, DataVersion] = {}

    @property
    def brokers(self) -> tuple[LiveBroker, ...]:
        return tuple(self._live.values())

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(sorted(self._topics))

    # -- what brokers do ---------------------------------------------------------------------------

    def register(self, registration: Registration, connection_id: int, now_ms: int) -> Registered:
        """Take a registration in; the table is unchanged unless it is ACCEPTED."""
        group = self._groups.get(registration.broker_name)
        if group is not None and self._is_stale(group, registration):
            # Should the same process stand here under another id, that entry is out of date as
            # well.
            self._remove(registration.address)
            return Registered(Verdict.STALE)
        if len(registration.topics) == 1 and (
            group is None or registration.broker_id not in group.addresses
        ):
            return Registered(Verdict.SINGLE_TOPIC)
        known = self._live.get(registration.address)
        if known is None and len(self._live) >= BROKERS_MAX:
            return Registered(Verdict.TABLE_FULL)
        if known is not None and known.broker_name != registration.broker_name:
            self._remove(known.address)
        if group is None:
            group = BrokerGroup(registration.cluster_name, registration.broker_name)
            self._groups[group.broker_name] = group
        group.acting_master = bool(registration.acting_master)
        group.zone = registration.zone
        self._place(group, registration)
        self._live[registration.address] = LiveBroker(
            registration.cluster_name,
            registration.broker_name,
            registration.broker_id,
            registration.address,
            registration.ha_address,
            registration.version,
            registration.timeout_ms,
            connection_id,
            now_ms,
        )
        if self._touched.get(group.broker_name) != registration.version:
            self._touched.pop(group.broker_name, None)
            self._take_topics(group, registration)
        return self._registered(group, registration)

    def unregister(self, broker_name: str, address: str) -> bool:
        """A broker says goodbye; whether it was known under that name."""
        live = self._live.get(address)
        if live is None or live.broker_name != broker_name:
            return False
        self._remove(address)
        return True

    def heartbeat(self, address: str, now_ms: int) -> bool:
        """Refresh a known broker; whether it is known. An unknown one has to register."""
        live = self._live.get(address)
        if live is None:
            return False
        live.last_heard_ms = now_ms
        return True

    def query_data_version(
        self, address: str, version: DataVersion, now_ms: int
    ) -> tuple[bool, DataVersion | None]:
        """Whether the broker should register again, and the version known here. Counts as a
        heartbeat.
        """
        if not self.heartbeat(address, now_ms):
            return True, None
        known = self._live[address].version
        return known != version, known

    # -- how brokers leave -------------------------------------------------------------------------

    def connection_closed(self, connection_id: int) -> tuple[LiveBroker, ...]:
        """Drop at once every broker that registered last over this connection; those that were
        dropped.
        """
        return self._drop(
            [live for live in self._live.values() if live.connection_id == connection_id]
        )

    def expire(self, now_ms: int) -> tuple[LiveBroker, ...]:
        """Drop the brokers that were silent for longer than they said; those that were dropped."""
        return self._drop(
            [live for live in self._live.values() if live.last_heard_ms + live.timeout_ms < now_ms]
        )

    # -- what clients ask --------------------------------------------------------------------------

    def route(self, topic: str, zone: str | None = None) -> dict[str, object] | None:
        """TopicRouteData as a JSON value, None when no broker has the topic. `zone`: without the
        brokers that have a master and are of another zone.
        """
        queues = self._topics.get(topic)
        if not queues:
            return None
        names = sorted(name for name in queues if zone is None or self._is_near(name, zone))
        return {
            "brokerDatas": [self._groups[name].to_wire() for name in names],
            "filterServerTable": {},
            "queueDatas": [queues[name].to_wire(name) for name in names],
        }

    def cluster_info(self) -> dict[str, object]:
        """ClusterInfo as a JSON value: all groups, and their names by cluster."""
        clusters: dict[str, list[str]] = {}
        for name in sorted(self._groups):
            clusters.setdefault(self._groups[name].cluster_name, []).append(name)
        return {
            "brokerAddrTable": {name: group.to_wire() for name, group in self._groups.items()},
            "clusterAddrTable": clusters,
        }

    def member_group(self, cluster_name: str, broker_name: str) -> dict[str, object]:
        """The members of a name; empty when unknown. The cluster is only repeated
        (PROTOCOL 4.1).
        """
        group = self._groups.get(broker_name)
        addresses = {} if group is None else dict(group.addresses)
        members = {"brokerAddrs": addresses, "brokerName": broker_name, "cluster": cluster_name}
        return {"brokerMemberGroup": members}

    def _is_near(self, broker_name: str, zone: str) -> bool:
        group = self._groups[broker_name]
        return group.zone == zone or MASTER_ID not in group.addresses

    def topics_of_cluster(self, cluster_name: str) -> list[str]:
        """Topics of the brokers of a cluster, in order."""
        return [
            topic
            for topic in self.topics
            if any(self._groups[name].cluster_name == cluster_name for name in self._topics[topic])
        ]

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
        clusters = {group.cluster_name for group in self._groups.values()}
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
        self._note_touched(broker_name)
        return len(found)

    def _note_touched(self, broker_name: str) -> None:
        if (master := self.master_of(broker_name)) is not None:
            self._touched[broker_name] = master.version

    def forget_topic(self, topic: str, cluster_name: str | None = None) -> None:
        """A topic is gone, at all brokers or at those of one cluster."""
        brokers = self._topics.get(topic, {})
        for name in list(brokers):
            if cluster_name is None or self._groups[name].cluster_name == cluster_name:
                del brokers[name]
                self._note_touched(name)
        if not brokers:
            self._topics.pop(topic, None)

    def add_topic(self, topic: str, queues: Mapping[str, TopicQueues]) -> None:
        """An operator names queues of a topic: of registered brokers that do not have it yet."""
        if topic not in self._topics and len(self._topics) >= TOPICS_MAX:
            return
        named = {name: one for name, one in queues.items() if name in self._groups}
        if named:
            self._topics[topic] = {**named, **self._topics.get(topic, {})}

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

    def _take_topics(self, group: BrokerGroup, registration: Registration) -> None:
        is_first_slave = (
            registration.broker_id != MASTER_ID
            and registration.acting_master is not None
            and registration.broker_id == min(group.addresses)
        )
        if registration.broker_id != MASTER_ID and not is_first_slave:
            return
        for topic, queues in registration.topics.items():
            if is_first_slave and group.acting_master:
                queues = queues.without_write()
            brokers = self._topics.get(topic)
            if brokers is None:
                if len(self._topics) >= TOPICS_MAX:
                    continue
                brokers = self._topics[topic] = {}
            brokers[group.broker_name] = queues

    def _registered(self, group: BrokerGroup, registration: Registration) -> Registered:
        master = None if registration.broker_id == MASTER_ID else self.master_of(group.broker_name)
        if master is None:
            return Registered(Verdict.ACCEPTED)
        return Registered(Verdict.ACCEPTED, master.address, master.ha_address)

    def _drop(self, gone: Iterable[LiveBroker]) -> tuple[LiveBroker, ...]:
        dropped = tuple(gone)
        for live in dropped:
            self._remove(live.address)
        return dropped

    def _remove(self, address: str) -> None:
        live = self._live.pop(address, None)
        if live is None:
            return
        group = self._groups[live.broker_name]
        group.addresses = {
            broker_id: held for broker_id, held in group.addresses.items() if held != address
        }
        if not group.addresses:
            del self._groups[group.broker_name]
            self._touched.pop(group.broker_name, None)
            self._forget_topics(group.broker_name)
        elif group.acting_master and MASTER_ID not in group.addresses:
            self._close_for_writes(group.broker_name)

    def _forget_topics(self, broker_name: str) -> None:
        for topic in [topic for topic, brokers in self._topics.items() if broker_name in brokers]:
            del self._topics[topic][broker_name]
            if not self._topics[topic]:
                del self._topics[topic]

    def _close_for_writes(self, broker_name: str) -> None:
        for brokers in self._topics.values():
            if broker_name in brokers:
                brokers[broker_name] = brokers[broker_name].without_write()
