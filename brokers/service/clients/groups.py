"""Who is connected: consumer and producer groups, their clients and subscriptions
(PROTOCOL 4.4).

Responsible for: what a heartbeat, an unregister, a closed connection and the passing of time do to
groups, and whom to notify. Refuses to know: sockets, clocks, topics.

Invariants:
  - a connection stands for one client id in each group it serves;
  - every change of a group's client ids or subscribed topics names that group in the answer exactly
    once; another expression for a topic is none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from brokers.service.clients.heartbeat import ClientHeartbeat, ConsumerData
from brokers.service.clients.known_clients import KnownClients, KnownGroup, encode
from brokers.service.clients.subscriptions import Subscription

CHANNEL_EXPIRES_MS = 120_000
SUBSCRIPTION_EXPIRES_MS = 600_000
GROUPS_MAX = 20_000
CLIENTS_PER_GROUP_MAX = 10_000


@dataclass(slots=True)
class Channel:
    """One client of a group, on one connection."""

    connection_id: int
    client_id: str
    language: str
    version: int
    last_seen_ms: int


@dataclass(slots=True)
class Held:
    """A subscription and when a heartbeat last named it."""

    subscription: Subscription
    seen_ms: int


@dataclass(slots=True)
class ConsumerGroup:
    name: str
    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"
    channels: dict[int, Channel] = field(default_factory=dict)
    subscriptions: dict[str, Held] = field(default_factory=dict)
    fingerprint: int = 0

    def client_ids(self) -> list[str]:
        return sorted({channel.client_id for channel in self.channels.values()})


@dataclass(frozen=True, slots=True)
class HeartbeatResult:
    """`changed` groups must be notified (40); `fingerprint_differed` is what a V2 client wants to
    know.
    """

    changed: tuple[str, ...]
    fingerprint_differed: bool


class ClientGroups:
    """All groups with clients on this broker. `known`: those that the master knows, or knew."""

    def __init__(self) -> None:
        self.consumers: dict[str, ConsumerGroup] = {}
        self.producers: dict[str, dict[int, Channel]] = {}
        self.known = KnownClients()
        self._text: bytes | None = None

    @property
    def text(self) -> bytes:
        """What replicas copy of the consumer groups: who is here, and who is known."""
        if self._text is None:
            self._text = encode(self._all_known())
        return self._text

    def _all_known(self) -> dict[str, KnownGroup]:
        found = {
            name: KnownGroup(
                group.consume_from_where, dict(group.subscriptions), dict(group.clients)
            )
            for name, group in self.known.groups.items()
        }
        for name, own in self.consumers.items():
            one = found.setdefault(name, KnownGroup(own.consume_from_where))
            one.consume_from_where = own.consume_from_where
            one.subscriptions |= {key: held.subscription for key, held in own.subscriptions.items()}
            one.clients |= dict.fromkeys(own.client_ids(), 0)
        return found

    @property
    def clients(self) -> int:
        """Connections in some group."""
        of_groups = [one.channels for one in self.consumers.values()] + [*self.producers.values()]
        return len({connection_id for one in of_groups for connection_id in one})

    def on_heartbeat(
        self,
        connection_id: int,
        heartbeat: ClientHeartbeat,
        language: str,
        version: int,
        now_ms: int,
    ) -> HeartbeatResult:
        """Record a client. `ValueError` when this broker has all the groups or clients it takes."""
        changed: list[str] = []
        differed = False
        for data in heartbeat.consumers:
            group = self._consumer_group(data.group)
            channel = Channel(connection_id, heartbeat.client_id, language, version, now_ms)
            differed |= bool(heartbeat.fingerprint) and group.fingerprint != heartbeat.fingerprint
            joined = _join(group.channels, channel)
            # it is no news to the others when it was known already
            moved = not self.known.forget(data.group, heartbeat.client_id) and joined
            if joined or (not heartbeat.without_subscriptions and _is_news(group, data)):
                self._text = None
            if not heartbeat.without_subscriptions:
                moved |= _subscribe(group, data, now_ms)
                group.fingerprint = heartbeat.fingerprint
            else:
                _touch(group, now_ms)
            if moved:
                changed.append(data.group)
        for name in heartbeat.producer_groups:
            if name not in self.producers and len(self.producers) >= GROUPS_MAX:
                raise ValueError(f"this broker has its {GROUPS_MAX} producer groups")
            channels = self.producers.setdefault(name, {})
            _join(channels, Channel(connection_id, heartbeat.client_id, language, version, now_ms))
        return HeartbeatResult(tuple(dict.fromkeys(changed)), differed)

    def on_unregister(
        self,
        connection_id: int,
        client_id: str,
        producer_group: str | None,
        consumer_group: str | None,
    ) -> tuple[str, ...]:
        """A client leaves one group (35); the consumer groups to notify."""
        if producer_group:
            self._leave_producers(connection_id, (producer_group,))
        if not consumer_group:
            return ()
        was_known = self.known.forget(consumer_group, client_id)
        left = self._leave_consumers(connection_id, (consumer_group,))
        self._text = None
        return (consumer_group,) if was_known or left else ()

    def on_connection_closed(self, connection_id: int) -> tuple[str, ...]:
        """The client is gone from everywhere; the consumer groups to notify."""
        self._leave_producers(connection_id, tuple(self.producers))
        return self._leave_consumers(connection_id, tuple(self.consumers))

    def lead(self, wall_ms: int) -> None:
        """This replica is the master from now on."""
        self.known.lead(wall_ms)
        for name, group in self.consumers.items():
            for client_id in group.client_ids():
                self.known.forget(name, client_id)
        self._text = None

    def expire(self, now_ms: int, wall_ms: int) -> tuple[str, ...]:
        """Drop clients silent for 120 s and subscriptions not named for 10 min; the consumer groups
        to notify. `wall_ms` is for those that other replicas told of.
        """
        self._text = None
        for name, channels in list(self.producers.items()):
            _drop_silent(channels, now_ms)
            if not channels:
                del self.producers[name]
        changed = list(self.known.expire(wall_ms))
        for name, group in list(self.consumers.items()):
            if _drop_silent(group.channels, now_ms):
                changed.append(name)
            for topic, held in list(group.subscriptions.items()):
                if now_ms - held.seen_ms > SUBSCRIPTION_EXPIRES_MS:
                    del group.subscriptions[topic]
            if not group.channels and not group.subscriptions:
                del self.consumers[name]
        return tuple(dict.fromkeys(changed))

    def subscription(self, group: str, topic: str) -> Subscription | None:
        """What the group's clients said here, else what the master knows, or knew."""
        own = self.consumers.get(group)
        held = own.subscriptions.get(topic) if own else None
        return held.subscription if held else self.known.subscription(group, topic)

    def topics_of(self, group: str) -> list[str]:
        """What its connected clients want messages of."""
        known = self.consumers.get(group)
        return list(known.subscriptions) if known is not None and known.channels else []

    def consume_from_where(self, group: str) -> str | None:
        """Where a group that is new begins to read; None for one that nobody knows."""
        found = self.consumers.get(group) or self.known.groups.get(group)
        return found.consume_from_where if found else None

    def client_ids(self, group: str) -> list[str]:
        own = self.consumers.get(group)
        return sorted({*(own.client_ids() if own else ()), *self.known.ids(group)})

    def connections_of(self, group: str) -> list[int]:
        known = self.consumers.get(group)
        return list(known.channels) if known else []

    def _consumer_group(self, name: str) -> ConsumerGroup:
        group = self.consumers.get(name)
        if group is None:
            if len(self.consumers) >= GROUPS_MAX:
                raise ValueError(f"this broker has its {GROUPS_MAX} consumer groups")
            group = self.consumers[name] = ConsumerGroup(name)
        return group

    def _leave_producers(self, connection_id: int, names: Iterable[str]) -> None:
        for name in names:
            channels = self.producers.get(name)
            if channels and channels.pop(connection_id, None) and not channels:
                del self.producers[name]

    def _leave_consumers(self, connection_id: int, names: Iterable[str]) -> tuple[str, ...]:
        # The group itself stays until its subscriptions expire: a client that comes back at once
        # finds them.
        left = [
            name
            for name in names
            if name in self.consumers and self.consumers[name].channels.pop(connection_id, False)
        ]
        if left:
            self._text = None
        return tuple(left)


