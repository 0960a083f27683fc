"""The calling side: one shared connection per address, and how calls end when there is no
answer.
"""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest

from brokers.remoting.calls import CallTimeout, ConnectFailed, ConnectionClosed, RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.limits import Limits
from brokers.remoting.server import RemotingServer

WAIT_S = 60


@asynccontextmanager
async def pair(handler, client=None, **options):
    server = RemotingServer(handler, **options)
    await server.start()
    client = client or RemotingClient()
    try:
        yield server, client, f"127.0.0.1:{server.port}"
    finally:
        await client.close()
        await server.close()


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.002)


def echo(connection, request):
    return request.reply(ext=request.ext, body=request.body)


def never(connection, request):
    return None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


async def test_calls_made_at_once_share_one_connection_and_get_their_own_answers():
    async with pair(echo) as (server, client, address):
        requests = [RemotingCommand.request(10, {"n": str(n)}) for n in range(300)]
        answers = await asyncio.gather(
            *(client.call(address, request, 5_000) for request in requests)
        )
        assert [answer.ext["n"] for answer in answers] == [str(n) for n in range(300)]
        assert len(list(server.connections)) == 1


async def test_a_call_does_not_change_the_command():
    async with pair(echo) as (_, client, address):
        request = RemotingCommand(10, opaque=77, flag=2)
        assert (await client.call(address, request, 5_000)).is_response
        assert (request.opaque, request.flag) == (77, 2)


async def test_a_call_without_an_answer_times_out_and_the_connection_goes_on():
    async with pair(Dispatcher({1: never, 2: echo})) as (server, client, address):
        # connected: the time is the answer's alone
        await client.call(address, RemotingCommand.request(2), 5_000)
        with pytest.raises(CallTimeout, match="no answer to 1 within [0-9]+ ms"):
            await client.call(address, RemotingCommand.request(1), 20)
        await client.call(address, RemotingCommand.request(2), 5_000)
        assert len(list(server.connections)) == 1


async def test_an_answer_that_comes_too_late_is_dropped():
    held = []

    def hold(connection, request):
        held.append((connection, request))

    async with pair(Dispatcher({1: hold, 2: echo})) as (_, client, address):
        # connected: the time is the answer's alone
        await client.call(address, RemotingCommand.request(2), 5_000)
        with pytest.raises(CallTimeout):
            await client.call(address, RemotingCommand.request(1), 20)
        await until(lambda: held)
        connection, kept = held[0]
        connection.send(kept.reply(body=b"late"))
        assert (
            await client.call(address, RemotingCommand.request(2, body=b"own"), 5_000)
        ).body == b"own"


async def test_calls_under_way_end_when_the_server_closes():
    async with pair(never) as (server, client, address):
        call = asyncio.ensure_future(client.call(address, RemotingCommand.request(1), 60_000))
        await until(lambda: list(server.connections))
        for connection in server.connections:
            connection.close("test")
        with pytest.raises(ConnectionClosed):
            await call
        assert client.connection(address) is None


async def test_after_a_closed_connection_the_next_call_makes_a_new_one():
    closed = []
    async with pair(echo, RemotingClient(on_close=closed.append)) as (_, client, address):
        await client.call(address, RemotingCommand.request(1), 5_000)
        first = client.connection(address)
        client.close_connection(address)
        await client.call(address, RemotingCommand.request(1), 5_000)
        assert client.connection(address) is not first
        await until(lambda: closed == [first])


async def test_a_refused_connection_is_told_apart_from_other_failures():
    client = RemotingClient()
    with pytest.raises(ConnectFailed) as failure:
        await client.call(f"127.0.0.1:{free_port()}", RemotingCommand.request(1), 5_000)
    assert failure.value.refused
    with pytest.raises(ConnectFailed, match="host:port") as failure:
        await client.call("nonsense", RemotingCommand.request(1), 5_000)
    assert not failure.value.refused
    await client.close()


async def test_a_peer_that_does_not_accept_costs_the_call_its_timeout_only():
    with socket.socket() as full:
        # A backlog of none, taken up by the first connections: later ones get no answer at all.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        fillers = [socket.socket() for _ in range(3)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        client = RemotingClient()
        address = f"127.0.0.1:{full.getsockname()[1]}"
        with pytest.raises((ConnectFailed, CallTimeout)):
            await client.call(address, RemotingCommand.request(1), 50)
        await client.close()
        for filler in fillers:
            filler.close()


async def test_a_oneway_request_is_sent_and_marked():
    seen = []

    def take(connection, request):
        seen.append(request)

    async with pair(take) as (_, client, address):
        await client.send_oneway(address, RemotingCommand.request(904, {"a": "b"}))
        await until(lambda: seen)
        assert seen[0].is_oneway and seen[0].ext == {"a": "b"}


async def test_the_server_may_call_the_client_over_the_same_connection():
    async def ask_back(connection, request):
        answer = await connection.call(RemotingCommand.request(39, body=b"?"), 5_000)
        return request.reply(body=answer.body)

    client = RemotingClient(
        handler=lambda connection, request: request.reply(body=request.body + b"!")
    )
    async with pair(ask_back, client) as (_, _, address):
        assert (await client.call(address, RemotingCommand.request(1), 5_000)).body == b"?!"


async def test_a_client_without_a_handler_answers_that_it_serves_nothing():
    async def ask_back(connection, request):
        return request.reply((await connection.call(RemotingCommand.request(40), 5_000)).code)

    async with pair(ask_back) as (_, client, address):
        assert (await client.call(address, RemotingCommand.request(1), 5_000)).code == 3


async def test_a_cancelled_call_leaves_nothing_behind():
    async with pair(never) as (server, client, address):
        call = asyncio.ensure_future(client.call(address, RemotingCommand.request(1), 60_000))
        await until(lambda: list(server.connections))
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert client.connection(address).calls_waiting == 0


async def test_calls_that_wait_are_bounded():
    async with pair(never, RemotingClient(limits=Limits(calls=2))) as (_, client, address):
        connection = await client.connect(address)
        waiting = [
            asyncio.ensure_future(connection.call(RemotingCommand.request(1), 60_000))
            for _ in range(2)
        ]
        await until(lambda: connection.calls_waiting == 2)
        with pytest.raises(RemotingError, match="2 calls wait"):
            await connection.call(RemotingCommand.request(1), 60_000)
        for call in waiting:
            call.cancel()


async def test_a_caller_that_floods_waits_until_the_peer_reads_again():
    async with pair(echo, RemotingClient(limits=Limits(write_pause_bytes=100_000))) as (
        _,
        client,
        address,
    ):
        body = bytes(300_000)
        calls = [
            client.call(address, RemotingCommand.request(10, body=body), 30_000) for _ in range(60)
        ]
        answers = await asyncio.gather(*calls)
        assert all(answer.body == body for answer in answers)


async def test_a_closed_client_makes_no_connection():
    async with pair(echo) as (_, client, address):
        await client.close()
        with pytest.raises(ConnectFailed, match="the client is closed"):
            await client.call(address, RemotingCommand.request(1), 5_000)
