"""What a replica becomes when its set changes over, and what it keeps of that on its disk.

Responsible for: the documents of an order and of the record, read within limits.
Refuses to know: files, who gives orders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

REPLICAS_MAX = 64
TEXT_CHARS_MAX = 512
CONTROLLERS_MAX = 64
NUMBER_MAX = 2**31 - 2
DOCUMENT_BYTES_MAX = 256 * 1024


class Kind(Enum):
    """Who gives the replicas of a set their ids and their roles."""

    CONTROLLERS = "controllers"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class Lines:
    """What a broker's own file says of its place."""

    broker_id: int | None = None
    controllers: tuple[str, ...] = ()

    @property
    def kind(self) -> Kind:
        return Kind.CONTROLLERS if self.broker_id is None else Kind.FIXED

    def document(self) -> dict[str, Any]:
        return {"broker_id": self.broker_id, "controllers": list(self.controllers)}


@dataclass(frozen=True, slots=True)
class Order:
    """What the replica at `address` becomes. `change` names the changeover, alike for all replicas
    of a set; `leader`: the address of the master that gives up for it.

    `broker_id`: of controllers 1 and above, fixed 0 for the master. `copies`: how many replicas
    have to hold what is acknowledged. Of controllers only: `controllers`, `check_code` that proves
    the id, `epoch` that labels every byte of before.
    """

    change: str
    kind: Kind
    cluster_name: str
    broker_name: str
    address: str
    leader: str
    broker_id: int
    copies: int
    controllers: tuple[str, ...] = ()
    check_code: str = ""
    epoch: int = 0

    @property
    def lines(self) -> Lines:
        """What the broker's own file has to say from then on."""
        if self.kind is Kind.CONTROLLERS:
            return Lines(None, self.controllers)
        return Lines(self.broker_id)

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "kind": self.kind.value, "controllers": list(self.controllers)}

    def told(self) -> dict[str, Any]:
        """The fields of the event PlaceChanged, for history."""
        names = ("change", "address", "leader", "epoch", "copies")
        return {"kind": self.kind.value, **{name: getattr(self, name) for name in names}}


@dataclass(frozen=True, slots=True)
class Record:
    """What a replica keeps: its order, what its file said then, and whether its other files are as
    the order wants them. `orders`: of all replicas, on the one that gave up. `in_order`: the master
    that gave up lived when this replica had its order, so nobody had acted for it before. `acts`:
    slaves of the set did until then, where a master was away.
    """

    order: Order
    lines: Lines
    settled: bool = False
    orders: tuple[Order, ...] = ()
    in_order: bool = False
    acts: bool = False

    def document(self) -> dict[str, Any]:
        return {
            "order": self.order.document(),
            "lines": self.lines.document(),
            "settled": self.settled,
            "orders": [one.document() for one in self.orders],
            "in_order": self.in_order,
            "acts": self.acts,
        }


def order_of(document: object) -> Order:
    """ValueError when it is none."""
    if not isinstance(document, Mapping):
        raise ValueError("an order is an object")
    kind = Kind(document.get("kind"))
    is_fixed = kind is Kind.FIXED
    names = ("change", "cluster_name", "broker_name", "address", "leader")
    texts = {name: _text(document, name) for name in names}
    order = Order(
        kind=kind,
        **texts,
        broker_id=_number(document, "broker_id", 0 if is_fixed else 1),
        copies=_number(document, "copies", 1),
        controllers=_texts(document.get("controllers", [])),
        check_code="" if is_fixed else _text(document, "check_code"),
        epoch=0 if is_fixed else _number(document, "epoch", 1),
    )
    if is_fixed == bool(order.controllers):
        raise ValueError("an order names controllers when they give the places, and only then")
    return order


def orders_of(documents: object) -> tuple[Order, ...]:
    """Of one changeover, an address and an id once each. ValueError."""
    if not isinstance(documents, list) or not 1 <= len(documents) <= REPLICAS_MAX:
        raise ValueError(f"1 to {REPLICAS_MAX} orders")
    orders = tuple(map(order_of, documents))
    first = orders[0]
    same = {(one.change, one.kind, one.cluster_name, one.broker_name, one.leader) for one in orders}
    if len(same) != 1:
        raise ValueError("the orders are not of one changeover")
    for what in ({one.address for one in orders}, {one.broker_id for one in orders}):
        if len(what) != len(orders):
            raise ValueError("two orders of one replica")
    if first.leader not in {one.address for one in orders}:
        raise ValueError(f"no order for {first.leader}, which leads")
    return orders


def record_of(document: object) -> Record:
    """ValueError when it is none."""
    if not isinstance(document, Mapping) or not isinstance(document.get("lines"), Mapping):
        raise ValueError("a record is an object with an order and lines")
    lines, more = document["lines"], document.get("orders") or []
    broker_id = None if lines.get("broker_id") is None else _number(lines, "broker_id", 0)
    return Record(
        order_of(document.get("order")),
        Lines(broker_id, _texts(lines.get("controllers", []))),
        document.get("settled") is True,
        orders_of(more) if more else (),
        document.get("in_order") is True,
        document.get("acts") is True,
    )


def for_others(orders: Iterable[Order], address: str) -> tuple[Order, ...]:
    """Without the one at `address`."""
    return tuple(one for one in orders if one.address != address)


def _text(document: Mapping[Any, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= TEXT_CHARS_MAX or "\n" in value:
        raise ValueError(f"{name} is no text of 1 to {TEXT_CHARS_MAX} characters")
    return value


def _texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, (list, tuple)) or len(values) > CONTROLLERS_MAX:
        raise ValueError(f"no list of at most {CONTROLLERS_MAX} addresses")
    return tuple(_text({"address": value}, "address") for value in values)


def _number(document: Mapping[Any, Any], name: str, least: int) -> int:
    value = document.get(name)
    if type(value) is not int or not least <= value <= NUMBER_MAX:
        raise ValueError(f"{name} is no number of {least} or more")
    return value