def _join(channels: dict[int, Channel], channel: Channel) -> bool:
    known = channels.get(channel.connection_id)
    if known is None and len(channels) >= CLIENTS_PER_GROUP_MAX:
        raise ValueError(f"a group takes at most {CLIENTS_PER_GROUP_MAX} clients")
    channels[channel.connection_id] = channel
    return known is None or known.client_id != channel.client_id


def _is_news(group: ConsumerGroup, data: ConsumerData) -> bool:
    held = group.subscriptions
    return (
        group.consume_from_where != data.consume_from_where
        or len(held) != len(data.subscriptions)
        or any(
            one.topic not in held or one.version > held[one.topic].subscription.version
            for one in data.subscriptions
        )
    )


def _subscribe(group: ConsumerGroup, data: ConsumerData, now_ms: int) -> bool:
    group.consume_type, group.message_model = data.consume_type, data.message_model
    group.consume_from_where = data.consume_from_where
    changed = False
    listed = set()
    for fresh in data.subscriptions:
        listed.add(fresh.topic)
        held = group.subscriptions.get(fresh.topic)
        if held is None:
            group.subscriptions[fresh.topic] = Held(fresh, now_ms)
            changed = True
            continue
        held.seen_ms = now_ms
        if fresh.version > held.subscription.version:
            held.subscription = fresh  # another text of the same topic moves no queue
    for topic in [topic for topic in group.subscriptions if topic not in listed]:
        del group.subscriptions[topic]
        changed = True
    return changed


def _touch(group: ConsumerGroup, now_ms: int) -> None:
    for held in group.subscriptions.values():
        held.seen_ms = now_ms


def _drop_silent(channels: dict[int, Channel], now_ms: int) -> bool:
    silent = [
        key
        for key, channel in channels.items()
        if now_ms - channel.last_seen_ms > CHANNEL_EXPIRES_MS
    ]
    for key in silent:
        del channels[key]
    return bool(silent)
