"""Until every member of the SyncStateSet holds what a change made of a table (design S10, S19).

Responsible for: whom to tell, again and for how long, and when nobody is waited for any more.
Refuses to know: tables, what is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from brokers.clock import Clock
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.service.role.role_view import RoleView

PUSH_TIMEOUT_MS = 1_000
AGREE_TIMEOUT_MS = 2_500
PUSH_PAUSE_MS = 50
# A Java replica has no such requests; it copies the tables by itself every few seconds.
HELD = (ResponseCode.SUCCESS, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)

Ask = Callable[[RemotingCommand], Awaitable[RemotingCommand]]
Tell = Callable[[Ask, int], Awaitable[bool]]

_log = logging.getLogger("regent.broker.tables")


class HeldByMembers:
    """`members()`: remoting addresses of the other members of the set, pending ones included, by
    broker id.

    `begun` counts the changes that somebody waits for, from the moment at which this broker's own
    table has them.
    """

    def __init__(
        self,
        roles: RoleView,
        client: RemotingClient,
        clock: Clock,
        members: Callable[[], dict[int, str]],
    ) -> None:
        self._roles = roles
        self._client = client
        self._clock = clock
        self._members = members
        self.begun = 0

    async def until_held(self, tell: Tell) -> bool:
        """Until `tell(ask one member, master epoch)` was True of every member, a bounded time;
        False when it was not, or the role is lost. It is called anew for members that did not take
        it, and must send the present table.
        """
        epoch, deadline = self._roles.current.master_epoch, self._clock.now_ms() + AGREE_TIMEOUT_MS
        holding: set[int] = set()
        while self._roles.serving and self._roles.current.master_epoch == epoch:
            # Read anew each time: a member that is gone leaves the set, and then nobody waits for
            # it.
            missing = {
                broker_id: address
                for broker_id, address in self._members().items()
                if broker_id not in holding
            }
            if not missing:
                return True
            if self._clock.now_ms() >= deadline:
                return False
            answers = await asyncio.gather(
                *(self._push_to(address, tell, epoch) for address in missing.values())
            )
            holding |= {broker_id for broker_id, ok in zip(missing, answers, strict=True) if ok}
            if not all(answers):
                await asyncio.sleep(PUSH_PAUSE_MS / 1000)
        _log.info("a table was not pushed: the role was lost")
        return False

    async def _push_to(self, address: str, tell: Tell, epoch: int) -> bool:
        async def ask(request: RemotingCommand) -> RemotingCommand:
            return await self._client.call(address, request, PUSH_TIMEOUT_MS)

        try:
            return await tell(ask, epoch)
        except RemotingError as error:
            _log.info("pushing a table to %s: %s", address, error)
            return False
