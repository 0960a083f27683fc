"""The product's broker process, whole, but for sockets and controllers.

Responsible for: what of a process is not there in a world: its clocks, its address, its membership.
Refuses to know: any rule of a service; all of them are the product's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from brokers.process.broker import BrokerProcess
from brokers.process.replica import LocalReplica
from brokers.remoting.connection import Connection
from brokers.remoting.dispatcher import Dispatcher
from brokers.replica.effects import ProposeSyncSet
from brokers.replica.hooks import AlterResult
from brokers.service.role.role_view import RoleView
from tests.simulation.services.calls import Calls
from tests.simulation.services.links import Links

if TYPE_CHECKING:
    from tests.simulation.services.member import Member


class WorldClock:
    """As `brokers.clock.Clock`: both clocks of a member."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def now_ms(self) -> int:
        return self._member.world.now_ms

    def wall_ms(self) -> int:
        return self._member.wall_ms


class Address:
    """As `brokers.process.opening.Opening`: who has the address before the broker serves."""

    def __init__(self, member: Member) -> None:
        self.roles = RoleView()
        self.client = Calls(member.realm, member, member.loop)
        self.dispatcher = Dispatcher()
        self.on_close: Callable[[Connection], None] = lambda connection: None
        self.has_place: Callable[[str], bool] = lambda peer: True
        self.greeted = b""  # every broker here is a first life


class Told:
    """As `brokers.membership.membership.Membership`, of a control that is asked directly."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._control = member.realm.control
        self.registered = asyncio.Event()
        self.registered.set()
        self.broker_id, self.leader = member.number, self._control.name

    def addresses(self) -> dict[int, str]:
        """All replicas of the set by broker id."""
        return self._control.addresses

    async def propose(self, effect: ProposeSyncSet, _command: str) -> AlterResult:
        return await self._control.altered(self._member, effect)

    def ask(self, elect: bool) -> None:
        self._control.asked(self._member)

    def register_again(self) -> None:
        self._control.registered(self._member)


def broker_of(member: Member, boot_id: str) -> BrokerProcess:
    """A new process of a member. LogError."""
    clock = WorldClock(member)
    transport = partial(Links, member)
    replica = LocalReplica(member.config, clock, boot_id=boot_id, transport=transport)  # type: ignore[arg-type]
    replica.store.log.next_file.ahead = False  # no thread makes files
    opening, told = Address(member), Told(member)
    broker = BrokerProcess(member.config, replica, opening, clock, told)  # type: ignore[arg-type]
    broker.service._follower._helper_from_s = float("inf")  # nor a process queue entries
    return broker


def begin(broker: BrokerProcess, member: Member) -> None:
    """As `BrokerProcess.start` does, whose address is the world's."""
    broker.take_requests()
    broker._tasks.append(broker.replica.failed())
    broker.identity_known(member.number)
    for task in broker._tasks:
        task.add_done_callback(member.part_ended)
