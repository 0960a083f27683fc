"""A slave copies where its master's queues go on of which the log has no message (19015): nothing
in the log says that.

Responsible for: the master's answer, what a slave makes of it, naming queues that would give
offsets twice. Refuses to know: when it is asked, how ends are kept.

Which queues these are changes only with the log's begin: a text is made once for each, and a slave
that has it is told nothing more. A queue that gets a message afterwards is told by the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from itertools import islice

from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.service.metadata.table_pieces import table_piece
from brokers.service.role.role_view import RoleView
from brokers.service.role.services import Served, Service
from brokers.store.queues.queue_ends import Key, decode, encode
from brokers.store.store import MessageStore

AT_ONCE = 1_000  # queues noted without letting others in
SAVED_WITHIN_MS, LOOK_MS = 1_000, 20
NAMED_MAX = 5

_log = logging.getLogger("regent.broker.tables")


class QueueEndCopy(Service):
    """`text` is what this replica took over last, empty at first. `behind`: queues in which the
    present master is behind what this replica has seen. `report(kind, fields)`: a broker event.
    """

    def __init__(
        self,
        store: MessageStore,
        roles: RoleView,
        report: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        self._store = store
        self._roles = roles
        self._report = report
        self.behind = 0
        self._made_for, self._made = (-1, -1), b""
        self.text, self._of_epoch = b"", -1

    def serves(self) -> dict[int, Served]:
        return {RequestCode.REGENT_QUEUE_ENDS: Served(self.dump)}

    async def dump(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """19015, in pieces, from a master only."""
        if self._roles.role != "MASTER":
            return request.reply(
                ResponseCode.SERVICE_NOT_AVAILABLE, remark=("this replica does not lead")
            )
        moment = (self._store.log_min, self._roles.current.master_epoch)
        if moment != self._made_for:
            ends = self._store.ends.without_messages(self._store.queues, moment[0])
            made = await asyncio.to_thread(encode, ends)
            self._made_for, self._made = moment, made
        return table_piece(request, self._made)

    async def adopt(self, text: bytes, epoch: int) -> None:
        """Queues go on where the master of that epoch says, or behind. ValueError when the text
        says nothing.
        """
        if (text, epoch) == (self.text, self._of_epoch):
            return
        told = await asyncio.to_thread(decode, text)
        if told is None:
            raise ValueError("where queues go on was told in a text that cannot be read")
        self._name_lower({key: end.slot for key, end in told.ends.items()}, told.offset)
        ends = iter(told.ends.items())
        while some := {key: end.slot for key, end in islice(ends, AT_ONCE)}:
            self._store.ends.note(self._store.queues, some)
            await asyncio.sleep(0)
        self.text, self._of_epoch = text, epoch

    def _name_lower(self, told: dict[Key, int], log_min: int) -> None:
        """The log has no message of these queues, and this replica has seen more of them than the
        master tells.
        """
        lower = []
        for key, slot in told.items():
            queue = self._store.queues.get(*key)
            if queue is not None and queue.last_physical < log_min and queue.max_offset > slot:
                lower.append((*key, slot, queue.max_offset))
        self.behind = len(lower)
        if not lower:
            return
        named = ", ".join(
            (f"{topic}/{queue_id} at {slot} instead of {own}")
            for topic, queue_id, slot, own in lower[:NAMED_MAX]
        )
        more = f" and {len(lower) - NAMED_MAX} more" if len(lower) > NAMED_MAX else ""
        _log.error("the master goes on in front of what was given before: %s%s", named, more)
        topic, queue_id, slot, own = lower[0]
        first = {"topic": topic, "queue_id": queue_id, "master_slot": slot, "own_slot": own}
        self._report("QueueEndsBehind", {"queues": len(lower), **first})

    async def saved(self) -> str | None:
        """None once what was taken over is on the disk, else that it is not: a checkpoint of the
        store writes it.
        """
        left_ms = SAVED_WITHIN_MS
        while self._store.ends.unsaved and left_ms > 0:
            await asyncio.sleep(LOOK_MS / 1000)
            left_ms -= LOOK_MS
        return "where its queues go on is not on its disk yet" if self._store.ends.unsaved else None
