"""Requests that are taken the short way, on real sockets."""

import asyncio

from brokers.remoting.client import RemotingClient
from brokers.remoting.codec import encode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.handlers import Express
from brokers.remoting.limits import Limits
from brokers.remoting.server import Dispatcher, RemotingServer

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
        connection.answer_taken(frames, sum(len(request.body) for _, request in taken))
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
            connection.long_way(request)
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
        connection.long_way(RemotingCommand(1))
        assert connection.closed
        await asyncio.wait([waiting])
        assert waiting.exception() is not None
