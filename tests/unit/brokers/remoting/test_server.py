"""The listening side: pipelining, answers that come later, unknown codes, hostile and silent
peers.
"""

import asyncio
import gc
import os
import random
import socket
import struct
import tracemalloc
from contextlib import asynccontextmanager, suppress

import pytest

from brokers.remoting.codec import FrameDecoder, encode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.dispatcher import Dispatcher
from brokers.remoting.limits import Limits
from brokers.remoting.server import RemotingServer

WAIT_S = 60


@asynccontextmanager
async def serving(handler, **options):
    server = RemotingServer(handler, **options)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


class Peer:
    """A bare socket that speaks frames, well or badly."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.decoder, self.received = FrameDecoder(), []

    @classmethod
    async def to(cls, server):
        return cls(*await asyncio.open_connection("127.0.0.1", server.port))

    def send(self, *commands):
        self.writer.write(b"".join(map(encode, commands)))

    async def read(self, count):
        async with asyncio.timeout(WAIT_S):
            while len(self.received) < count:
                data = await self.reader.read(65_536)
                assert data, "the server closed the connection"
                self.received += self.decoder.feed(data)
        return self.received

    async def ended(self):
        """What the server still sent before it closed."""
        async with asyncio.timeout(WAIT_S):
            try:
                return await self.reader.read(-1)
            except ConnectionError:
                return b""

    async def close(self):
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.002)


def request(code, opaque, **fields):
    return RemotingCommand(code, opaque, **fields)


def echo(connection, request):
    return request.reply(ext=request.ext, body=request.body)


async def test_pipelined_requests_are_all_answered_with_their_opaques():
    async with serving(echo) as server:
        peer = await Peer.to(server)
        peer.send(*(request(10, opaque, body=b"%d" % opaque) for opaque in range(500)))
        answers = await peer.read(500)
        assert [(answer.opaque, answer.body) for answer in answers] == [
            (n, b"%d" % n) for n in range(500)
        ]
        assert all(answer.is_response for answer in answers)
        await peer.close()


async def test_a_request_in_pieces_is_answered():
    async with serving(echo) as server:
        peer = await Peer.to(server)
        data = encode(request(10, 5, body=b"abc"))
        for position in range(len(data)):
            peer.writer.write(data[position : position + 1])
            await peer.writer.drain()
        assert (await peer.read(1))[0].body == b"abc"
        await peer.close()


async def test_a_binary_request_is_answered_in_json():
    async with serving(echo) as server:
        peer = await Peer.to(server)
        peer.send(request(10, 5, serialization=1))
        assert (await peer.read(1))[0].serialization == 0
        await peer.close()


async def test_answers_may_overtake_each_other():
    gate = asyncio.Event()

    async def slow(connection, request):
        await gate.wait()
        return request.reply()

    async with serving(Dispatcher({1: slow, 2: echo})) as server:
        peer = await Peer.to(server)
        peer.send(request(1, 1), request(2, 2))
        assert [answer.opaque for answer in await peer.read(1)] == [2]
        gate.set()
        assert [answer.opaque for answer in await peer.read(2)] == [2, 1]
        await peer.close()


async def test_a_handler_may_answer_later_through_the_connection():
    held = []

    def hold(connection, request):
        held.append((connection, request))

    async with serving(Dispatcher({11: hold, 2: echo})) as server:
        peer = await Peer.to(server)
        peer.send(request(11, 1), request(2, 2))
        await peer.read(1)
        connection, kept = held[0]
        connection.send(kept.reply(body=b"late"))
        assert [(answer.opaque, answer.body) for answer in await peer.read(2)] == [
            (2, b""),
            (1, b"late"),
        ]
        await peer.close()


async def test_a_handler_may_answer_at_once_through_the_connection():
    def answer(connection, request):
        connection.send(request.reply(body=b"now"))

    async with serving(answer, limits=Limits(in_flight_requests=1)) as server:
        peer = await Peer.to(server)
        peer.send(*(request(10, opaque) for opaque in range(5)))
        assert [(got.code, got.body) for got in await peer.read(5)] == [(0, b"now")] * 5
        await peer.close()


async def test_a_handler_that_still_runs_when_its_peer_leaves_runs_to_its_end():
    gate, ended, started = asyncio.Event(), [], []

    async def slow(connection, request):
        started.append(connection)
        await gate.wait()
        ended.append(request.code)
        return request.reply()

    async with serving(slow) as server:
        peer = await Peer.to(server)
        peer.send(request(10, 1))
        await until(lambda: started)
        await peer.close()
        await until(lambda: started[0].closed)
        gate.set()
        await until(lambda: ended)


async def test_a_closed_connection_whose_peer_does_not_read_the_rest_is_cut_off():
    closed = []
    limits = Limits(write_pause_bytes=100_000, close_ms=50)
    async with serving(echo, on_close=closed.append, limits=limits) as server:
        peer = await Peer.to(server)
        peer.writer.transport.pause_reading()
        await until(lambda: list(server.connections))
        (connection,) = server.connections
        connection.send(RemotingCommand.request(40, body=bytes(15_000_000)))
        connection.close("enough")
        await until(lambda: closed)
        assert closed[0].close_reason == "enough"
        await peer.close()


async def test_a_oneway_request_is_never_answered_whatever_the_handler_does():
    async def later(connection, request):
        return request.reply()

    def fail(connection, request):
        raise RuntimeError("no")

    async with serving(Dispatcher({1: echo, 2: later, 3: fail, 4: echo})) as server:
        peer = await Peer.to(server)
        peer.send(*(request(code, code, flag=2) for code in (1, 2, 3, 99)), request(4, 4))
        assert [answer.opaque for answer in await peer.read(1)] == [4]
        peer.send(request(4, 5))
        assert [answer.opaque for answer in await peer.read(2)] == [4, 5]
        await peer.close()


async def test_an_unknown_code_is_answered_with_3_and_its_number():
    async with serving(Dispatcher()) as server:
        peer = await Peer.to(server)
        peer.send(request(9999, 1))
        (answer,) = await peer.read(1)
        assert (answer.code, answer.remark) == (3, " request type 9999 not supported")
        await peer.close()


async def test_an_exception_in_a_handler_becomes_code_1_with_its_text():
    def fail(connection, request):
        raise ValueError("bad topic")

    async def fail_later(connection, request):
        raise KeyError("x")

    def wrong(connection, request):
        return request.reply(ext={"a": 1})

    def nonsense(connection, request):
        return 5

    async with serving(Dispatcher({1: fail, 2: fail_later, 3: wrong, 4: nonsense})) as server:
        peer = await Peer.to(server)
        peer.send(*(request(code, code) for code in (1, 2, 3, 4)))
        answers = {answer.opaque: answer for answer in await peer.read(4)}
        assert {answer.code for answer in answers.values()} == {1}
        assert answers[1].remark == "ValueError: bad topic"
        assert answers[2].remark == "KeyError: 'x'"
        assert answers[3].remark.startswith("TypeError: ") and answers[4].remark.startswith(
            "TypeError: "
        )
        await peer.close()


async def test_a_handler_may_return_a_future():
    waiting = []

    def promise(connection, request):
        waiting.append((asyncio.get_running_loop().create_future(), request))
        return waiting[-1][0]

    async with serving(promise) as server:
        peer = await Peer.to(server)
        peer.send(request(10, 1))
        await until(lambda: waiting)
        future, kept = waiting[0]
        future.set_result(kept.reply(7))
        assert (await peer.read(1))[0].code == 7
        await peer.close()


async def test_opening_and_closing_are_told_once_each():
    opened, closed = [], []
    async with serving(echo, on_open=opened.append, on_close=closed.append) as server:
        peer = await Peer.to(server)
        await until(lambda: opened)
        assert opened[0].peer.startswith("127.0.0.1:") and opened[0].local.endswith(
            f":{server.port}"
        )
        await peer.close()
        await until(lambda: closed)
        assert closed == opened
        assert closed[0].closed and closed[0].close_reason == "closed by the peer"


async def test_stopping_the_server_closes_its_connections():
    async with serving(echo) as server:
        peer = await Peer.to(server)
        peer.send(request(1, 1))
        await peer.read(1)
    assert await peer.ended() == b""
    await peer.close()


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_comes_while_the_server_stops_is_closed_however_far_it_has_come(
    turns,
):
    server = RemotingServer(echo)
    await server.start()
    with socket.create_connection(("127.0.0.1", server.port)) as peer:
        peer.setblocking(False)
        for _ in range(turns):
            await asyncio.sleep(0)
        await server.close()
        async with asyncio.timeout(WAIT_S):
            with suppress(ConnectionError):
                assert await asyncio.get_running_loop().sock_recv(peer, 1) == b""


async def test_a_busy_port_is_an_os_error():
    async with serving(echo) as server:
        with pytest.raises(OSError, match="in use"):
            await RemotingServer(echo, port=server.port).start()


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 0x7FFFFFFF),
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">iI", 8, 0xFFFFFF),
        struct.pack(">iI", 6, 2) + b"{]",
        os.urandom(1),
    ],
    ids=["two GiB announced", "HTTP", "header beyond frame", "bad JSON", "one byte and the end"],
)
async def test_rubbish_ends_the_connection_and_nothing_else(data):
    async with serving(echo) as server:
        good, bad = await Peer.to(server), await Peer.to(server)
        bad.writer.write(data)
        bad.writer.write_eof()
        assert await bad.ended() == b""
        good.send(request(1, 1))
        await good.read(1)
        await bad.close()
        await good.close()


async def test_requests_before_rubbish_are_answered():
    async with serving(echo) as server:
        peer = await Peer.to(server)
        peer.writer.write(encode(request(1, 9)) + b"\xff" * 20)
        assert FrameDecoder().feed(await peer.ended())[0].opaque == 9
        await peer.close()


async def test_a_tls_client_gets_an_alert_and_the_end():
    async with serving(echo) as server:
        peer = await Peer.to(server)
        peer.writer.write(bytes.fromhex("1603010200010001fc0303"))
        assert await peer.ended() == bytes.fromhex("15030100020228")
        await peer.close()


@pytest.mark.parametrize(
    "half", [b"\x00", struct.pack(">i", 100), struct.pack(">iI", 1_000_000, 20) + b"{"]
)
async def test_half_a_frame_and_silence_is_closed(half):
    closed = []
    async with serving(echo, on_close=closed.append, limits=Limits(partial_frame_ms=60)) as server:
        peer = await Peer.to(server)
        peer.writer.write(half)
        assert await peer.ended() == b""
        await until(lambda: closed)
        assert closed[0].close_reason == "half a frame for more than 60 ms"
        await peer.close()


async def test_a_frame_that_drips_in_is_closed_although_bytes_keep_coming():
    async with serving(echo, limits=Limits(partial_frame_ms=80)) as server:
        peer = await Peer.to(server)
        ended = asyncio.ensure_future(peer.ended())
        data = iter(struct.pack(">iI", 1_000_000, 20) + b" " * 100_000)
        async with asyncio.timeout(WAIT_S):
            while not ended.done():
                peer.writer.write(bytes((next(data),)))
                await asyncio.sleep(0.005)
        await peer.close()


async def test_a_connection_without_traffic_is_closed():
    closed = []
    async with serving(echo, on_close=closed.append, idle_timeout_ms=60) as server:
        peer = await Peer.to(server)
        assert await peer.ended() == b""
        await until(lambda: closed)
        assert closed[0].close_reason == "idle for more than 60 ms"
        await peer.close()


async def test_one_connection_too_many_is_closed_and_the_others_stay():
    opened = []
    async with serving(echo, on_open=opened.append, limits=Limits(connections=2)) as server:
        peers = [await Peer.to(server) for _ in range(2)]
        await until(lambda: len(opened) == 2)
        third = await Peer.to(server)
        assert await third.ended() == b""
        for peer in peers:
            peer.send(request(1, 1))
            await peer.read(1)
            await peer.close()
        await third.close()


@pytest.mark.parametrize(("known", "served"), [(True, 2), (False, 0)])
async def test_who_has_a_place_finds_it_when_others_took_all_there_is(known, served):
    opened = []
    limits = Limits(connections=2, reserved_connections=2)
    async with serving(
        echo,
        on_open=opened.append,
        limits=limits,
        has_place=lambda peer: known and peer.startswith("127.0.0.1:"),
    ) as server:
        crowd = [await Peer.to(server) for _ in range(2)]
        await until(lambda: len(opened) == 2)
        late = [await Peer.to(server) for _ in range(3)]
        for peer in late[served:]:
            assert await peer.ended() == b""
        for peer in late[:served]:
            peer.send(request(1, 1))
            await peer.read(1)
        assert len(opened) == 2 + served
        for peer in crowd + late:
            await peer.close()


@pytest.mark.parametrize("limits", [Limits(in_flight_requests=3), Limits(in_flight_bytes=2_500)])
async def test_requests_beyond_those_in_flight_are_answered_busy(limits):
    held = []

    def hold(connection, request):
        held.append(request)

    async with serving(hold, limits=limits) as server:
        peer = await Peer.to(server)
        peer.send(*(request(10, opaque, body=bytes(1_000)) for opaque in range(5)))
        answers = await peer.read(2)
        assert [(answer.opaque, answer.code) for answer in answers] == [(3, 2), (4, 2)]
        assert len(held) == 3
        for connection in server.connections:
            connection.send(held[0].reply())
        peer.send(request(10, 6))
        await peer.read(3)
        await until(lambda: len(held) == 4)
        await peer.close()


async def test_a_peer_that_does_not_read_is_no_longer_read_from():
    served = []

    def large(connection, request):
        served.append(request.opaque)
        return request.reply(body=bytes(1_000_000))

    async with serving(large, limits=Limits(write_pause_bytes=100_000)) as server:
        peer = await Peer.to(server)
        peer.writer.transport.pause_reading()
        for opaque in range(200):
            peer.send(request(10, opaque))
            await asyncio.sleep(0)
        await until(lambda: any(connection.unsent_bytes for connection in server.connections))
        stopped_at = len(served)
        assert stopped_at < 200
        peer.writer.transport.resume_reading()
        await peer.read(200)
        assert len(served) == 200
        await peer.close()


async def test_a_peer_that_never_reads_what_is_pushed_to_it_is_dropped():
    closed = []
    limits = Limits(write_pause_bytes=100_000, write_buffer_bytes=1_000_000)
    async with serving(echo, on_close=closed.append, limits=limits) as server:
        peer = await Peer.to(server)
        peer.writer.transport.pause_reading()
        peer.send(request(1, 1))
        await until(lambda: list(server.connections))
        (connection,) = server.connections
        async with asyncio.timeout(WAIT_S):
            while not connection.closed:
                connection.send(RemotingCommand.request(40, body=bytes(100_000), oneway=True))
                await asyncio.sleep(0)
        await until(lambda: closed)
        assert closed[0].close_reason == "the peer left more than 1000000 bytes unread"
        await peer.close()


async def test_memory_does_not_grow_with_random_bytes_and_half_frames():
    rubbish = random.Random(7)
    async with serving(Dispatcher({1: echo}), limits=Limits(partial_frame_ms=50)) as server:

        async def attack(count):
            for number in range(count):
                peer = await Peer.to(server)
                if number % 3 == 0:
                    peer.writer.write(rubbish.randbytes(2_000))
                elif number % 3 == 1:
                    peer.writer.write(
                        struct.pack(">iI", 10_000_000, 100) + rubbish.randbytes(5_000)
                    )
                else:
                    peer.send(*(request(code, code) for code in range(1, 40)))
                    await peer.read(39)
                await peer.close()
            await until(lambda: not list(server.connections))

        await attack(60)
        tracemalloc.start()
        try:
            await attack(60)
            # Cycles of objects are nobody's any more, and wait for Python to look for them.
            gc.collect()
            first = tracemalloc.get_traced_memory()[0]
            await attack(240)
            gc.collect()
            # Four times as many attacks must not leave anything per attack behind.
            assert tracemalloc.get_traced_memory()[0] < first + 400_000
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
        finally:
            tracemalloc.stop()
        peer = await Peer.to(server)
        peer.send(request(1, 1))
        await peer.read(1)
        await peer.close()
