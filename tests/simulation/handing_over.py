"""The product's planned hand-over (`brokers/process/hand_over.py`) inside a simulated broker.

Responsible for: giving it what it asks a broker for; the wish of an operator, and an orderly stop
that hands over first.
Refuses to know: when writes are held, what ends an attempt. There are no tables here: copying them
takes a moment, and now and then it fails.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING

from brokers.process.hand_over import MasterHandOver, StopLimits
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer
from brokers.replica.ha_status import HaStatus
from brokers.service.role.forward import Forwarder
from brokers.service.role.hand_over import Refused
from brokers.service.role.hand_over_requests import HandOverRequests
from brokers.service.role.role_view import RoleView
from tests.simulation.passing_on import Asked, Calls
from tests.simulation.virtual_loop import VirtualLoop
from tests.simulation.world import InvariantBroken

if TYPE_CHECKING:
    from tests.simulation.broker_node import BrokerNode

TABLES_MS = (0, 40)
ROUTE_POLL_MS = 1_000
TABLES_FAIL_ONE_IN = 8


class HandingOver:
    """One life of a broker: it hands over when asked to, and takes over from its master."""

    def __init__(
        self,
        node: BrokerNode,
        loop: VirtualLoop,
        roles: RoleView,
        forwarder: Forwarder,
        calls: Calls,
        unfinished: Callable[[], int],
        hold_ms: int,
    ) -> None:
        self._node, self._loop = node, loop
        clock = SimpleNamespace(now_ms=lambda: node.world.now_ms)
        self._work = MasterHandOver(
            roles,
            _Replica(node),
            _Controllers(node, loop, unfinished),
            forwarder,
            calls,
            clock,
            unfinished,
            lambda: 0,
            lambda: None,
            StopLimits(hold_ms, ROUTE_POLL_MS, 2 * ROUTE_POLL_MS),
            self._report,
        )  # type: ignore[arg-type]
        self._requests = HandOverRequests(
            roles, lambda peer: True, self._work.run, self._copy_tables
        )

    def serve(self, connection: Asked, request: RemotingCommand) -> Answer:
        """Handler of 19012."""
        return self._requests.serve(connection, request)  # type: ignore[arg-type]

    def wish(self, target: int | None) -> None:
        """An operator wants it."""
        self._loop.create_task(self._try(target))

    def before_stop(self, then: Callable[[], None]) -> None:
        """SIGTERM: it hands over if it can; `then` it ends."""
        self._loop.create_task(self._work.before_stop()).add_done_callback(lambda done: then())

    async def _try(self, target: int | None) -> None:
        try:
            await self._work.run(target)
        except Refused as refused:
            self._node.world.note(f"   {self._node.name} does not hand over: {refused}")

    async def _copy_tables(self, master: str, epoch: int) -> str | None:
        world = self._node.world
        await self._loop.sleep(world.between(*TABLES_MS))
        return "the tables could not be copied" if world.one_in(TABLES_FAIL_ONE_IN) else None

    def _report(self, kind: str, fields: dict[str, object]) -> None:
        self._node.world.count(f"event.{kind}")
        self._node.world.note(f"   {self._node.name}: {kind} {fields}")


class _Replica:
    """What a hand-over uses of `LocalReplica`."""

    def __init__(self, node: BrokerNode) -> None:
        self._node = node

    @property
    def store(self) -> SimpleNamespace:
        return SimpleNamespace(log_end=self._node.disk.log_end)

    @property
    def core(self) -> object:
        return self._node.core

    def ha_status(self) -> HaStatus:
        core = self._node.core
        return HaStatus() if core is None else core.ha_status(str, self._node.world.now_ms)


class _Controllers:
    """What a hand-over uses of `Membership`."""

    def __init__(self, node: BrokerNode, loop: VirtualLoop, unfinished: Callable[[], int]) -> None:
        self._node, self._loop, self._unfinished = node, loop, unfinished

    @property
    def leader(self) -> str | None:
        return self._node.membership.leader

    @property
    def elects(self) -> bool:
        return self.leader is not None

    @property
    def replicas(self) -> dict[int, str]:
        return {} if self._node.core is None else self._node.core.replicas

    def ask(self, elect: bool) -> None:
        self._node.membership.ask(elect=elect)

    async def elect(self, broker_id: int, *, designate: bool) -> RemotingCommand | None:
        """1002, when every send is answered; None: whether the election was held is unknown."""
        if unanswered := self._unfinished():
            # a task's own error would be nobody's
            self._node.world.after(0, lambda: self._too_early(unanswered))
        future = self._loop.create_future()
        self._node.membership.elect(
            broker_id,
            designate,
            lambda answer: None if future.done() else future.set_result(answer),
        )
        answer: RemotingCommand | None = await future
        return answer

    def _too_early(self, unanswered: int) -> None:
        raise InvariantBroken(
            f"{self._node.name} hands over while {unanswered} sends are not answered"
        )
