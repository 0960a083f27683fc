"""Frames leave together, and what a peer leaves unread is bounded."""

import asyncio
import socket

import pytest

from brokers.remoting.limits import Limits
from brokers.remoting.outbox import GATHER_BYTES, Outbox


class Wire(asyncio.Transport):
    """A transport that keeps what it is given; `unsent` is how much of it the peer has not
    taken.
    """

    def __init__(self):
        super().__init__()
        self.writes, self.unsent, self.high = [], 0, None

    def set_write_buffer_limits(self, high=None, low=None):
        self.high = high

    def get_write_buffer_size(self):
        return self.unsent

    def write(self, data):
        self.writes.append(bytes(data))


def outbox(**limits):
    overflows, wire = [], Wire()
    box = Outbox(Limits(**limits), overflows.append)
    box.attach(wire)
    return box, wire, overflows


async def turn():
    await asyncio.sleep(0)


async def test_frames_of_one_event_leave_in_one_write():
    box, wire, _ = outbox()
    for frame in (b"a", b"b", b"c"):
        box.write(frame)
    assert wire.writes == []
    await turn()
    assert wire.writes == [b"abc"]
    await turn()
    assert wire.writes == [b"abc"]


async def test_collected_frames_wait_for_the_flush():
    box, wire, _ = outbox()
    box.collect()
    box.write(b"a")
    await turn()
    assert wire.writes == []
    box.write(b"b")
    box.flush()
    assert wire.writes == [b"ab"]


async def test_frames_made_together_leave_at_once_or_with_what_is_due():
    box, wire, _ = outbox()
    box.write_together([b"a", b"b"])
    assert wire.writes == [b"ab"]
    box.write(b"c")
    box.write_together([b"d"])
    await turn()
    assert wire.writes == [b"ab", b"cd"]


async def test_a_large_batch_does_not_wait():
    box, wire, _ = outbox(write_pause_bytes=10)
    assert wire.high == 10
    box.collect()
    box.write(b"x" * 11)
    assert wire.writes == [b"x" * 11]


async def test_frames_written_before_the_transport_is_there_leave_afterwards():
    box, wire = Outbox(Limits(), print), Wire()
    box.write(b"a")
    await turn()
    box.attach(wire)
    box.write(b"b")
    await turn()
    assert wire.writes == [b"ab"]


async def test_cleared_frames_never_leave():
    box, wire, _ = outbox()
    box.write(b"a")
    box.clear()
    await turn()
    assert wire.writes == []


async def test_what_stays_unread_beyond_the_limit_is_told_once_per_write():
    box, wire, overflows = outbox(write_buffer_bytes=100)
    box.pause()
    wire.unsent = 100
    box.write(b"a")
    box.flush()
    assert overflows == []
    wire.unsent = 101
    box.write(b"a")
    box.flush()
    assert overflows == ["the peer left more than 100 bytes unread"]


async def test_who_waits_goes_on_when_the_peer_reads_again_or_its_call_is_over():
    box, _, _ = outbox()
    over = asyncio.get_running_loop().create_future()
    await box.until_writable(over)
    box.pause()
    assert box.paused
    waiting = asyncio.ensure_future(box.until_writable(over))
    await turn()
    assert not waiting.done()
    box.resume()
    await waiting
    assert not box.paused
    box.pause()
    waiting = asyncio.ensure_future(box.until_writable(over))
    over.set_result(None)
    await waiting


async def gathering(body_bytes: int, buffered: int = 0):
    """What a peer reads when a frame and its body leave for a real socket with little room."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, sock=ours)
    box = Outbox(Limits(), lambda reason: None)
    box.attach(transport)
    sent = bytes(range(256)) * (buffered // 256)
    if sent:
        transport.write(sent)
    body = bytes(number % 251 for number in range(body_bytes))
    box.write(b"head", body)
    box.write(b"next")
    await turn()
    reader, writer = await asyncio.open_connection(sock=theirs)
    expected = sent + b"head" + body + b"next"
    got = await asyncio.wait_for(reader.readexactly(len(expected)), 10)
    transport.close()
    writer.close()
    return got == expected


@pytest.mark.parametrize("body_bytes", [GATHER_BYTES - 100, GATHER_BYTES, 300_000])
@pytest.mark.parametrize("buffered", [0, 1 << 20])
async def test_large_bodies_leave_in_order_however_much_the_socket_takes(body_bytes, buffered):
    assert await gathering(body_bytes, buffered)


async def test_large_bodies_for_a_peer_that_is_gone_are_left_to_the_transport():
    ours, theirs = socket.socketpair()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
    box = Outbox(Limits(), lambda reason: None)
    box.attach(transport)
    theirs.close()
    box.write(b"head", bytes(GATHER_BYTES))
    await turn()
    assert transport.is_closing()
    transport.close()
