"""Locks of queues that survive their master: 41, 42, and what replicas of ours tell each other of
them (19019, 19020; PROTOCOL 4.8).

RocketMQ's locks are in the memory of one master. Its successor knows of none, and whoever asks
first gets the queue, while the former holder reads it for up to 30 s. Here a client is told that it
holds a queue, or holds it still, when every member of the SyncStateSet has said that it knows; what
is given back, or expires, they copy every half second, and who joins the set has the table first. A
new master keeps a queue for its holder until that one has renewed its lock there, or cannot believe
in it any more.

Responsible for: these requests, and until when a client waits. Refuses to know: who holds what
(`clients.queue_locks`), which replicas are members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from brokers.clock import Clock
from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.fields import BadField, number
from brokers.service.clients.queue_locks import Queue, QueueLocks
from brokers.service.metadata.held_by_members import HELD, Ask, HeldByMembers
from brokers.service.metadata.table_pieces import TEXT_BYTES_MAX, table_piece
from brokers.service.role.role_view import RoleView
from brokers.service.role.services import Served, Service, Where

QUEUES_PER_LOCK_MAX = 10_000
_EPOCH, _NUMBER = "regentMasterEpoch", "regentNumber"


class LockRequests(Service):
    """`queue_exists(topic, queue id)`. `copied`: the master's table as it was copied last.
    `is_shared`: False where replicas vote about locks, and none copies another one's
    (PROTOCOL 7.5).
    """

    def __init__(
        self,
        locks: QueueLocks,
        roles: RoleView,
        held: HeldByMembers,
        clock: Clock,
        queue_exists: Callable[[str, int], bool],
    ) -> None:
        self.locks = locks
        self._roles = roles
        self._held = held
        self._clock = clock
        self._queue_exists = queue_exists
        self.is_shared = True
        self.copied = b""
        self._text: tuple[int, bytes] = (-1, b"")
        # of the last push taken here: master epoch, and the number of changes
        self._pushed = (0, 0)

    def serves(self) -> dict[int, Served]:
        """Locks are the master's."""
        return {
            RequestCode.LOCK_BATCH_MQ: Served(self.lock, Where.MASTER, repeatable=True),
            RequestCode.UNLOCK_BATCH_MQ: Served(self.unlock, Where.MASTER, repeatable=True),
            RequestCode.REGENT_LOCKS: Served(self.dump, Where.FOR_REPLICAS),
            RequestCode.REGENT_PUSH_LOCKS: Served(self.take_push, Where.FOR_REPLICAS),
        }

    # -- clients -----------------------------------------------------------------------------------

    def lock(self, connection: Connection, request: RemotingCommand) -> Answer:
        """41: the queues that the client holds now; 14: that is not known."""
        try:
            group, client_id, queues = _lock_body(request.body)
        except ValueError as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        locks, changes = self.locks, self.locks.changes
        known = [queue for queue in queues if self._queue_exists(queue[1], queue[2])]
        held = locks.lock(group, client_id, known, self._clock.now_ms(), connection.id)
        if not held:
            return _locked(request, held)
        self._held.begun += locks.changes != changes
        return self._answered(request, group, client_id, held)

    async def _answered(
        self, request: RemotingCommand, group: str, client_id: str, held: list[Queue]
    ) -> RemotingCommand:
        """A renewal needs the members' word, too: a master that was replaced and has not heard of
        it gives nobody more time.
        """
        if not await self._held.until_held(lambda ask, epoch: self._push(ask, group, held, epoch)):
            return request.reply(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                remark="not every replica of the set knows these locks yet",
            )
        now_ms, locks = self._clock.now_ms(), self.locks
        return _locked(
            request, [queue for queue in held if locks.holder(group, queue, now_ms) == client_id]
        )

    def unlock(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """42."""
        try:
            group, client_id, queues = _lock_body(request.body)
        except ValueError as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        self.locks.unlock(group, client_id, queues)
        return request.reply()

    # -- members -----------------------------------------------------------------------------------

    async def _push(self, ask: Ask, group: str, queues: Iterable[Queue], epoch: int) -> bool:
        """Who holds these queues now."""
        now_ms, locks = self._clock.now_ms(), self.locks
        rows = [[*queue, locks.holder(group, queue, now_ms)] for queue in queues]
        facts = {_EPOCH: str(epoch), _NUMBER: str(locks.changes)}
        body = fastjson.dumps({"group": group, "locks": rows})
        answer = await ask(RemotingCommand.request(RequestCode.REGENT_PUSH_LOCKS, facts, body))
        return answer.code in HELD

    def take_push(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """19020, from the master: who holds some queues."""
        try:
            epoch, changes = number(request.ext, _EPOCH), number(request.ext, _NUMBER)
            fields = fastjson.loads(request.body, fastjson.TABLE_BYTES_MAX)
            group, told = _text(fields, "group"), _pushed_rows(fields)
        except (BadField, ValueError) as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        known = self._roles.current.master_epoch
        if self._roles.role == "MASTER" or (epoch, changes) < max(self._pushed, (known, 0)):
            return request.reply(
                ResponseCode.SERVICE_NOT_AVAILABLE,
                remark="this replica leads, or knows what a master said later",
            )
        for queue, client_id in told:
            self.locks.put(group, queue, client_id, self._clock.now_ms())
        self._pushed, self.copied = (epoch, changes), b""
        return request.reply()

    def dump(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """19019, in pieces, from a master only."""
        if not self.is_shared:
            return request.reply(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark="this set votes about locks"
            )
        if self._roles.role != "MASTER":
            return request.reply(
                ResponseCode.SERVICE_NOT_AVAILABLE, remark="this replica does not lead"
            )
        return table_piece(request, self._table())

    def _table(self) -> bytes:
        """Made anew when somebody else holds a queue."""
        self.locks.expire(self._clock.now_ms())
        changes = self.locks.changes
        if self._text[0] != changes:
            text = fastjson.dumps({"number": changes, "locks": self.locks.table()})
            self._text = changes, text
        return self._text[1]

    def adopt(self, text: bytes) -> None:
        """A slave becomes a copy of its master's table, unless the answer is from before the last
        push, which may be a newer master's. ValueError when it is no such table.
        """
        if text == self.copied or not self.is_shared:
            return
        changes, table = _table_of(fastjson.loads(text, TEXT_BYTES_MAX))
        if (self._roles.current.master_epoch, changes) < self._pushed:
            return
        self.locks.become(table, self._clock.now_ms())
        self.copied = text

    def mastership_begins(self) -> None:
        self.locks.lead(self._clock.now_ms())

    def mastership_over(self) -> None:
        self.copied = b""


def _locked(request: RemotingCommand, held: Iterable[Queue]) -> RemotingCommand:
    rows = [
        {"brokerName": broker, "topic": topic, "queueId": queue_id}
        for broker, topic, queue_id in held
    ]
    return request.reply(body=fastjson.dumps({"lockOKMQSet": rows}))


def _lock_body(body: bytes) -> tuple[str, str, list[Queue]]:
    """Group, client id and queues of 41 and 42; `ValueError` when it is no such body."""
    fields = fastjson.loads(body)
    group, client_id, rows = (
        _text(fields, "consumerGroup"),
        _text(fields, "clientId"),
        _member(fields, "mqSet"),
    )
    if not isinstance(rows, list):
        raise ValueError("the body needs consumerGroup, clientId and mqSet")
    if len(rows) > QUEUES_PER_LOCK_MAX:
        raise ValueError(f"more than {QUEUES_PER_LOCK_MAX} queues in one request")
    queues = []
    for row in rows:
        if not isinstance(row, Mapping) or type(row.get("queueId")) is not int:
            raise ValueError("a queue without a number")
        queues.append((str(row.get("brokerName")), str(row.get("topic")), row["queueId"]))
    return group, client_id, queues


def _member(fields: object, name: str) -> object:
    return fields.get(name) if isinstance(fields, Mapping) else None


def _text(fields: object, name: str) -> str:
    value = _member(fields, name)
    if not isinstance(value, str):
        raise ValueError(f"the body needs {name}")
    return value


def _pushed_rows(fields: object) -> list[tuple[Queue, str | None]]:
    """Queues of a push, each with its holder; None: nobody. `ValueError`."""
    rows = _member(fields, "locks")
    if not isinstance(rows, list) or len(rows) > QUEUES_PER_LOCK_MAX:
        raise ValueError("no queues, or too many")
    found: list[tuple[Queue, str | None]] = []
    for row in rows:
        if not isinstance(row, list) or len(row) != 4 or not isinstance(row[3], str | None):
            raise ValueError("a queue without a holder")
        found.append((_queue(row[:3]), row[3]))
    return found


def _table_of(fields: object) -> tuple[int, dict[str, dict[str, list[Queue]]]]:
    """The number of changes, and who holds what. `ValueError`."""
    changes, groups = _member(fields, "number"), _member(fields, "locks")
    if type(changes) is not int or not isinstance(groups, Mapping):
        raise ValueError("no table of locks")
    found: dict[str, dict[str, list[Queue]]] = {}
    for group, clients in groups.items():
        if not isinstance(clients, Mapping):
            raise ValueError("a group without clients")
        for client_id, rows in clients.items():
            if not isinstance(rows, list):
                raise ValueError("a client without queues")
            found.setdefault(str(group), {})[str(client_id)] = [_queue(row) for row in rows]
    return changes, found


def _queue(row: object) -> Queue:
    if not isinstance(row, list) or len(row) != 3:
        raise ValueError("no queue")
    broker, topic, queue_id = row
    if not isinstance(broker, str) or not isinstance(topic, str) or type(queue_id) is not int:
        raise ValueError("no queue")
    return broker, topic, queue_id
