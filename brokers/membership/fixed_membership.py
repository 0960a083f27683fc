"""The place of a broker in a set without controllers: its id is configured, and name servers say
who else is there (PROTOCOL 2.12).

Responsible for: asking one name server after the other who is registered (901), telling how many
live and where the master is. Refuses to know: what follows from it, registering.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from brokers.membership.member_group import member_group_question, read_member_group
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.replica.effects import ProposeSyncSet
from brokers.replica.hooks import AlterResult

MASTER_ID = 0
CALL_TIMEOUT_MS = 3_000
NO_ELECTION = (
    "this set has no controllers: its master is the broker with broker_id 0, and nobody takes over"
)

_log = logging.getLogger("regent.broker.membership")


@dataclass(frozen=True, slots=True)
class FixedPlace:
    """Who this broker is, as configured. `poll_ms`: RocketMQ's syncBrokerMemberGroupPeriod; None:
    somebody else asks, and says what was heard (`told`).
    """

    cluster_name: str
    broker_name: str
    broker_id: int
    address: str
    name_servers: Sequence[str]
    poll_ms: int | None


@dataclass(frozen=True, slots=True)
class FixedHooks:
    """`on_identity(broker id)` makes the replica; `on_alive(members)`: how many are registered,
    this one included, None where nobody says; `on_master(address)`: another one than before.
    """

    on_identity: Callable[[int], None]
    on_alive: Callable[[int | None], None]
    on_master: Callable[[str], None]


class FixedMembership:
    """One broker whose role is written down."""

    def __init__(self, place: FixedPlace, client: RemotingClient, hooks: FixedHooks) -> None:
        self.broker_id: int | None = place.broker_id
        self.registered = asyncio.Event()
        self.replicas: dict[int, str] = {}
        self._place, self._client = place, client
        self._hooks = hooks
        self._asked = 0  # which name server, for as long as it answers
        self._master: str | None = None
        self._said: dict[str, str] = {}  # by name server, until it tells
        self._polling: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[None] | None = None

    @property
    def leader(self) -> str | None:
        """No controller."""
        return None

    @property
    def elects(self) -> bool:
        """Nobody does."""
        return False

    def start(self) -> None:
        """Nothing to connect to."""

    async def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)

    async def register(self) -> None:
        """It has its place at once."""
        self._hooks.on_identity(self._place.broker_id)
        self.registered.set()
        if self._place.poll_ms is None:
            return
        self._polling = asyncio.ensure_future(self._poll())
        self._polling.add_done_callback(self._done)

    def addresses(self) -> dict[int, str]:
        """Remoting addresses of the set's replicas by broker id, as a name server told last."""
        return self.replicas

    # -- what only controllers do ------------------------------------------------------------------

    def ask(self, elect: bool) -> None:
        """There is nobody to ask."""

    def register_again(self) -> None:
        """There is nobody to register with."""

    def notified(self, message: RemotingCommand) -> None:
        """1008: no controller has a say here."""

    async def propose(self, effect: ProposeSyncSet, command_id: str) -> AlterResult:
        """There is no SyncStateSet."""
        return AlterResult(None)

    async def elect(self, broker_id: int, *, designate: bool) -> RemotingCommand | None:
        """Nobody is elected."""
        request = RemotingCommand.request(RequestCode.CONTROLLER_ELECT_MASTER)
        return request.reply(ResponseCode.SYSTEM_ERROR, remark=NO_ELECTION)

    # -- who is there ------------------------------------------------------------------------------

    async def _poll(self) -> None:
        poll_ms = self._place.poll_ms or 0
        while self._place.name_servers:
            members = await self._ask_one()
            if members is None:
                self._asked += 1
            else:
                self._heard(members)
            await asyncio.sleep(poll_ms / 1000)

    async def _ask_one(self) -> dict[int, str] | None:
        """None when this name server did not tell: what was known stays."""
        place = self._place
        address = place.name_servers[self._asked % len(place.name_servers)]
        question = member_group_question(place.cluster_name, place.broker_name)
        try:
            return read_member_group(await self._client.call(address, question, CALL_TIMEOUT_MS))
        except (RemotingError, ValueError) as error:
            if self._said.get(address) != (said := str(error)):  # once for each reason
                self._said[address] = said
                _log.warning("%s does not tell who of this set is registered: %s", address, said)
            return None

    def told(self, members: Mapping[int, str]) -> None:
        """Who is registered, by whoever asked."""
        place = self._place
        other = members.get(place.broker_id)
        if (
            other is not None
            and other != place.address
            and self.replicas.get(place.broker_id) != other
        ):
            _log.error(
                "broker %d of this set is registered as %s as well: two processes with one id, of "
                "which one has to end",
                place.broker_id,
                other,
            )
        self.replicas = dict(members)

    def _heard(self, members: dict[int, str]) -> None:
        place = self._place
        self._said.clear()
        self.told(members)
        self._hooks.on_alive(len({*members, place.broker_id}) if members else None)
        master = members.get(MASTER_ID)
        if place.broker_id != MASTER_ID and master is not None and master != self._master:
            self._master = master
            self._hooks.on_master(master)

    def _done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("asking name servers failed", exc_info=error)
            if self._failed is not None and not self._failed.done():
                self._failed.set_exception(error)

    def failed(self) -> asyncio.Future[None]:
        """Raises once asking broke down."""
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
        return self._failed
