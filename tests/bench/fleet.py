"""Many broker sets without brokers: sockets that register at a controller and send heartbeats once
a second, as brokers do.

Refuses to know what it costs the controller.
"""

from __future__ import annotations

import asyncio
import resource
import time
import uuid
from multiprocessing.connection import Connection as Pipe

from brokers.membership import controller_messages
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand

CLUSTER = "bench-fleet"
MEMBERS = (1, 2, 3)
HEARTBEAT_S = 1.0
HEARTBEAT_TIMEOUT_MS = 10_000
PRIORITY = 2_147_483_647
AT_ONCE = 64
TIMEOUT_MS = 10_000
TRIES = 5
FILES_SPARE = 200
MASTER_EXISTS = 2011


def enough_files(connections: int) -> bool:
    """Raise the soft limit of open files; False when the hard one does not allow that many
    connections.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + FILES_SPARE
    if hard != resource.RLIM_INFINITY and hard < wanted:
        return False
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    return True


class Member:
    """One replica on a connection of its own."""

    def __init__(self, address: str, set_number: int, broker_id: int) -> None:
        self._address = address
        self._client = RemotingClient()
        self.broker_id = broker_id
        port = 20_000 + set_number % 10_000 * 4 + broker_id
        self.me = controller_messages.Introduction(
            CLUSTER,
            f"fleet-{set_number:05d}",
            f"127.0.0.1:{port}",
            f"127.0.0.1:{port}",
            f"life-{broker_id}",
        )

    async def _ask(self, request: RemotingCommand, good: tuple[int, ...] = (0,)) -> None:
        for _ in range(TRIES):
            answer = await self._client.call(self._address, request, TIMEOUT_MS)
            if answer.code in good:
                return
            # unknown in time: the same command id again gives the first outcome
            await asyncio.sleep(0.2)
        raise RuntimeError(f"{self.me.broker_name}: {answer.code} {answer.remark}")

    async def join(self) -> None:
        """Id, registration, a heartbeat."""
        code = f"{self.me.address};fleet"
        await self._ask(
            controller_messages.apply_broker_id(self.me, self.broker_id, code, uuid.uuid4().hex)
        )
        position = controller_messages.LogPosition(-1, 0, 0)
        await self._ask(
            controller_messages.register_broker(
                self.me, self.broker_id, position, True, uuid.uuid4().hex, 0
            )
        )
        await self.beat()

    async def elect(self) -> None:
        """Ask for a master."""
        await self._ask(
            controller_messages.elect_master(self.me, self.broker_id, uuid.uuid4().hex, 0),
            (0, MASTER_EXISTS),
        )

    async def beat(self) -> None:
        """One heartbeat."""
        position = controller_messages.LogPosition(1, 0, 0)
        request = controller_messages.heartbeat(
            self.me, self.broker_id, position, HEARTBEAT_TIMEOUT_MS, PRIORITY
        )
        await self._client.send_oneway(self._address, request)

    async def close(self) -> None:
        await self._client.close()


async def _join_all(members: list[Member]) -> float:
    gate = asyncio.Semaphore(AT_ONCE)

    async def whole_set(one: list[Member]) -> None:
        async with gate:
            for member in one:
                await member.join()
            await one[0].elect()

    began = time.monotonic()
    width = len(MEMBERS)
    await asyncio.gather(
        *(whole_set(members[at : at + width]) for at in range(0, len(members), width))
    )
    return time.monotonic() - began


async def _live(address: str, sets: int, link: Pipe) -> None:
    members = [
        Member(address, number, broker_id) for number in range(sets) for broker_id in MEMBERS
    ]
    try:
        link.send(await _join_all(members))
        due = time.monotonic()
        while not link.poll():
            for at, member in enumerate(members):
                await member.beat()
                if at % 50 == 49:  # spread over the second, as a thousand brokers are
                    await asyncio.sleep(
                        max(0.0, due + HEARTBEAT_S * at / len(members) - time.monotonic())
                    )
            due += HEARTBEAT_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))
    finally:
        await asyncio.gather(*(member.close() for member in members), return_exceptions=True)


def live(address: str, sets: int, link: Pipe) -> None:
    """Register all sets, say how many seconds that took, then send heartbeats until anything comes
    through `link`.
    """
    if not enough_files(sets * len(MEMBERS)):
        raise RuntimeError(f"the limit of open files is below {sets * len(MEMBERS)} connections")
    asyncio.run(_live(address, sets, link))
