"""Which queues of a topic a client reads, decided by the broker: 400, 401 (PROTOCOL 4.9).

Responsible for: the strategies, modes of groups, the bodies. Refuses to know: routes, who is a
member, where modes are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from brokers.remoting import fastjson
from brokers.remoting.fastjson import JsonRejected
from brokers.remoting.fields import BadField
from brokers.service.popping.pop_request import EVERY_QUEUE
from brokers.service.tables.topics import RETRY_PREFIX

NAME_CHARACTERS_MAX = 255
POP, PULL = "POP", "PULL"
ENTRIES_MAX = 20_000  # the table must fit a frame, and is copied every few seconds
SHARE_MIN, SHARE_MAX = -(2**31), 2**31 - 1


class Queue(NamedTuple):
    """In the order in which Java sorts them."""

    topic: str
    broker: str
    queue_id: int


class Mode(NamedTuple):
    """How a group reads a topic; `share`: how many clients' queues one pops besides its own."""

    name: str = PULL
    share: int = -1


Strategy = Callable[[Sequence[Queue], int, int], list[Queue]]  # queues, clients, one's place


def by_average(queues: Sequence[Queue], clients: int, at: int) -> list[Queue]:
    """A run of neighbours for each."""
    size, more = divmod(len(queues), clients)
    first = at * (size + 1) if at < more else at * size + more
    return list(queues[first : first + size + (at < more)])


def by_circle(queues: Sequence[Queue], clients: int, at: int) -> list[Queue]:
    """One after the other."""
    return list(queues[at::clients])


STRATEGIES: Mapping[str, Strategy] = {"AVG": by_average, "AVG_BY_CIRCLE": by_circle}


@dataclass(frozen=True, slots=True)
class AssignmentRequest:
    """The body of 400."""

    topic: str
    group: str
    client_id: str
    broadcasting: bool
    strategy: str


def parse_query(body: bytes) -> AssignmentRequest:
    """`BadField`."""
    fields = _object(body)
    return AssignmentRequest(
        _name(fields, "topic"),
        _name(fields, "consumerGroup"),
        _name(fields, "clientId"),
        fields.get("messageModel") == "BROADCASTING",
        str(fields.get("strategyName") or "")[:NAME_CHARACTERS_MAX],
    )


@dataclass(frozen=True, slots=True)
class ModeRequest:
    """The body of 401."""

    topic: str
    group: str
    mode: Mode


def parse_mode(body: bytes) -> ModeRequest:
    """`BadField`."""
    fields = _object(body)
    return ModeRequest(_name(fields, "topic"), _name(fields, "consumerGroup"), _mode(fields))


def mode_of(table: Mapping[str, object], topic: str, group: str) -> Mode:
    """How the group reads the topic, as the kept table says."""
    groups = table.get(topic)
    entry = groups.get(group) if isinstance(groups, Mapping) else None
    if topic.startswith(RETRY_PREFIX) or not isinstance(entry, Mapping):
        return Mode()
    try:
        return _mode(entry)
    except BadField:
        return Mode()


def with_mode(table: Mapping[str, object], ask: ModeRequest) -> dict[str, object]:
    """The table with another mode. ValueError: it has no room."""
    groups = table.get(ask.topic)
    known = dict(groups) if isinstance(groups, Mapping) else {}
    entries = sum(len(one) for one in table.values() if isinstance(one, Mapping))
    if ask.group not in known and entries >= ENTRIES_MAX:
        raise ValueError(f"this broker has its {ENTRIES_MAX} modes of groups")
    known[ask.group] = {
        "consumerGroup": ask.group,
        "mode": ask.mode.name,
        "popShareQueueNum": ask.mode.share,
        "topic": ask.topic,
    }
    return {**table, ask.topic: known}


def assigned(
    ask: AssignmentRequest, mode: Mode, queues: Sequence[Queue], clients: Sequence[str]
) -> list[Queue] | None:
    """The queues of one client; None: nothing can be said. `queues`: all that may be read;
    `clients`: ids of the group's members.
    """
    ordered = sorted(queues)
    if ask.broadcasting:
        return ordered
    strategy = STRATEGIES.get(ask.strategy)
    if not ordered or strategy is None or not clients:
        return None
    members = sorted(clients)
    if ask.client_id not in members:
        return []
    at, count = members.index(ask.client_id), len(members)
    if mode.name == PULL:
        return strategy(ordered, count, at)
    if mode.share <= 0 or mode.share >= count - 1:
        return [Queue(ask.topic, name, EVERY_QUEUE) for name in sorted({q.broker for q in ordered})]
    if count > len(ordered):
        return [ordered[at % len(ordered)]]
    shared = [strategy(ordered, count, (at + step) % count) for step in range(mode.share + 1)]
    return [queue for some in shared for queue in some]


def answer_body(queues: Sequence[Queue] | None, mode: Mode) -> bytes:
    if queues is None:
        return b"{}"
    listed = [
        {
            "messageQueue": {
                "brokerName": queue.broker,
                "queueId": queue.queue_id,
                "topic": queue.topic,
            },
            "mode": mode.name,
        }
        for queue in queues
    ]
    return fastjson.dumps({"messageQueueAssignments": listed})


def _mode(fields: Mapping[str, object]) -> Mode:
    name, share = fields.get("mode"), fields.get("popShareQueueNum", 0)
    if name not in (POP, PULL) or type(share) is not int or not SHARE_MIN <= share <= SHARE_MAX:
        raise BadField("the mode is neither POP nor PULL, or popShareQueueNum is no number")
    return Mode(str(name), share)


def _object(body: bytes) -> Mapping[str, object]:
    try:
        fields = fastjson.loads(body, 65_536)
    except JsonRejected as error:
        raise BadField(str(error)) from None
    if not isinstance(fields, Mapping):
        raise BadField("the body is no JSON object")
    return fields


def _name(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= NAME_CHARACTERS_MAX:
        raise BadField(f"{key} is no name")
    return value
