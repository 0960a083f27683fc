"""What a connection does before and after its socket's life."""

import asyncio

import pytest

from brokers.remoting.client import RemotingClient
from brokers.remoting.codec import FrameDecoder, encode
from brokers.remoting.command import FLAG_ONEWAY, RemotingCommand
from brokers.remoting.connection import ConnectionClosed
from brokers.remoting.limits import Limits
from brokers.remoting.server import RemotingServer


async def test_a_closed_connection_sends_nothing_and_refuses_calls():
    server = RemotingServer(lambda connection, request: request.reply())
    await server.start()
    client = RemotingClient()
    connection = await client.connect(f"127.0.0.1:{server.port}")
    connection.close("enough")
    connection.close("again")
    connection.send(RemotingCommand.request(1, oneway=True))
    with pytest.raises(ConnectionClosed, match="enough"):
        await connection.call(RemotingCommand.request(1), 1_000)
    await connection.wait_closed()
    assert connection.closed and connection.close_reason == "enough"
    await client.close()
    await server.close()


async def test_what_was_sent_before_a_close_still_arrives():
    seen = []
    server = RemotingServer(lambda connection, request: seen.append(request.code))
    await server.start()
    client = RemotingClient()
    connection = await client.connect(f"127.0.0.1:{server.port}")
    for code in (1, 2, 3):
        connection.send(RemotingCommand.request(code))
    connection.close("done")
    await connection.wait_closed()
    async with asyncio.timeout(60):
        while list(server.connections) or len(seen) < 3:
            await asyncio.sleep(0.002)
    assert seen == [1, 2, 3]
    await client.close()
    await server.close()


class Holding:
    """A server whose handler holds every request until it is told to go on, and a bare client of
    it.
    """

    async def __aenter__(self):
        self.held, self.go_on = [], asyncio.Event()
        self.server = RemotingServer(self._hold, limits=Limits(in_flight_bytes=10_000))
        await self.server.start()
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        self.answers = []
        self._reading = asyncio.ensure_future(self._read())
        return self

    async def _hold(self, _connection, request):
        self.held.append(request)
        await self.go_on.wait()
        return request.reply()

    async def _read(self):
        decoder = FrameDecoder()
        while data := await self.reader.read(65_536):
            self.answers += decoder.feed(data)

    def tell(self, body_bytes, opaque=1, flag=0):
        self.writer.write(
            encode(RemotingCommand.request(10, body=bytes(body_bytes)), opaque=opaque, flag=flag)
        )

    async def until(self, condition):
        async with asyncio.timeout(60):
            while not condition():
                await asyncio.sleep(0.002)

    async def __aexit__(self, *_):
        self.go_on.set()
        self.writer.transport.abort()
        self._reading.cancel()
        await self.server.close()


async def test_a_number_under_way_is_refused_and_the_request_that_has_it_is_answered():
    async with Holding() as holding:
        for _ in range(20):
            holding.tell(4_000, opaque=7)
        await holding.until(lambda: len(holding.answers) == 19)
        assert len(holding.held) == 1 and {answer.code for answer in holding.answers} == {1}
        holding.go_on.set()
        await holding.until(lambda: len(holding.answers) == 20)
        assert (holding.answers[-1].code, holding.answers[-1].opaque) == (0, 7)
        holding.tell(4_000, opaque=7)
        await holding.until(lambda: len(holding.answers) == 21)
        assert holding.answers[-1].code == 0


async def test_one_way_requests_that_wait_count_as_the_others_do():
    async with Holding() as holding:
        for _ in range(20):
            holding.tell(4_000, flag=FLAG_ONEWAY)
        holding.tell(1, opaque=9)
        await holding.until(lambda: len(holding.answers) == 1)
        # the third went beyond 10,000 bytes
        assert len(holding.held) == 3 and holding.answers[0].code == 2
        holding.go_on.set()
        await asyncio.sleep(0.05)
        holding.tell(1, opaque=10)
        await holding.until(lambda: len(holding.answers) == 2)
        assert holding.answers[1].code == 0
