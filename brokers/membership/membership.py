"""This broker's place in its set: identity, registration, elections, notices, heartbeats
(RULES 10).

Responsible for: carrying out what `Registration` wants, asking the controller when the replica or
the clock wants it, handing every role notice on. Refuses to know: what a notice does to the
replica, clients, messages.
"""

from __future__ import annotations

import asyncio
import logging
import random
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any

from brokers.clock import Clock
from brokers.membership import controller_messages as messages
from brokers.membership import registration as reg
from brokers.membership.controller_client import ControllerClient
from brokers.membership.identity_file import IdentityFiles
from brokers.membership.role_notices import RoleNotices
from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.replica.effects import ProposeSyncSet
from brokers.replica.hooks import AlterResult
from brokers.replica.roles import RoleNotice

WAIT_MIN_MS, WAIT_MAX_MS = 100, 1_000
CODES_UNREGISTERED = frozenset(
    {
        ResponseCode.CONTROLLER_BROKER_METADATA_NOT_EXIST,
        ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED,
    }
)

_log = logging.getLogger("regent.broker.membership")


class RegistrationRefused(Exception):
    """The identity on disk and the configuration do not fit; only an operator can say which is
    right.
    """


@dataclass(frozen=True, slots=True)
class MembershipHooks:
    """`on_identity(broker id)` makes the replica, before the first 1003; the others speak with it
    afterwards.
    """

    on_identity: Callable[[int], None]
    on_notice: Callable[[RoleNotice], None]
    position: Callable[[], messages.LogPosition]
    clean: Callable[[], bool]
    report: Callable[[str, Mapping[str, object]], None]


@dataclass(frozen=True, slots=True)
class MembershipTimers:
    """Periods in ms, and what heartbeats tell the controller about this broker.
    `asks_for_elections` False: a learner, which the controller cannot tell from others, so it never
    asks to lead.
    """

    heartbeat_ms: int
    heartbeat_timeout_ms: int
    poll_ms: int
    election_priority: int
    asks_for_elections: bool = True


def new_command_id() -> str:
    return uuid.uuid4().hex


