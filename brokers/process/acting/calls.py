"""What a broker of a set without controllers asks name servers and members, and tells them
(PROTOCOL 7.1, 7.3).

Responsible for: one request each, and what its answer says; an answer that does not come is a value
as well. Refuses to know: who is asked when, what follows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from brokers.acting.lock_messages import LockRequest, is_of_new_member, read_lock_answer
from brokers.acting.messages import (
    CouldNotAnswer,
    HaInfo,
    MemberAnswer,
    Place,
    ha_info_push,
    ha_info_query,
    heartbeat,
    members_request,
    read_ha_info,
    read_members,
)
from brokers.acting.reverse_sync import Tables, read_delays, read_offsets, read_timers
from brokers.membership.namesrv_client import NameServers
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.service.clients.queue_locks import Queue
from brokers.service.tables.data_version import DataVersion

CALL_MS = 3_000
LOCK_CALL_MS = 1_000

_log = logging.getLogger("regent.broker.acting")


class ActingCalls:
    """`version()`: of the own topic table."""

    def __init__(
        self,
        place: Place,
        name_servers: NameServers,
        client: RemotingClient,
        version: Callable[[], DataVersion],
    ) -> None:
        self._place, self._version = place, version
        self._name_servers, self._client = name_servers, client

    async def beat(self, compat: Mapping[str, bool]) -> None:
        """One-way, to every name server in its way."""
        await asyncio.gather(
            *(
                self._name_servers.tell(
                    name, heartbeat(self._place, self._version(), compat=by_route)
                )
                for name, by_route in compat.items()
            )
        )

    async def members(self, name_server: str, *, compat: bool) -> MemberAnswer:
        """Who of the set is registered there."""
        try:
            request = members_request(self._place, compat=compat)
            answer = await self._name_servers.ask(name_server, request)
        except RemotingError as error:
            return CouldNotAnswer(str(error)[:200])
        return read_members(answer, self._place, compat=compat)

    async def ha_info(self, address: str) -> HaInfo | None:
        """Where this master takes links; None: it was not reached."""
        try:
            answer = await self._client.call(address, ha_info_query(), CALL_MS)
            return None if answer.code else read_ha_info(answer.ext)
        except (RemotingError, ValueError) as error:
            _log.info("asking %s where it takes links: %s", address, error)
            return None

    async def push(self, address: str, info: HaInfo) -> bool:
        """Tell a member where this master takes links."""
        try:
            answer = await self._client.call(address, ha_info_push(info), CALL_MS)
        except RemotingError as error:
            _log.info("telling %s where links are taken: %s", address, error)
            return False
        return answer.code == 0

    async def tables(self, address: str) -> Tables | None:
        """A member's places; None: it was not reached."""
        try:
            offsets = await self._table(address, RequestCode.GET_ALL_CONSUMER_OFFSET)
            delays = await self._table(address, RequestCode.GET_ALL_DELAY_OFFSET)
            timers = await self._table(address, RequestCode.GET_TIMER_CHECK_POINT)
            return Tables(
                None if offsets is None else read_offsets(offsets),
                None if delays is None else read_delays(delays),
                None if timers is None else read_timers(timers),
            )
        except (RemotingError, ValueError) as error:
            _log.warning("the tables of %s: %s", address, error)
            return None

    async def _table(self, address: str, code: int) -> bytes | None:
        answer = await self._client.call(address, RemotingCommand.request(code), CALL_MS)
        return None if answer.code else answer.body

    async def lock(
        self, address: str, request: LockRequest, *, lock: bool
    ) -> tuple[tuple[Queue, ...] | None, str, bool]:
        """41 or 42 of a member: (its queues, None without an answer; the round it says back;
        whether it is new).
        """
        code = RequestCode.LOCK_BATCH_MQ if lock else RequestCode.UNLOCK_BATCH_MQ
        try:
            answer = await self._client.call(address, request.command(code), LOCK_CALL_MS)
            queues, said_back = read_lock_answer(answer) if lock else ((), "")
            return queues, said_back, is_of_new_member(answer)
        except (RemotingError, ValueError) as error:
            _log.info("a lock at %s: %s", address, error)
            return None, "", False
