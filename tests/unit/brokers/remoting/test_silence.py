"""All connections are looked over, and their unfinished frames together are bounded."""

import asyncio
import struct

from brokers.remoting.codec import encode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.limits import Limits
from brokers.remoting.server import RemotingServer
from brokers.remoting.silence import SilenceSweeper

WAIT_S = 60


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.002)


class Looked:
    """Stands where a connection would, and counts how often it is asked."""

    partial_bytes = unsent_bytes = 0

    def __init__(self):
        self.times = []

    def check_silence(self, now):
        self.times.append(now)


async def test_connections_are_looked_over_again_and_again_until_it_stops():
    looked = Looked()
    sweeper = SilenceSweeper(Limits(idle_ms=50), lambda: [looked])
    await until(lambda: len(looked.times) >= 3)
    assert looked.times == sorted(looked.times)
    sweeper.stop()
    count = len(looked.times)
    other = Looked()
    second = SilenceSweeper(Limits(idle_ms=50), lambda: [other])
    await until(lambda: len(other.times) >= 3)
    second.stop()
    assert len(looked.times) == count


async def test_when_unfinished_frames_hold_too_much_the_largest_go():
    closed = []
    server = RemotingServer(
        lambda connection, request: None,
        on_close=closed.append,
        limits=Limits(partial_bytes_of_all=100_000),
    )
    await server.start()
    writers = []
    for size in (0, 60_000, 60_000, 60_000):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(struct.pack(">iI", 1_000_000, 20) + bytes(size))
        writers.append(writer)
    await until(lambda: len(closed) == 2)
    assert len(list(server.connections)) == 2
    assert sum(connection.partial_bytes for connection in server.connections) <= 100_000
    assert {connection.close_reason for connection in closed} == {
        "all connections together hold too many bytes of unfinished frames"
    }
    for writer in writers:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    await server.close()


async def test_when_all_together_leave_too_much_unread_those_that_leave_the_most_go():
    closed = []
    limits = Limits(unsent_bytes_of_all=12_000_000)
    server = RemotingServer(
        lambda connection, request: request.reply(body=bytes(request.body)),
        on_close=closed.append,
        limits=limits,
    )
    await server.start()
    writers = []
    for size in (8_000_000, 8_000_000, 14_000_000):
        _, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1_024)
        writer.transport.pause_reading()
        writer.write(encode(RemotingCommand.request(1, body=bytes(size))))
        writers.append(writer)
    await until(
        lambda: (
            closed
            and sum(each.unsent_bytes for each in server.connections) <= limits.unsent_bytes_of_all
        )
    )
    assert {each.close_reason for each in closed} == {
        "all connections together leave too many bytes unread"
    }
    for writer in writers:
        writer.transport.abort()
    await server.close()
