"""Notices of another smallest id: who gets them, and that nobody waits for anybody."""

import logging
import socket
from contextlib import ExitStack, contextmanager

import pytest

from brokers.remoting.server import RemotingServer
from processors.nameserver import notices as notices_module
from processors.nameserver.effects import MinIdChanged
from processors.nameserver.notices import NOTICES_PER_RECEIVER_MAX, Notices
from tests.support.brokers import free_port, until


def change(*receivers, min_id=1):
    return MinIdChanged("C", "a", min_id, f"10.0.0.{min_id}:1", None, "ha", receivers)


@pytest.fixture
async def receiver():
    """A broker's address, and the smallest ids that it was told."""
    told = []
    server = RemotingServer(lambda connection, request: told.append(request.ext["minBrokerId"]))
    await server.start()
    yield f"127.0.0.1:{server.port}", told
    await server.close()


@pytest.fixture
async def notices():
    found = Notices()
    yield found
    await found.close()


async def test_notices_arrive_in_their_order(notices, receiver):
    address, told = receiver
    for min_id in (3, 2, 1):
        notices.tell(change(address, min_id=min_id))
    await until(lambda: told == ["3", "2", "1"], "all are told")


@contextmanager
def full_listener():
    """Of a machine that takes no more connections: a new one is neither made nor refused."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


async def test_a_receiver_that_does_not_answer_holds_up_nobody(receiver):
    address, told = receiver
    found = Notices(timeout_ms=600_000)
    try:
        with full_listener() as stuck:
            found.tell(change(f"127.0.0.1:{free_port()}", stuck, address))
            await until(lambda: told == ["1"], "the one that listens is told")
            await until(lambda: found.waiting == 1, "the one that is stuck waits alone")
    finally:
        await found.close()


async def test_a_receiver_that_does_not_answer_is_given_up():
    found = Notices(timeout_ms=50)
    try:
        with full_listener() as stuck:
            found.tell(change(stuck))
            assert found.waiting == 1
            await until(lambda: not found.waiting, "it is given up")
    finally:
        await found.close()


async def test_a_receiver_that_is_away_hears_the_newest_ones_only(receiver):
    address, told = receiver
    found = Notices()
    try:
        for min_id in range(100, 100 + 3 * NOTICES_PER_RECEIVER_MAX):
            found.tell(change(address, min_id=min_id))  # none is sent before this ends
        await until(lambda: len(told) == NOTICES_PER_RECEIVER_MAX, "what waits is told")
        assert told[-1] == str(99 + 3 * NOTICES_PER_RECEIVER_MAX)
    finally:
        await found.close()


async def test_there_is_room_for_so_many_receivers(notices, receiver, monkeypatch, caplog):
    monkeypatch.setattr(notices_module, "RECEIVERS_MAX", 1)
    address, told = receiver
    with caplog.at_level(logging.WARNING, "regent.nameserver"):
        notices.tell(change(address, f"127.0.0.1:{free_port()}"))
    await until(lambda: told == ["1"], "the first is told")
    assert notices.no_room == 1 and "is not told" in caplog.text


async def test_one_that_was_not_there_is_told_the_next_time(notices):
    port = free_port()
    address, told = f"127.0.0.1:{port}", []
    notices.tell(change(address))
    await until(lambda: not notices.waiting, "it is given up")
    server = RemotingServer(
        lambda connection, request: told.append(request.ext["minBrokerId"]), port=port
    )
    await server.start()
    try:
        notices.tell(change(address, min_id=2))
        await until(lambda: told == ["2"], "it is told")
    finally:
        await server.close()
