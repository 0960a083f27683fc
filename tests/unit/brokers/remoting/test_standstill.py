"""What was sent while a process stood still changes nothing behind what came later."""

import asyncio
import socket
import time
from contextlib import asynccontextmanager

import pytest

from brokers.remoting.codec import FrameDecoder, encode
from brokers.remoting.command import FLAG_ONEWAY, RemotingCommand
from brokers.remoting.connection import Express
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.server import RemotingServer
from brokers.remoting.standstill import ACCEPTED_MS, GAP_MS, Standstill

WAIT_S = 60
SEND, READ = 10, 11
STOPPED_S = GAP_MS / 1000 + 0.1


PEERS: list["Peer"] = []


class Service:
    """Notes what it serves. Sends are never served when they may be old."""

    def __init__(self, express: bool = False) -> None:
        self.served: list[int] = []
        handler = Express(self.serve, lambda connection, request: False) if express else self.serve
        self.dispatcher = Dispatcher({SEND: handler, READ: self.serve})
        self.dispatcher.never_old |= {SEND}

    def serve(self, connection, request):
        self.served.append(request.opaque)
        return request.reply()


class Peer:
    """A plain socket: what it sends is there although this process stands still."""

    def __init__(self, server: RemotingServer) -> None:
        port = server.port
        self.link = socket.create_connection(("127.0.0.1", port))
        self.decoder, self.codes = FrameDecoder(), {}
        PEERS.append(self)

    def send(self, code: int, *opaques: int, body: bytes = b"", flag: int = 0) -> None:
        self.link.sendall(
            b"".join(encode(RemotingCommand(code, one, flag=flag, body=body)) for one in opaques)
        )

    async def answers(self, count: int) -> dict[int, int]:
        self.link.setblocking(False)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(WAIT_S):
            while len(self.codes) < count:
                for answer in self.decoder.feed(await loop.sock_recv(self.link, 65_536)):
                    self.codes[answer.opaque] = answer.code
        self.link.setblocking(True)
        return self.codes


@asynccontextmanager
async def serving(service: Service):
    server = RemotingServer(service.dispatcher)
    await server.start()
    try:
        yield server
    finally:
        await server.close()
        while PEERS:
            PEERS.pop().link.close()


def stand_still() -> None:
    time.sleep(STOPPED_S)  # the fault itself: nothing of this process's loop runs


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@pytest.mark.parametrize("express", [False, True])
async def test_a_send_of_the_gap_is_refused_and_one_behind_it_served(express: bool) -> None:
    service = Service(express)
    async with serving(service) as server:
        peer, other = Peer(server), Peer(server)
        peer.send(SEND, 1)
        assert await peer.answers(1) == {1: 0}
        peer.send(SEND, 2, 3)
        peer.send(READ, 4)
        other.send(SEND, 5)
        stand_still()
        assert await peer.answers(4) == {1: 0, 2: 14, 3: 14, 4: 0}
        assert await other.answers(1) == {5: 14}
        peer.send(SEND, 6)
        other.send(SEND, 7)
        assert (await peer.answers(5))[6] == 0 and (await other.answers(2))[7] == 0
    assert service.served == [1, 4, 6, 7]


async def test_nothing_is_refused_on_a_connection_that_was_silent() -> None:
    service = Service()
    async with serving(service) as server:
        peer = Peer(server)
        peer.send(SEND, 1)
        assert await peer.answers(1) == {1: 0}
        stand_still()
        await turns()
        peer.send(SEND, 2)
        assert await peer.answers(2) == {1: 0, 2: 0}


@pytest.mark.parametrize("cut", [1, 30, 1_000])
async def test_a_frame_of_which_a_part_came_in_time_is_old(cut: int) -> None:
    service = Service()
    frame = encode(RemotingCommand(SEND, 1, body=bytes(2_000)))
    async with serving(service) as server:
        peer = Peer(server)
        peer.link.sendall(frame[:cut])
        await turns()
        stand_still()
        await turns()
        peer.link.sendall(frame[cut:])
        assert await peer.answers(1) == {1: 14}
        peer.send(SEND, 2)
        assert await peer.answers(2) == {1: 14, 2: 0}


async def test_more_than_one_read_of_old_bytes_is_old_to_its_end() -> None:
    service = Service()
    async with serving(service) as server:
        peer = Peer(server)
        peer.link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        peer.link.settimeout(1)
        frame = encode(RemotingCommand(SEND, 1, body=bytes(300_000)))
        sent = peer.link.send(frame + encode(RemotingCommand(SEND, 2)))
        rest = (frame + encode(RemotingCommand(SEND, 2)))[sent:]
        stand_still()
        await turns()
        peer.link.settimeout(None)
        peer.link.sendall(rest)
        assert (await peer.answers(2))[1] == 14
    assert 1 not in service.served


async def test_a_connection_made_in_the_gap_has_old_sends_and_new_ones() -> None:
    service = Service()
    async with serving(service) as server:
        await turns()
        peer = Peer(server)
        peer.send(SEND, 1)
        stand_still()
        assert await peer.answers(1) == {1: 14}
        peer.send(SEND, 2)
        assert await peer.answers(2) == {1: 14, 2: 0}


async def test_an_old_one_way_send_is_dropped_without_an_answer() -> None:
    service = Service()
    async with serving(service) as server:
        peer = Peer(server)
        peer.send(READ, 1)
        await peer.answers(1)
        peer.send(SEND, 2, flag=FLAG_ONEWAY)
        peer.send(READ, 3)
        stand_still()
        assert await peer.answers(2) == {1: 0, 3: 0}
    assert service.served == [1, 3]


class Told:
    def __init__(self) -> None:
        self.times = 0

    def may_be_old(self) -> None:
        self.times += 1


async def test_every_connection_hears_of_a_gap_once_and_later_ones_for_a_second() -> None:
    one = Told()
    watch = Standstill(lambda: [one])
    watch.stop()
    now = asyncio.get_running_loop().time()
    watch.reads(now + GAP_MS / 1000 - 0.5)
    assert one.times == 0
    watch.reads(now + 10)
    watch.reads(now + 10.5)
    assert (one.times, watch.gaps) == (1, 1)
    later, latest = Told(), Told()
    watch._loop = type("At", (), {"time": lambda self: now + 10.9})()
    watch.accepted(later)
    watch._loop = type("At", (), {"time": lambda self: now + 10.95 + ACCEPTED_MS / 1000})()
    watch._seen = now + 10.95 + ACCEPTED_MS / 1000
    watch.accepted(latest)
    assert (later.times, latest.times) == (1, 0)
