"""What a connection does before and after its socket's life, and how addresses are read."""

import asyncio

import pytest

from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import ConnectionClosed, split_address
from brokers.remoting.server import RemotingServer


@pytest.mark.parametrize(
    ("text", "parts"),
    [("127.0.0.1:9876", ("127.0.0.1", 9876)), (" h:0 ", ("h", 0)), ("[::1]:80", ("::1", 80)), (":9876", ("", 9876))],
)
def test_an_address_is_a_host_and_a_port(text, parts):
    assert split_address(text) == parts


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", "host:70000", "host:-1", "host:²"])
def test_anything_else_is_no_address(text):
    with pytest.raises(ValueError, match="no host:port|not host:port"):
        split_address(text)


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
    async with asyncio.timeout(10):
        while list(server.connections) or len(seen) < 3:
            await asyncio.sleep(0.002)
    assert seen == [1, 2, 3]
    await client.close()
    await server.close()
