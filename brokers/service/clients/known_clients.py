"""The clients that greeted the master, as the other replicas know them (PROTOCOL 4.4).

A stock client greets every 30 s, and a replica that was started anew has been greeted by nobody.
Would it lead before that, it would refuse pulls, since it knows no subscription (24), and name no
member of a group (38): a Go client then gives up all its queues until its next look at the group.
So replicas copy from their master who greeted it, and the next master goes by that until its
clients have greeted it themselves.

Responsible for: that knowledge as a text, how long it holds, who leaves it. Refuses to know:
sockets, clocks, who is connected here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from brokers.remoting import fastjson
from brokers.service.clients.subscriptions import Subscription

GREETED_WITHIN_MS = 75_000
"""A client reads a route every 30 s, greets every 30 s, and may be late with either."""


@dataclass(slots=True)
class KnownGroup:
    """One consumer group. `clients`: id to the wall clock in ms from which it is not believed to
    live any more, 0 while the master hears it itself.
    """

    consume_from_where: str
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    clients: dict[str, int] = field(default_factory=dict)


def encode(groups: Mapping[str, KnownGroup]) -> bytes:
    """The text that replicas copy: equal where the same is known."""
    return fastjson.dumps({name: _row(group) for name, group in groups.items()})


def decode(text: bytes, bytes_max: int) -> dict[str, KnownGroup]:
    """What a text says. `ValueError` when it is none."""
    rows = fastjson.loads(text, bytes_max)
    if not isinstance(rows, Mapping):
        raise ValueError("the known clients are no object")
    try:
        return {name: _group(row) for name, row in rows.items()}
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"a known group cannot be read: {error!r}") from error


def _row(group: KnownGroup) -> dict[str, object]:
    subscriptions = [
        [one.topic, one.expression, _codes(one.codes), one.version, one.expression_type]
        for _, one in sorted(group.subscriptions.items())
    ]
    return {
        "from": group.consume_from_where,
        "subscriptions": subscriptions,
        "clients": group.clients,
    }


def _codes(codes: frozenset[int] | None) -> list[int] | None:
    return None if codes is None else sorted(codes)


def _group(row: Mapping[str, object]) -> KnownGroup:
    subscriptions, clients = row["subscriptions"], row["clients"]
    if not isinstance(subscriptions, list) or not isinstance(clients, Mapping):
        raise ValueError("a known group without subscriptions or clients")
    known = [
        Subscription(str(topic), str(text), _set(codes), int(version), str(kind))
        for topic, text, codes, version, kind in subscriptions
    ]
    return KnownGroup(
        str(row["from"]),
        {one.topic: one for one in known},
        {str(one): int(until) for one, until in clients.items()},
    )


def _set(codes: Iterable[int] | None) -> frozenset[int] | None:
    return None if codes is None else frozenset(map(int, codes))


class KnownClients:
    """On a slave `copied` is its master's text. From `lead` on, what it said holds for those
    clients that have not greeted this replica, for a bounded time.
    """

    def __init__(self) -> None:
        self.copied = b""
        self.groups: dict[str, KnownGroup] = {}
        self._leads = False
        self._over_at_ms = 0

    def adopt(self, text: bytes, bytes_max: int) -> None:
        """Take the master's text over. `ValueError` when it is none."""
        if text != self.copied:
            self.groups = decode(text, bytes_max)
            self.copied = text

    def lead(self, wall_ms: int) -> None:
        """This replica is the master from now on."""
        self._leads, self.copied = True, b""
        self._over_at_ms = until_ms = wall_ms + GREETED_WITHIN_MS
        for group in self.groups.values():
            for client_id, known_ms in group.clients.items():
                group.clients[client_id] = min(known_ms or until_ms, until_ms)

    def follow(self) -> None:
        """Another replica may be the master: its text is to be copied."""
        self._leads = False

    def ids(self, group: str) -> Iterable[str]:
        known = self.groups.get(group)
        return known.clients if known else ()

    def subscription(self, group: str, topic: str) -> Subscription | None:
        known = self.groups.get(group)
        return known.subscriptions.get(topic) if known else None

    def forget(self, group: str, client_id: str) -> bool:
        """It greeted this master, or left it: its connection says the rest. Whether it was known
        without one.
        """
        known = self.groups.get(group) if self._leads else None
        if known is None or client_id not in known.clients:
            return False
        del known.clients[client_id]
        return True

    def expire(self, wall_ms: int) -> tuple[str, ...]:
        """Nobody has heard of these clients for too long; the groups that lost one."""
        changed = []
        for name, group in list(self.groups.items()):
            gone = [one for one, until in group.clients.items() if until and until <= wall_ms]
            for client_id in gone:
                del group.clients[client_id]
            if gone:
                changed.append(name)
        if self._leads and wall_ms >= self._over_at_ms:
            self.groups.clear()
        return tuple(changed)
