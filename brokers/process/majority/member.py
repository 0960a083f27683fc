"""One member of a group, its parts put together: folder, port, peers, driver.

Responsible for: the order of a start and of an end, what a start may rely on of the last run.
Refuses to know: rules, configuration files, who stops it.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from brokers.clock import Clock
from brokers.majority.quorum.standing import Role
from brokers.majority.store.folder import MajorityFolder, folder_name
from brokers.majority.wire.codes import Code, MajorityRequest
from brokers.majority.wire.messages import Response, TransferResponse
from brokers.process.majority.config import MemberConfig
from brokers.process.majority.driver import MemberDriver
from brokers.process.majority.first_entry import first_message
from brokers.process.majority.listener import MemberListener
from brokers.process.majority.peers import Peers
from brokers.process.majority.requests import MemberRequests
from brokers.remoting.addresses import host_of, split_address
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.limits import Limits
from brokers.remoting.server import RemotingServer
from brokers.store.recovery.boot import Boot, BootMarker

LIMITS = Limits(connections=1_024, reserved_connections=128)
HAND_OVER_MS = 1_500
"""A leader that is asked to stop looks for another one no longer than this."""

_log = logging.getLogger("regent.majority")


class OpenedFolder:
    """The folder of a member, and what this start is. LogError, OSError: nothing stays open."""

    def __init__(self, config: MemberConfig, boot_id: str | None = None) -> None:
        """`boot_id`: of the machine, None: as it says."""
        root = config.store_dir / folder_name(config.self_id)
        data = root / "data"
        self._marker = BootMarker(root)
        self.boot: Boot = self._marker.examine(data.is_dir() and any(data.iterdir()), boot_id)
        self.kept = self.boot.same_boot and self.boot.reason != "io_error"
        """What was written is there even without a flush."""
        self.folder = MajorityFolder(root, config.store, same_boot=self.kept)
        try:
            self._marker.begin(self.boot)
            # What is missing of the last run is known to the folder: it owes it (PROTOCOL 9.4).
            self._marker.caught_up()
        except BaseException:
            self.folder.close()
            raise

    @property
    def root(self) -> Path:
        return self.folder.root

    def close(self, failed: bool) -> None:
        """The orderly end, unless the disk refused something. LogError, OSError."""
        if failed:
            self._marker.io_error()
        self.folder.close()
        if not failed:
            self._marker.flushed_exit()


class MemberProcess:
    """Made in a running loop, with a folder that is open. `broker_address`: of the broker whose log
    this is, None without one.
    """

    def __init__(
        self,
        config: MemberConfig,
        opened: OpenedFolder,
        listener: MemberListener | None = None,
        clock: Clock | None = None,
        broker_address: str | None = None,
    ) -> None:
        self.config, self.opened = config, opened
        clock = clock or Clock()
        quorum = config.quorum(first_message(clock))
        self._peers = Peers(
            {peer: config.addresses[peer] for peer in quorum.peers},
            quorum.call_ms,
            lambda token, answer: self.driver.heard(token, answer),
        )
        self.driver = MemberDriver(
            quorum,
            opened.folder,
            self._peers.send,
            listener or MemberListener(),
            clock,
            config.checkpoint_ms,
        )
        log, addresses = opened.folder.log, config.addresses
        handler = MemberRequests(self.driver, log, addresses, broker_address)
        host, port = split_address(config.bound)
        hosts = {host_of(address) for address in config.addresses.values()}
        self.server = RemotingServer(
            Dispatcher(dict.fromkeys(MajorityRequest, handler)),
            host=host,
            port=port,
            limits=LIMITS,
            has_place=lambda peer: host_of(peer) in hosts,
        )

    async def start(self) -> None:
        """OSError when the address is taken."""
        await self.server.start()
        self.driver.start()

    @property
    def failed(self) -> bool:
        """It has left its group: its folder is not to be closed as in order."""
        return self.driver.core.left is not None

    async def stop(self) -> None:
        """In order: what was acknowledged is on the disk either way. LogError, OSError."""
        try:
            await self.end()
        finally:
            await asyncio.to_thread(self.opened.close, self.failed)

    async def end(self) -> None:
        """The same without its folder, which stays open."""
        try:
            if self.driver.core.standing.role is Role.LEADER:
                await self._hand_over()
            await self.server.close()
        finally:
            await self.driver.stop()
            await self._peers.close()

    async def _hand_over(self) -> None:
        """To the first member that can lead."""
        try:
            async with asyncio.timeout(HAND_OVER_MS / 1000):
                for peer in self.driver.core.config.peers:
                    code = await self.transfer_to(peer)
                    _log.info("handing over to %s: %d", peer, code)
                    if code == Code.SUCCESS:
                        return
        except TimeoutError:
            _log.info("nobody took over within %d ms", HAND_OVER_MS)

    async def transfer_to(self, peer: str) -> int:
        """A code of the member that was asked to take over, SUCCESS when it leads."""
        answered: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

        def hear(response: Response) -> None:
            if not answered.done():
                answered.set_result(response)

        self.driver.transfer(hear, peer)
        response = await answered
        return response.code if isinstance(response, TransferResponse) else Code.UNKNOWN
