"""A replica joins the SyncStateSet only with a copy of its master's tables: whoever is a member may
lead next (design S19).

Responsible for: having a linked replica copy them (19012), and knowing whether its copy holds every
change that was answered as done. Changes begun later are told to it as a member. Refuses to know:
when a replica has the log, what the tables hold.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from brokers.clock import Clock
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import ResponseCode
from brokers.service.metadata.held_by_members import HeldByMembers
from brokers.service.role.hand_over_requests import take_tables
from brokers.service.role.role_view import RoleView

COPY_TIMEOUT_MS = 5_000
AGAIN_MS = 50
# A set that cannot acknowledge is worse than a member whose tables are some seconds old: after this
# it joins all the same.
FIRST_COPY_MS = 15_000

_log = logging.getLogger("regent.broker.tables")


class JoinerTables:
    """`addresses()`: the replicas of the set by broker id, as far as a controller told. Needs a
    running event loop.
    """

    def __init__(
        self,
        roles: RoleView,
        held: HeldByMembers,
        client: RemotingClient,
        clock: Clock,
        addresses: Callable[[], Mapping[int, str]],
    ) -> None:
        self._roles = roles
        self._held = held
        self._client = client
        self._clock = clock
        self._addresses = addresses
        self._epoch = 0
        # changes begun before the copy was; None: it copies by itself
        self._copied: dict[int, int | None] = {}
        self._asked_since_ms: dict[int, int] = {}
        self._again_at_ms: dict[int, int] = {}
        self._asking: dict[int, asyncio.Future[None]] = {}

    def has_tables(self, broker_id: int) -> bool:
        """Whether a replica that has the log may join now. Until then it is asked to copy the
        tables.
        """
        if self._roles.current.master_epoch != self._epoch:
            self._forget(self._roles.current.master_epoch)
        address = self._addresses().get(broker_id)
        if not address:  # nobody can be asked: a Java controller does not tell
            return True
        if broker_id in self._copied and self._copied[broker_id] in (None, self._held.begun):
            self._asked_since_ms.pop(broker_id, None)
            return True
        now_ms = self._clock.now_ms()
        waits_ms = now_ms - self._asked_since_ms.setdefault(broker_id, now_ms)
        if (
            broker_id not in self._asking
            and self._roles.serving
            and now_ms >= self._again_at_ms.get(broker_id, now_ms)
        ):
            self._again_at_ms[broker_id] = now_ms + AGAIN_MS
            self._asking[broker_id] = asyncio.ensure_future(
                self._ask(broker_id, address, self._epoch, waits_ms >= FIRST_COPY_MS)
            )
        return waits_ms >= FIRST_COPY_MS

    async def _ask(self, broker_id: int, address: str, epoch: int, joins_anyhow: bool) -> None:
        before, refusal = self._held.begun, None
        try:
            answer = await self._client.call(address, take_tables(epoch), COPY_TIMEOUT_MS)
            if answer.code not in (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED):
                refusal = answer.remark or f"code {answer.code}"
            elif epoch == self._epoch:
                self._copied[broker_id] = before if answer.code == ResponseCode.SUCCESS else None
        except RemotingError as error:
            refusal = str(error) or type(error).__name__
        finally:
            if self._asking.get(broker_id) is asyncio.current_task():
                del self._asking[broker_id]
        if refusal is not None:
            level = logging.WARNING if joins_anyhow else logging.INFO
            _log.log(level, "replica %d has no copy of the tables yet: %s", broker_id, refusal)

    def _forget(self, epoch: int) -> None:
        self._epoch = epoch
        for task in self._asking.values():
            task.cancel()
        for known in (self._copied, self._asked_since_ms, self._again_at_ms, self._asking):
            known.clear()

    async def close(self) -> None:
        """Nobody is asked any more."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
