"""Carrying out a planned hand-over: what `hand_over` decides, done with sockets and time.

Responsible for: holding writes for as long as it takes and never longer, having the target copy
this broker's tables, asking the controller, handing over before an orderly stop and staying until
clients have found the new master. Refuses to know: when a hand-over is wise, what a role change
does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from brokers.clock import Clock
from brokers.membership.place import PlaceInSet
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import ResponseCode
from brokers.replica.replica_port import Replica
from brokers.service.role.forward import Forwarder
from brokers.service.role.hand_over import (
    DRAIN_MS,
    LIMIT_MS,
    Facts,
    HandOver,
    Refused,
    Slave,
    Stage,
    candidates,
)
from brokers.service.role.hand_over_requests import take_tables
from brokers.service.role.old_routes import OldRoutes
from brokers.service.role.role_view import RoleView

LOOK_MS = 2
PREPARE_MS = 1_000
LAST_COPY_MS = 300
HAND_OVERS_MAX = 3
"""Before one stop: it may be elected again while it waits for clients to go."""
MEMBER_WAIT_MS, TRY_EVERY_MS = 5_000, 500
"""A stop waits so long for a member that may take over soon: it follows, or is started anew."""
SAY_EVERY_MS = 10_000

_log = logging.getLogger("regent.broker.hand_over")


def longest_stop_ms(drain_ms: int) -> int:
    """How long a stop may wait for members and clients, all in all."""
    return HAND_OVERS_MAX * (drain_ms + MEMBER_WAIT_MS)


@dataclass(frozen=True, slots=True)
class HandedOver:
    """Who leads now, and in which epoch."""

    master_id: int
    master_address: str
    master_epoch: int


@dataclass(frozen=True, slots=True)
class StopLimits:
    """Settings `hold_without_master_ms`, `route_poll_ms` and `drain_ms`."""

    hold_ms: int
    route_poll_ms: int
    drain_ms: int


class MasterHandOver:
    """One hand-over at a time. `unfinished()`: sends and topic changes that are not answered
    yet; `clients()`: connections whose clients introduced themselves; `leave_routes()`: no new
    client is to find this broker, as long as it does not lead.
    """

    def __init__(
        self,
        roles: RoleView,
        replica: Replica,
        membership: PlaceInSet,
        forwarder: Forwarder,
        client: RemotingClient,
        clock: Clock,
        unfinished: Callable[[], int],
        clients: Callable[[], int],
        leave_routes: Callable[[], None],
        limits: StopLimits,
        report: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        self._roles = roles
        self._replica = replica
        self._membership = membership
        self._client = client
        self._forwarder = forwarder
        self._clock = clock
        self._unfinished = unfinished
        self._clients = clients
        self._leave_routes = leave_routes
        self._limits = limits
        self._report = report
        self.leaves_in_ms: int | None = None
        """How long a stop still waits for clients with an old route; None without one."""
        # Held requests are given up after `hold_ms`: what remains is for the way to the new master.
        self._limit_ms = min(LIMIT_MS, limits.hold_ms * 3 // 4)
        self._busy = False

    async def run(self, wanted: int | None = None) -> HandedOver:
        """Hand over to `wanted`, or to the best member. Refused when that cannot be, or was not;
        then this broker serves on.
        """
        if self._busy:
            raise Refused("a hand-over is under way already")
        if not self._roles.serving:
            raise Refused("this broker is not the master of its set")
        self._busy = True
        epoch, asked_ms = self._roles.current.master_epoch, self._clock.now_ms()
        try:
            done = await self._run(wanted, asked_ms)
        except Refused as refused:
            target = -1 if wanted is None else wanted
            self._tell("Refused", target, epoch, asked_ms, reason=str(refused))
            raise
        finally:
            self._busy = False
            self._roles.drain(False)
        self._tell("Completed", done.master_id, epoch, asked_ms, new_master_epoch=done.master_epoch)
        return done

    async def _run(self, wanted: int | None, asked_ms: int) -> HandedOver:
        target = await self._prepared(wanted)
        self._tell("Begun", target, self._roles.current.master_epoch, asked_ms)
        one = await self._hand_over(target)
        self._roles.drain(False)
        if one.stage is not Stage.DONE:
            self._membership.ask(elect=False)
            raise Refused(f"not handed over to replica {target}: {one.reason}")
        now = self._roles.current
        _log.info("handed over to replica %d, epoch %d", target, now.master_epoch)
        return HandedOver(target, now.master_address or "", now.master_epoch)

    def _tell(self, what: str, target: int, epoch: int, asked_ms: int, **more: object) -> None:
        took_ms = self._clock.now_ms() - asked_ms
        self._report(
            f"HandOver{what}",
            {"target_broker_id": target, "master_epoch": epoch, **more, "took_ms": took_ms},
        )

    async def _prepared(self, wanted: int | None) -> int:
        """The member that will take over: it lives, is of our kind, and has this broker's tables by
        now.
        """
        ids = candidates(self._slaves(), self._replica.store.log_end, wanted)
        said: list[str] = []
        for broker_id in ids:
            refusal = await self._take_tables(broker_id, PREPARE_MS)
            if refusal is None:
                return broker_id
            said.append(f"replica {broker_id}: {refusal}")
        raise Refused("; ".join(said))

    async def _take_tables(self, broker_id: int, timeout_ms: int) -> str | None:
        """None once the member has copied this master's tables, else why not."""
        address = self._membership.replicas.get(broker_id)
        if not address:
            return "its address is unknown"
        try:
            answer = await self._client.call(
                address, take_tables(self._roles.current.master_epoch, to_lead=True), timeout_ms
            )
        except RemotingError as error:
            return str(error) or type(error).__name__
        if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            return "it is no broker of this kind"
        return (
            None
            if answer.code == ResponseCode.SUCCESS
            else answer.remark or (f"code {answer.code}")
        )

    async def _hand_over(self, target: int) -> HandOver:
        one = HandOver(
            target,
            self._roles.current.master_epoch,
            self._clock.now_ms(),
            drain_ms=DRAIN_MS,
            limit_ms=self._limit_ms,
        )
        self._roles.drain(True)
        await self._until(one, lambda: one.stage is not Stage.DRAINING)
        if one.over:
            return one
        refusal = await self._take_tables(target, LAST_COPY_MS)
        if refusal is not None:
            one.refused(refusal)
            return one
        asking = asyncio.ensure_future(self._ask(one))
        await self._until(one, lambda: one.over)
        await asyncio.wait((asking,), timeout=0 if one.stage is Stage.RESUMED else LIMIT_MS / 1000)
        asking.cancel()
        return one

    async def _until(self, one: HandOver, done: Callable[[], bool]) -> None:
        while not done():
            one.look(self._facts(one.target), self._clock.now_ms())
            if not done():
                await self._roles.wait_change(LOOK_MS)

    async def _ask(self, one: HandOver) -> None:
        """An answer without a decision says nothing: the role, or the limit, ends the attempt."""
        answer = await self._membership.elect(one.target, designate=True)
        if answer is not None and answer.code != ResponseCode.SUCCESS:
            one.refused(f"the controller answered {answer.code} {answer.remark or ''}".rstrip())

    def _facts(self, target: int) -> Facts:
        current, core = self._roles.current, self._replica.core
        acked = {slave.broker_id: slave.acked for slave in self._slaves() if slave.in_sync}.get(
            target
        )
        return Facts(
            current.role,
            current.master_epoch,
            current.master_id,
            self._replica.store.log_end,
            core.confirm_offset if core else 0,
            acked,
            self._unfinished(),
        )

    def _slaves(self) -> list[Slave]:
        seen = self._replica.ha_status().slaves
        return [
            Slave(one.broker_id, one.in_sync, one.acked)
            for one in seen
            if one.broker_id is not None
        ]

    async def once(self) -> None:
        """Try it; a refusal is logged."""
        try:
            await self.run()
        except Refused as refused:
            _log.error("not handed over: %s", refused)

    async def before_stop(
        self,
        still: Callable[[], object] = lambda: None,
        in_a_hurry: Callable[[], bool] = lambda: False,
    ) -> None:
        """A master that is asked to stop hands over first, when there is somebody to take over;
        then, and as a slave through which clients read or wrote lately, it stays until they have
        read a route without it. `still()` is called while it does; `in_a_hurry()` ends it.
        """
        self._roles.leaving = True
        for number in range(HAND_OVERS_MAX):
            if not self._membership.elects or in_a_hurry():
                return
            led = self._roles.serving
            if led and not await self._gave_up(number > 0, still, in_a_hurry):
                return
            await self._stay(led, still, in_a_hurry)
            if not self._roles.serving:
                return

    async def _gave_up(
        self, again: bool, still: Callable[[], object], in_a_hurry: Callable[[], bool]
    ) -> bool:
        """Another one leads. `again`: this broker was elected while it stayed, and its slaves may
        not have found it yet. One that was linked may be started anew meanwhile.
        """
        may_come = again or self._busy or bool(self._slaves())
        until_ms = self._clock.now_ms() + min(MEMBER_WAIT_MS, self._limits.drain_ms)

        def worth_waiting() -> bool:
            over = self._clock.now_ms() >= until_ms or not self._membership.elects
            return may_come and not over and not in_a_hurry()

        while True:
            while worth_waiting() and self._roles.serving and (self._busy or not self._able()):
                still()
                await asyncio.sleep(LOOK_MS / 1000)
            try:
                await self.run()
                return True
            except Refused as refused:
                reason = str(refused)
            if not self._roles.serving:
                return True
            if not worth_waiting():
                _log.info("stopping without a hand-over: %s", reason)
                return False
            still()
            await asyncio.sleep(TRY_EVERY_MS / 1000)

    def _able(self) -> bool:
        try:
            return bool(candidates(self._slaves(), self._replica.store.log_end, None))
        except Refused:
            return False

    async def _stay(
        self, led: bool, still: Callable[[], object], in_a_hurry: Callable[[], bool]
    ) -> None:
        now_ms = self._clock.now_ms()
        old = OldRoutes(
            now_ms, led, self._clients(), self._limits.route_poll_ms, self._limits.drain_ms
        )
        said_ms = now_ms
        self._leave_routes()
        while not (self._roles.serving or in_a_hurry() or not self._membership.elects):
            now_ms = self._clock.now_ms()
            left_ms = old.left_ms(now_ms, self._forwarder.passed_ms, self._forwarder.waiting)
            if left_ms <= 0:
                break
            self.leaves_in_ms = left_ms
            if now_ms >= said_ms:
                _log.info(
                    "passes on what clients with an old route send, for %.0f s at least",
                    left_ms / 1000,
                )
                said_ms = now_ms + SAY_EVERY_MS
            still()
            await asyncio.sleep(LOOK_MS / 1000)
        self.leaves_in_ms = None
