"""The place of a broker in a majority group: its members are configured, who leads is theirs to
elect, and each says where its broker serves clients.

Responsible for: asking the other members for that, at once when another one leads, and every
period; who is asked to lead next. Refuses to know: elections, registering at name servers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from brokers.majority.quorum.standing import Standing
from brokers.majority.wire import json_bodies
from brokers.majority.wire.codes import Code, MajorityRequest
from brokers.majority.wire.messages import MetadataRequest
from brokers.process.majority.config import MemberConfig, broker_id_of
from brokers.process.majority.replica import MajorityReplica
from brokers.process.majority.requests import BROKER_ADDRESS
from brokers.remoting.addresses import written_address
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.replica.effects import ProposeSyncSet
from brokers.replica.hooks import AlterResult

ASK_MS = 1_000
AGAIN_MS, AGAIN_TIMES = 50, 40
"""A new leader that does not tell is asked again so soon, so often; then as any member."""

_log = logging.getLogger("regent.majority")


class MajorityPlace:
    """See `brokers.membership.place.PlaceInSet`. `on_identity(broker id)` makes the replica run;
    `listen()` opens its port behind it; `poll_ms`: how often members are asked.
    """

    def __init__(
        self,
        config: MemberConfig,
        replica: MajorityReplica,
        own_address: str,
        on_identity: Callable[[int], None],
        listen: Callable[[], Awaitable[None]],
        poll_ms: int,
    ) -> None:
        self.broker_id: int | None = broker_id_of(config.self_id)
        self.registered = asyncio.Event()
        self._config, self._replica = config, replica
        self._on_identity, self._listen = on_identity, listen
        self._poll_ms = poll_ms
        self._known: dict[str, str] = {config.self_id: own_address}
        self._client = RemotingClient(connect_timeout_ms=ASK_MS)
        self._led_by_another = asyncio.Event()
        self._asking: set[asyncio.Task[None]] = set()
        self._failed: asyncio.Future[None] | None = None
        replica.address_of = self._known.get
        replica.role_heard = self._role_heard

    @property
    def leader(self) -> str | None:
        """No controller."""
        return None

    @property
    def elects(self) -> bool:
        """While this one leads, somebody follows who could."""
        return any(follows for _, follows in self._replica.followers().values()) or (
            self._replica.quorum is not None and not self._replica.leads()
        )

    @property
    def replicas(self) -> dict[int, str]:
        """Addresses of brokers of the group that have told theirs."""
        return {broker_id_of(key): address for key, address in self._known.items()}

    def addresses(self) -> dict[int, str]:
        return self.replicas

    def start(self) -> None:
        """Nothing to connect to before it runs."""

    async def close(self) -> None:
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        await self._client.close()

    async def register(self) -> None:
        """It has its place at once."""
        assert self.broker_id is not None
        self._on_identity(self.broker_id)
        await self._listen()
        self.registered.set()
        for work in (*map(self._poll, self._replica.addresses), self._follow()):
            task = asyncio.ensure_future(work)
            self._asking.add(task)
            task.add_done_callback(self._done)

    async def elect(self, broker_id: int, *, designate: bool) -> RemotingCommand | None:
        """Hand over to this one. None: nothing was decided."""
        member = self._replica.member
        peer = next((one for one in self._replica.addresses if broker_id_of(one) == broker_id), "")
        if member is None or not peer:
            return None
        code = await member.transfer_to(peer)
        request = RemotingCommand.request(RequestCode.CONTROLLER_ELECT_MASTER)
        if code == Code.SUCCESS:
            return request.reply()
        return request.reply(ResponseCode.SYSTEM_ERROR, remark=f"member {peer}: {code}")

    def failed(self) -> asyncio.Future[None]:
        """Raises once asking broke down."""
        if self._failed is None:
            self._failed = asyncio.get_running_loop().create_future()
        return self._failed

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

    # -- where brokers serve -----------------------------------------------------------------------

    def _role_heard(self, standing: Standing) -> None:
        if standing.leader_id not in (None, self._config.self_id):
            self._led_by_another.set()

    async def _poll(self, peer: str) -> None:
        while True:
            await self._ask_one(peer)
            await asyncio.sleep(self._poll_ms / 1000)

    async def _follow(self) -> None:
        """A new leader is asked at once: its broker may serve elsewhere by now."""
        while True:
            await self._led_by_another.wait()
            self._led_by_another.clear()
            for _ in range(AGAIN_TIMES):
                leader = self._leader_id()
                if leader is None or await self._ask_one(leader):
                    break
                await asyncio.sleep(AGAIN_MS / 1000)

    def _leader_id(self) -> str | None:
        """Another member that leads."""
        quorum = self._replica.quorum
        leader = None if quorum is None else quorum.standing.leader_id
        return leader if leader in self._replica.addresses else None

    async def _ask_one(self, peer: str) -> bool:
        """Whether it told. A member without a broker of ours never does."""
        question = MetadataRequest(
            group=self._config.group, remote_id=peer, local_id=self._config.self_id
        )
        request = RemotingCommand.request(
            MajorityRequest.METADATA, body=json_bodies.encode(question)
        )
        try:
            answer = await self._client.call(self._replica.addresses[peer], request, ASK_MS)
            address = written_address(answer.ext.get(BROKER_ADDRESS, ""))
        except (RemotingError, ValueError) as error:
            _log.debug("%s does not tell where its broker serves: %s", peer, error)
            return False
        if self._known.get(peer) != address:
            self._known[peer] = address
            self._replica.addresses_changed()
        return True

    def _done(self, task: asyncio.Task[None]) -> None:
        self._asking.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("asking members failed", exc_info=error)
            with suppress(asyncio.InvalidStateError):
                self.failed().set_exception(error)
