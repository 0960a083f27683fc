"""41 and 42 as brokers of one set send them to each other (PROTOCOL 7.5).

Responsible for: the body with `onlyThisBroker`, the answer, and ours: the number of a round of
votes. Refuses to know: who holds what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.fields import NAME_CHARS_MAX
from brokers.service.clients.queue_locks import Queue

QUEUES_PER_LOCK_MAX = 10_000
ROUND = "regentLockRound"
"""Ours: the round that a vote is for. A member that knows rounds says it back, and gives a queue
back only if that very round took it; RocketMQ looks at neither.
"""

NEW = "regentLockNew"
"""Ours, of an answer that says a round back: this member began with an empty folder a short time
ago, and may have given its vote to another client before.
"""


@dataclass(frozen=True, slots=True)
class LockRequest:
    """What a client, or a broker for it, wants of these queues. `round_id`: empty outside of
    rounds. `only_this_broker`: no other broker is to be asked.
    """

    group: str
    client_id: str
    queues: tuple[Queue, ...]
    only_this_broker: bool = False
    round_id: str = ""

    def body(self) -> bytes:
        return fastjson.dumps(
            {
                "clientId": self.client_id,
                "consumerGroup": self.group,
                "mqSet": _rows(self.queues),
                "onlyThisBroker": self.only_this_broker,
            }
        )

    def command(self, code: RequestCode) -> RemotingCommand:
        """As 41 or 42."""
        ext = {ROUND: self.round_id} if self.round_id else {}
        return RemotingCommand.request(code, ext, self.body())


def read_lock_request(request: RemotingCommand) -> LockRequest:
    """ValueError: no such body."""
    fields = fastjson.loads(request.body)
    if not isinstance(fields, Mapping):
        raise ValueError("the body is no object")
    group, client_id = fields.get("consumerGroup"), fields.get("clientId")
    if not _is_name(group) or not _is_name(client_id):
        raise ValueError("the body needs consumerGroup and clientId")
    round_id = request.ext.get(ROUND, "")
    if len(round_id) > NAME_CHARS_MAX:
        raise ValueError(f"{ROUND} is too long")
    only = fields.get("onlyThisBroker") is True
    return LockRequest(str(group), str(client_id), _queues(fields.get("mqSet", [])), only, round_id)


def lock_answer(held: Iterable[Queue]) -> bytes:
    """The body that answers 41."""
    return fastjson.dumps({"lockOKMQSet": _rows(held)})


def read_lock_answer(answer: RemotingCommand) -> tuple[tuple[Queue, ...], str]:
    """(queues that were given, the round that the member says back). ValueError: no such answer."""
    if answer.code:
        raise ValueError(answer.remark or f"code {answer.code}")
    fields = fastjson.loads(answer.body)
    if not isinstance(fields, Mapping):
        raise ValueError("the body is no object")
    return _queues(fields.get("lockOKMQSet", [])), answer.ext.get(ROUND, "")


def is_of_new_member(answer: RemotingCommand) -> bool:
    """Whether a vote counts only where all others vote as well."""
    return answer.ext.get(NEW) == "true"


def _rows(queues: Iterable[Queue]) -> list[dict[str, object]]:
    return [
        {"brokerName": broker, "queueId": queue_id, "topic": topic}
        for broker, topic, queue_id in queues
    ]


def _queues(rows: object) -> tuple[Queue, ...]:
    if not isinstance(rows, Sequence) or isinstance(rows, str | bytes):
        raise ValueError("the queues are no list")
    if len(rows) > QUEUES_PER_LOCK_MAX:
        raise ValueError(f"more than {QUEUES_PER_LOCK_MAX} queues at once")
    found = []
    for row in rows:
        if not isinstance(row, Mapping):
            raise ValueError("a queue is no object")
        broker, topic, queue_id = (row.get(key) for key in ("brokerName", "topic", "queueId"))
        if not _is_name(broker) or not _is_name(topic) or type(queue_id) is not int:
            raise ValueError("a queue needs brokerName, topic and queueId")
        if not 0 <= queue_id < 1 << 31:
            raise ValueError(f"{queue_id} is no queue")
        found.append((str(broker), str(topic), queue_id))
    return tuple(found)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= NAME_CHARS_MAX
