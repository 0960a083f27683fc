"""What others ask a broker of a set whose slaves act: 905, 906, votes for locks, and what clients
ask a slave that acts (PROTOCOL 7.2, 7.5).

Responsible for: handlers in front of the usual ones. Refuses to know: what a slave may serve
(`brokers/acting/served`), who acts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from brokers.acting import effects as fx
from brokers.acting.lock_messages import NEW, ROUND, LockRequest, lock_answer, read_lock_request
from brokers.acting.lock_quorum import LockQuorum
from brokers.acting.messages import HaInfo, ha_info_ext, read_ha_info, read_min_id_notice
from brokers.acting.served import AT_A_SLAVE, How, at_a_slave
from brokers.clock import Clock
from brokers.process.acting.calls import ActingCalls
from brokers.process.acting.shell import ActingShell
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection, Express, Handler
from brokers.service.clients.queue_locks import Queue
from brokers.service.reading.slave_reads import SlaveReads
from brokers.service.role.role_view import RoleView
from brokers.service.role.services import Served, Where

LOCK_TICK_MS = 100
BEGUN_WAIT_MS = 2_000
"""For so long a pop, or what is said of one, waits for what carries it away: who acts serves before
it delivers, and holds back for one that comes back. Clients of RocketMQ's give up after 3 s.
"""

_REFUSED = (ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE)

_log = logging.getLogger("regent.broker.acting")


class ActingLocks:
    """41 and 42. `others()`: addresses of the other members; `exists(topic, queue)`;
    `report(kind, fields)`: a broker event.
    """

    def __init__(
        self,
        quorum: LockQuorum,
        calls: ActingCalls,
        clock: Clock,
        others: Callable[[], Iterable[str]],
        exists: Callable[[str, int], bool],
        report: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        self._quorum, self._report = quorum, report
        self._calls, self._clock = calls, clock
        self._others, self._exists = others, exists
        self._waiting: dict[str, asyncio.Future[tuple[Queue, ...]]] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Rounds end in time."""
        try:
            while True:
                await asyncio.sleep(LOCK_TICK_MS / 1000)
                self._do(self._quorum.tick(self._clock.now_ms()))
        finally:
            for task in self._under_way:
                task.cancel()

    def lock(self, connection: Connection, request: RemotingCommand, wanted: LockRequest) -> Answer:
        """41, of a client or of a member: at once, or when the members have voted."""
        known = tuple(one for one in wanted.queues if self._exists(one[1], one[2]))
        asked = LockRequest(
            wanted.group, wanted.client_id, known, wanted.only_this_broker, wanted.round_id
        )
        now_ms = self._clock.now_ms()
        if asked.only_this_broker:
            held = self._quorum.vote_for(asked, now_ms, connection.id)
            return _locked(request, held, asked.round_id, self._quorum.is_new(now_ms))
        name, effects = self._quorum.lock(asked, self._others(), now_ms, connection.id)
        answer: asyncio.Future[tuple[Queue, ...]] = asyncio.get_running_loop().create_future()
        self._waiting[name] = answer
        self._do(effects)
        if answer.done():
            return _locked(request, answer.result(), "")
        return _when_locked(request, answer)

    def unlock(self, request: RemotingCommand, wanted: LockRequest) -> RemotingCommand:
        """42."""
        self._do(self._quorum.unlock(wanted, self._others(), self._clock.now_ms()))
        return request.reply()

    def _do(self, effects: list[fx.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, fx.AnswerLock):
                waiting = self._waiting.pop(effect.round_id, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(effect.queues)
            elif isinstance(effect, fx.Report):
                self._report(effect.kind, effect.fields)
            elif isinstance(effect, fx.SendLock):
                task = asyncio.ensure_future(self._send(effect))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)

    async def _send(self, effect: fx.SendLock) -> None:
        request = LockRequest(effect.group, effect.client_id, effect.queues, True, effect.round_id)
        address = effect.address
        queues, said_back, is_new = await self._calls.lock(address, request, lock=effect.lock)
        if effect.lock:
            voted = self._quorum.voted
            self._do(voted(effect.round_id, address, queues, said_back, is_new=is_new))


async def _when_locked(
    request: RemotingCommand, answer: asyncio.Future[tuple[Queue, ...]]
) -> RemotingCommand:
    return _locked(request, await answer, "")


def _locked(
    request: RemotingCommand, held: Iterable[Queue], round_id: str, is_new: bool = False
) -> RemotingCommand:
    ext = {ROUND: round_id} if round_id else {}
    if round_id and is_new:
        ext[NEW] = "true"
    return request.reply(ext=ext, body=lock_answer(held))


async def _whole(answer: Answer) -> RemotingCommand | None:
    return answer if answer is None or isinstance(answer, RemotingCommand) else await answer


class ActingRequests:
    """In front of what the broker's services serve. `begun(limit in ms)`: whether anything leaves
    for other sets, within that time.
    """

    def __init__(
        self,
        shell: ActingShell,
        roles: RoleView,
        reads: SlaveReads,
        locks: ActingLocks,
        address: str,
        begun: Callable[[int], Awaitable[bool]],
    ) -> None:
        self._shell = shell
        self._roles, self._reads = roles, reads
        self._locks, self._address = locks, address
        self._begun = begun

    def own(self) -> dict[int, Handler]:
        """What no service of clients serves."""
        return {
            RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: self._min_id,
            RequestCode.EXCHANGE_BROKER_HA_INFO: self._ha_info,
        }

    def before(
        self, handlers: Mapping[int, Handler], served: Mapping[int, Served]
    ) -> dict[int, Handler]:
        """The same codes, with what a slave that acts makes of them."""
        found = {code: self._at_a_slave(code, handlers[code], one) for code, one in served.items()}
        for code in (RequestCode.LOCK_BATCH_MQ, RequestCode.UNLOCK_BATCH_MQ):
            found[code] = self._of_locks(handlers[code])
        return found

    def _at_a_slave(self, code: int, usual: Handler, one: Served) -> Handler:
        if one.where is not Where.MASTER or (one.writes and code not in AT_A_SLAVE):
            return usual

        def handle(connection: Connection, request: RemotingCommand) -> Answer:
            if not self._roles.acting:
                answer = usual(connection, request)
                if answer is None or isinstance(answer, RemotingCommand):
                    return answer
                return otherwise(answer, connection, request)
            return acting(connection, request)

        async def otherwise(
            usual_one: Awaitable[RemotingCommand | None],
            connection: Connection,
            request: RemotingCommand,
        ) -> RemotingCommand | None:
            """Who waited for the master, and it is gone, is served by who acts."""
            answer = await usual_one
            refused = answer is not None and answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            if not (refused and self._roles.acting):
                return answer
            return await _whole(acting(connection, request))

        def acting(connection: Connection, request: RemotingCommand) -> Answer:
            row = at_a_slave(
                code, slave_read=self._reads.enabled, local_master=False, address=self._address
            )
            if row.how is How.REFUSED:
                return request.reply(row.code, remark=row.remark)
            if row.how is How.ESCAPES:
                return self._escaping(one.handler, usual, connection, request)
            return one.handler(connection, request)

        return Express(handle, usual.take) if isinstance(usual, Express) else handle

    async def _escaping(
        self, handler: Handler, usual: Handler, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """What is refused because the master is back by now is the master's."""
        answer: Answer = None
        if await self._begun(BEGUN_WAIT_MS) or self._roles.acting:
            answer = await _whole(handler(connection, request))
            if self._roles.acting or answer is None or answer.code not in _REFUSED:
                return answer
        return await _whole(usual(connection, request))

    def _of_locks(self, usual: Handler) -> Handler:
        def handle(connection: Connection, request: RemotingCommand) -> Answer:
            try:
                wanted = read_lock_request(request)
            except ValueError as error:
                return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
            here = wanted.only_this_broker or self._roles.serving or self._roles.acting
            if not here:
                return usual(connection, request)
            if request.code == RequestCode.LOCK_BATCH_MQ:
                return self._locks.lock(connection, request, wanted)
            return self._locks.unlock(request, wanted)

        return handle

    def _min_id(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """905."""
        try:
            self._shell.notice(read_min_id_notice(request.ext))
        except ValueError as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        return request.reply()

    def _ha_info(self, _connection: Connection, request: RemotingCommand) -> Answer:
        """906. Who comes back is answered when it may copy the tables."""
        try:
            info = read_ha_info(request.ext)
            answer = self._shell.exchange(info)
        except ValueError as error:
            return request.reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        if info == HaInfo():
            return request.reply(ext=ha_info_ext(answer))
        return self._when_told(request, answer)

    async def _when_told(self, request: RemotingCommand, answer: HaInfo) -> RemotingCommand:
        if await self._shell.tells_all():
            return request.reply(ext=ha_info_ext(answer))
        return request.reply(ResponseCode.SYSTEM_BUSY, remark="messages are on their way still")