class Membership:
    """One broker among its controllers."""

    def __init__(
        self,
        me: messages.Introduction,
        addresses: list[str],
        files: IdentityFiles,
        timers: MembershipTimers,
        hooks: MembershipHooks,
        clock: Clock,
    ) -> None:
        self.me = replace(me, notice_token=new_command_id())
        self.broker_id: int | None = None
        self.registered = asyncio.Event()
        # Addresses of the set's replicas by broker id, from the newest answer.
        self.replicas: dict[int, str] = {}
        self._files = files
        self._timers = timers
        self._hooks = hooks
        self._clock = clock
        self._controllers = ControllerClient(addresses, self._greeting)
        self._registration = reg.Registration(
            me.cluster_name, me.broker_name, me.address, iter(new_command_id, "")
        )
        self._asking: dict[bool, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reregistering = False
        self._notices = RoleNotices(self.me, self._follow, self._look)
        self._failed: asyncio.Future[None] | None = None

    @property
    def leader(self) -> str | None:
        """The controller that leads, as far as known."""
        return self._controllers.leader

    @property
    def elects(self) -> bool:
        """A controller does."""
        return self.leader is not None

    def start(self) -> None:
        self._controllers.start()

    async def close(self) -> None:
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._controllers.close()

    # -- registration ------------------------------------------------------------------------------

    async def register(self) -> None:
        """Until the controller knows this broker. RegistrationRefused, IdentityFileError when only
        an operator can help.
        """
        await self._drive(
            self._registration.start(self._files.read_identity(), self._files.read_temp())
        )
        self.registered.set()
        self._spawn(self._beat())
        self._spawn(self._poll())
        self._spawn(self._notices.run())

    async def _drive(self, effects: reg.Effects) -> None:
        """Do what the registration wants until it wants nothing more."""
        wait_ms = WAIT_MIN_MS
        queue = list(effects)
        while queue:
            effect = queue.pop(0)
            if isinstance(effect, reg.Wait):
                _log.info("registration: %s", effect.reason)
                await asyncio.sleep(random.uniform(WAIT_MIN_MS, wait_ms) / 1000)
                wait_ms = min(2 * wait_ms, WAIT_MAX_MS)
                queue += self._registration.retry()
            else:
                queue += await self._perform(effect)

    async def _perform(self, effect: reg.Effect) -> reg.Effects:
        registration = self._registration
        match effect:
            case reg.AskNextBrokerId():
                answer = await self._ask(messages.next_broker_id(self.me))
                next_id = None if answer is None else messages.read_next_broker_id(answer)
                return registration.next_id_answered(
                    messages.settled_code(answer), next_id, self._clock.wall_ms()
                )
            case reg.WriteTemp(temp):
                return registration.temp_written(self._wrote(lambda: self._files.write_temp(temp)))
            case reg.DeleteTemp():
                self._wrote(self._files.delete_temp)
            case reg.ApplyBrokerId(broker_id, check_code, command_id):
                answer = await self._ask(
                    messages.apply_broker_id(self.me, broker_id, check_code, command_id)
                )
                return registration.apply_answered(messages.settled_code(answer))
            case reg.WriteIdentity(identity, retried):
                if written := self._wrote(lambda: self._files.write_identity(identity)):
                    self._hooks.report(
                        "IdentityWritten",
                        {"broker_id_applied": identity.broker_id, "retried": retried},
                    )
                return registration.identity_written(written)
            case reg.RegisterBroker(broker_id, command_id):
                return await self._register(broker_id, command_id)
            case reg.Refused(reason):
                raise RegistrationRefused(reason)
        return ()

    def _wrote(self, write: Callable[[], None]) -> bool:
        try:
            write()
        except OSError as error:
            _log.error("identity file: %s", error)
            return False
        return True

    async def _register(self, broker_id: int, command_id: str) -> reg.Effects:
        if self.broker_id is None:
            self.broker_id = broker_id
            self.me = replace(self.me, check_code=self._registration.check_code)
            self._hooks.on_identity(broker_id)
        request = messages.register_broker(
            self.me,
            broker_id,
            self._hooks.position(),
            self._hooks.clean(),
            command_id,
            self._clock.wall_ms(),
        )
        answer = await self._ask(request)
        effects = self._registration.register_answered(messages.settled_code(answer))
        if answer is not None and answer.code != ResponseCode.SUCCESS:
            _log.warning("1003 answered %d: %s", answer.code, answer.remark)
        elif answer is not None:
            self.registered.set()
            if (greeting := self._greeting()) is not None:
                self._controllers.heartbeat(greeting)
            notice = messages.role_notice(answer, "register")
            if notice is None or notice.master_id is None:
                self.ask(elect=True)
            if notice is not None:
                self._hooks.on_notice(notice)
        return effects

    # -- asking ------------------------------------------------------------------------------------

    def ask(self, elect: bool) -> None:
        """1002 or 1004, without waiting; one of each kind at a time."""
        elect = elect and self._timers.asks_for_elections
        running = self._asking.get(elect)
        if running is None or running.done():
            self._asking[elect] = self._spawn(self._elect() if elect else self._look())

    async def _elect(self) -> None:
        assert self.broker_id is not None
        await self.elect(self.broker_id, designate=False)

    async def elect(self, broker_id: int, *, designate: bool) -> RemotingCommand | None:
        """1002: what it says of the roles is followed at once. None: whether it was held is
        unknown.
        """
        request = messages.elect_master(
            self.me, broker_id, new_command_id(), self._clock.wall_ms(), designate
        )
        self._take(answer := await self._ask(request), "elect")
        return answer

    async def _look(self) -> None:
        assert self.broker_id is not None
        self._take(await self._ask(messages.replica_info(self.me, self.broker_id)), "poll")

    async def _ask(self, request: RemotingCommand) -> RemotingCommand | None:
        answer = await self._controllers.ask(request)
        if answer is not None:
            self.replicas = messages.read_replicas(answer) or self.replicas
        return answer

    def _take(self, answer: RemotingCommand | None, source: str) -> None:
        if answer is None:
            return
        if answer.code in CODES_UNREGISTERED:
            self.register_again()
            return
        if answer.code not in (ResponseCode.SUCCESS, ResponseCode.CONTROLLER_MASTER_STILL_EXIST):
            _log.info("%s answered %d: %s", source, answer.code, answer.remark)
            return
        if (notice := messages.role_notice(answer, source)) is not None:
            self._hooks.on_notice(notice)

    def register_again(self) -> None:
        """1003 once more, with the identity it has: the controllers forgot it, or believe too much
        of it.
        """
        if not self._reregistering:
            self._reregistering = True
            self._spawn(self._reregister())

    async def _reregister(self) -> None:
        try:
            await self._drive(self._registration.reregister())
        finally:
            self._reregistering = False

    def notified(self, message: RemotingCommand) -> None:
        """1008: act at once; it needs no answer."""
        if self.broker_id is not None:
            self._notices.take(message)

    def _follow(self, notice: RoleNotice) -> None:
        self.replicas = notice.replicas or self.replicas
        self._hooks.on_notice(notice)

    async def propose(self, effect: ProposeSyncSet, command_id: str) -> AlterResult:
        """1001: the replica's proposal, and what is known of its outcome."""
        assert self.broker_id is not None
        request = messages.alter_sync_state_set(
            self.me,
            self.broker_id,
            effect.members,
            effect.base_set_epoch,
            effect.master_epoch,
            command_id,
            self._clock.wall_ms(),
            effect.lost_members,
        )
        answer = await self._ask(request)
        if answer is None:
            return AlterResult(None)
        if answer.code in CODES_UNREGISTERED:
            self.register_again()
        read = messages.read_alter_answer(answer)
        return AlterResult(
            messages.settled_code(answer), read.members, read.set_epoch, read.master_epoch
        )

    # -- time --------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        while True:
            if (greeting := self._greeting()) is not None:
                self._controllers.heartbeat(greeting)
            await asyncio.sleep(self._timers.heartbeat_ms / 1000)

    def _greeting(self) -> RemotingCommand | None:
        if self.broker_id is None or not self.registered.is_set():
            return None
        timers = self._timers
        return messages.heartbeat(
            self.me,
            self.broker_id,
            self._hooks.position(),
            timers.heartbeat_timeout_ms,
            timers.election_priority,
        )

    async def _poll(self) -> None:
        """The net below the pushes: polls for what a lost 1008 would have said."""
        while True:
            await asyncio.sleep(self._timers.poll_ms / 1000)
            self.ask(elect=False)

    def addresses(self) -> dict[int, str]:
        """Remoting addresses of the set's replicas by broker id, as the newest answer told them."""
        return self.replicas

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a task of the membership failed", exc_info=error)
            if self._failed is not None and not self._failed.done():
                self._failed.set_exception(error)

    def failed(self) -> asyncio.Future[None]:
        """Raises once a part of the membership broke down: a broker that asks and beats no more has
        to end.
        """
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
        return self._failed
