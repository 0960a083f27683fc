"""What brokers of ours say of their place in their set (19018), as plain facts.

Refuses to know: sockets, what follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokers.changeover.order import Kind, Lines, Order, orders_of

NO_ANSWER = "no answer"
NOT_OURS = "no broker of this release"
"""RocketMQ's own, or one of ours that does not know 19018."""


@dataclass(frozen=True, slots=True)
class Look:
    """One broker. `change`: the changeover that gave it its place, empty for none; `copies`: how
    many replicas hold what it acknowledges; `acts`: slaves of its set act for the master; `lines`:
    what its own file says; `orders`: everybody's, on the one that gave up; `total_replicas`: how
    many its file says there are, 0 where it does not say.
    """

    cluster_name: str
    broker_name: str
    address: str
    kind: Kind
    broker_id: int | None
    serving: bool
    role: str
    change: str
    copies: int
    acts: bool
    name_servers: tuple[str, ...]
    store_dir: str
    lines: Lines
    orders: tuple[Order, ...] = ()
    total_replicas: int = 0


Found = Look | str
"""A look, or why there is none."""


def look_of(document: object) -> Look:
    """ValueError when it cannot be read."""
    if not isinstance(document, Mapping):
        raise ValueError("no object")
    try:
        lines, orders = document["lines"], document["orders"]
        broker_id = document["broker_id"]
        return Look(
            str(document["cluster_name"]),
            str(document["broker_name"]),
            str(document["address"]),
            Kind(document["kind"]),
            None if broker_id is None else int(broker_id),
            bool(document["serving"]),
            str(document["role"]),
            str(document["change"]),
            int(document["copies"]),
            bool(document["acts"]),
            tuple(map(str, document["name_servers"])),
            str(document["store_dir"]),
            Lines(lines["broker_id"], tuple(map(str, lines["controllers"]))),
            orders_of(orders) if orders else (),
            int(document.get("total_replicas", 0)),
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"{error} is missing or odd") from error
