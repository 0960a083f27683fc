"""Where a message goes that leaves its set (PROTOCOL 7.4).

Responsible for: the queues of other sets' masters that take a topic, the choice among them, both as
RocketMQ makes it, so that check points and their acknowledgements meet. Refuses to know: how a
route is fetched, what is sent.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from brokers.acting.messages import MASTER_ID
from brokers.remoting import fastjson
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import NAME_CHARS_MAX
from brokers.service.tables.topics import PERM_WRITE, QUEUES_PER_TOPIC_MAX
from brokers.store.log.properties import java_string_hash

BROKERS_MAX = 1_000
_PORT = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Target:
    """One queue of the master of another set. `address`: host:port."""

    broker_name: str
    queue_id: int
    address: str


@dataclass(frozen=True, slots=True)
class Route:
    """Masters of other sets that take a topic, by name: (name, address, number of queues)."""

    masters: tuple[tuple[str, str, int], ...] = ()

    @property
    def queues(self) -> int:
        return sum(count for _, _, count in self.masters)

    def queue_at(self, index: int) -> Target:
        """Of all queues, by name and then by number."""
        for name, address, count in self.masters:
            if index < count:
                return Target(name, index, address)
            index -= count
        raise IndexError(index)

    def without(self, names: Collection[str]) -> Route:
        return Route(tuple(one for one in self.masters if one[0] not in names))


def next_target(route: Route, turn: int, avoided: Collection[str] = ()) -> Target | None:
    """Round robin. Brokers that are `avoided` are taken when there are no others."""
    usable = route.without(avoided)
    if not usable.queues:
        usable = route
    return usable.queue_at(turn % usable.queues) if usable.queues else None


def fixed_target(route: Route, topic: str, store_host: bytes) -> Target | None:
    """The same queue for all records of one broker and topic, while the route is the same."""
    if not route.queues:
        return None
    return route.queue_at(java_string_hash(topic + java_host_text(store_host)) % route.queues)


def java_host_text(host: bytes) -> str:
    """A stored host as Java writes a socket's address that was made of a number. IPv6: as releases
    from 14 on do, in brackets; older ones leave them out.
    """
    address = ip_address(bytes(host[:-4]))
    (port,) = _PORT.unpack(host[-4:])
    if isinstance(address, IPv6Address):
        groups = ":".join(f"{int(part, 16):x}" for part in address.exploded.split(":"))
        return f"/[{groups}]:{port}"
    return f"/{address}:{port}"


def read_route(answer: RemotingCommand, own_name: str) -> Route:
    """Of an answer to 105, without the own set. ValueError: it says nothing about masters."""
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return Route()
    if answer.code != ResponseCode.SUCCESS:
        raise ValueError(answer.remark or f"code {answer.code}")
    body = fastjson.loads(answer.body)
    if not isinstance(body, Mapping):
        raise ValueError("the body is no route")
    brokers, queues = body.get("brokerDatas", []), body.get("queueDatas", [])
    if not isinstance(brokers, list) or not isinstance(queues, list):
        raise ValueError("the body is no route")
    if max(len(brokers), len(queues)) > BROKERS_MAX:
        raise ValueError(f"a route of more than {BROKERS_MAX} brokers")
    masters = _masters(brokers)
    found = {}
    for one in queues:
        name, count, perm = _queue_data(one)
        if perm & PERM_WRITE and count and name in masters and name != own_name:
            found[name] = (name, masters[name], count)
    return Route(tuple(found[name] for name in sorted(found)))


def read_address(answer: RemotingCommand, broker_name: str) -> str | None:
    """Of an answer to 105, where a message of that set can be read: at its master, else at the
    replica with the smallest id. None: the route names nobody. ValueError: it is none.
    """
    if answer.code == ResponseCode.TOPIC_NOT_EXIST:
        return None
    if answer.code != ResponseCode.SUCCESS:
        raise ValueError(answer.remark or f"code {answer.code}")
    body = fastjson.loads(answer.body)
    listed = body.get("brokerDatas", []) if isinstance(body, Mapping) else None
    if not isinstance(listed, list) or len(listed) > BROKERS_MAX:
        raise ValueError("the body is no route")
    for data in listed:
        addresses = data.get("brokerAddrs") if isinstance(data, Mapping) else None
        if isinstance(addresses, Mapping) and data.get("brokerName") == broker_name:
            known = {int(str(key)): to for key, to in addresses.items() if str(key).isdigit()}
            first = known.get(min(known)) if known else None
            return first if isinstance(first, str) and len(first) <= NAME_CHARS_MAX else None
    return None


def _masters(brokers: list[object]) -> dict[str, str]:
    found = {}
    for data in brokers:
        if not isinstance(data, Mapping):
            raise ValueError("a broker of the route is no object")
        name, addresses = data.get("brokerName"), data.get("brokerAddrs", {})
        if not isinstance(name, str) or not isinstance(addresses, Mapping):
            raise ValueError("a broker of the route has no name")
        address = addresses.get(str(MASTER_ID))
        if isinstance(address, str) and 0 < len(address) <= NAME_CHARS_MAX:
            found[name] = address
    return found


def _queue_data(data: object) -> tuple[str, int, int]:
    if not isinstance(data, Mapping):
        raise ValueError("queues of the route are no object")
    name, count, perm = (data.get(key) for key in ("brokerName", "writeQueueNums", "perm"))
    if not isinstance(name, str) or type(count) is not int or type(perm) is not int:
        raise ValueError("queues of the route without a name or a number")
    if not 0 <= count <= QUEUES_PER_TOPIC_MAX:
        raise ValueError(f"{count} queues")
    return name, count, perm
