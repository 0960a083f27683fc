"""What a connection does before and after its socket's life."""

import asyncio

import pytest

from brokers.remoting.calls import ConnectionClosed
from brokers.remoting.client import RemotingClient
from brokers.remoting.codec import FrameDecoder, encode
from brokers.remoting.command import FLAG_ONEWAY, RemotingCommand
from brokers.remoting.connection import Express
from brokers.remoting.dispatcher import Dispatcher
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


SHORT = 310


class Desk:
    """Takes what has a body; answers when told."""

    def __init__(self, limits=None):
        self.taken, self.asked = [], []
        express = Express(self.handle, self.take)
        self.server = RemotingServer(Dispatcher({SHORT: express, 11: self.handle}), limits=limits)
        self.client = RemotingClient()

    async def __aenter__(self):
        await self.server.start()
        return self

    async def __aexit__(self, *_):
        await self.client.close()
        await self.server.close()

    def take(self, connection, request):
        if not request.body:
            return False
        self.taken.append((connection, request))
        return True

    def handle(self, connection, request):
        self.asked.append(request)
        return request.reply(1)

    def ask(self, code=SHORT, body=b"abc"):
        address = f"127.0.0.1:{self.server.port}"
        return asyncio.ensure_future(
            self.client.call(address, RemotingCommand.request(code, body=body), 10_000)
        )

    async def until_taken(self, count):
        async with asyncio.timeout(60):
            while len(self.taken) < count:
                await asyncio.sleep(0.002)

    def answer(self):
        taken, self.taken = self.taken, []
        connection = taken[0][0]
        frames = [encode(request.reply(0)) for _, request in taken]
        connection.answer_express(frames, sum(len(request.body) for _, request in taken))
        return connection


async def test_taken_requests_are_answered_together():
    async with Desk() as desk:
        asked = [desk.ask() for _ in range(5)]
        await desk.until_taken(5)
        desk.answer()
        assert [answer.code for answer in await asyncio.gather(*asked)] == [0] * 5
        assert not desk.asked


async def test_what_is_not_taken_and_other_codes_go_the_long_way():
    async with Desk() as desk:
        assert [(await desk.ask(body=b"")).code, (await desk.ask(11)).code] == [1, 1]
        assert not desk.taken


async def test_a_oneway_request_is_never_taken():
    async with Desk() as desk:
        await desk.client.send_oneway(
            f"127.0.0.1:{desk.server.port}", RemotingCommand.request(SHORT, body=b"abc")
        )
        assert (await desk.ask(11)).code == 1
        assert [request.code for request in desk.asked] == [SHORT, 11]


async def test_taken_requests_count_as_long_as_they_wait():
    async with Desk(Limits(in_flight_requests=2)) as desk:
        waiting = [desk.ask(), desk.ask()]
        await desk.until_taken(2)
        assert (await desk.ask()).code == 2
        desk.answer()
        await asyncio.gather(*waiting)
        more = desk.ask()
        await desk.until_taken(1)
        desk.answer()
        assert (await more).code == 0


async def test_their_bodies_count_as_well():
    async with Desk(Limits(in_flight_bytes=2)) as desk:
        waiting = desk.ask()
        await desk.until_taken(1)
        assert (await desk.ask()).code == 2
        desk.answer()
        assert (await waiting).code == 0


async def test_a_taken_request_may_be_answered_the_long_way_after_all():
    async with Desk(Limits(in_flight_requests=1)) as desk:
        for _ in range(3):
            waiting = desk.ask()
            await desk.until_taken(1)
            ((connection, request),) = desk.taken
            desk.taken.clear()
            connection.leave_express(request)
            assert (await desk.ask()).code == 2
            connection.send(request.reply(7))
            assert (await waiting).code == 7


async def test_a_way_that_fails_is_answered_as_any_handler_that_does():
    async with Desk() as desk:
        desk.server._handler.express[SHORT] = lambda connection, request: 1 // 0
        answer = await desk.ask()
        assert (answer.code, answer.remark[:17]) == (1, "ZeroDivisionError")


async def test_answers_to_a_connection_that_is_gone_are_dropped():
    async with Desk() as desk:
        waiting = desk.ask()
        await desk.until_taken(1)
        desk.taken[0][0].abort("test")
        connection = desk.answer()
        connection.leave_express(RemotingCommand(1))
        assert connection.closed
        await asyncio.wait([waiting])
        assert waiting.exception() is not None
