"""What a connection does before and after its socket's life."""

import asyncio

import pytest

from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import ConnectionClosed
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
