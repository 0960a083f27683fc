"""The bookkeeping of calls: numbers, responses, ends without one."""

import asyncio

import pytest

from brokers.remoting.calls import (
    CallTimeout,
    ConnectFailed,
    ConnectionClosed,
    PendingCalls,
    RemotingError,
)
from brokers.remoting.command import RemotingCommand


async def test_a_response_ends_its_own_call_only():
    calls = PendingCalls("p:1")
    first, second = calls.next_opaque(), calls.next_opaque()
    (one, _), (two, _) = calls.open(first, 10, 10_000), calls.open(second, 10, 10_000)
    calls.resolve(RemotingCommand(0, second, 1))
    assert (await two).opaque == second
    assert not one.done() and len(calls) == 1


async def test_a_response_that_nobody_waits_for_is_dropped():
    PendingCalls("p:1").resolve(RemotingCommand(0, 5, 1))


async def test_a_call_without_a_response_ends_by_its_timer():
    calls = PendingCalls("p:1")
    answer, _ = calls.open(calls.next_opaque(), 11, 5)
    with pytest.raises(CallTimeout, match="p:1: no answer to 11 within 5 ms"):
        await answer
    assert len(calls) == 0


async def test_all_calls_end_with_the_connection():
    calls = PendingCalls("p:1")
    answers = [calls.open(calls.next_opaque(), 10, 10_000)[0] for _ in range(3)]
    calls.end_all("gone")
    for answer in answers:
        with pytest.raises(ConnectionClosed, match="p:1: gone"):
            await answer
    assert len(calls) == 0


async def test_a_forgotten_call_leaves_nothing():
    calls = PendingCalls("p:1")
    opaque = calls.next_opaque()
    _, timer = calls.open(opaque, 10, 10_000)
    timer.cancel()
    calls.forget(opaque)
    calls.forget(opaque)
    assert len(calls) == 0


async def test_numbers_wrap_within_31_bits_and_skip_calls_under_way():
    calls = PendingCalls("p:1")
    calls._opaques = iter([0x7FFFFFFF, 0x80000000, 0x80000001, 0x80000002])
    assert calls.next_opaque() == 0x7FFFFFFF
    answer, timer = calls.open(0, 10, 10_000)
    assert calls.next_opaque() == 1
    timer.cancel()
    answer.cancel()


def test_a_refused_connection_is_a_closed_one_that_sent_nothing():
    failure = ConnectFailed("h:1: refused", refused=True)
    assert isinstance(failure, ConnectionClosed) and isinstance(failure, RemotingError)
    assert failure.refused and not ConnectFailed("h:1").refused


async def test_a_response_after_the_caller_gave_up_is_dropped():
    calls = PendingCalls("p:1")
    opaque = calls.next_opaque()
    answer, timer = calls.open(opaque, 10, 10_000)
    answer.cancel()
    calls.resolve(RemotingCommand(0, opaque, 1))
    timer.cancel()
    await asyncio.sleep(0)
