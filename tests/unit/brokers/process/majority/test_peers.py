"""Calls to other members: each is heard of once, whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from brokers.majority.entry import Entry, Place
from brokers.majority.quorum.effects import Send
from brokers.majority.wire import json_bodies
from brokers.majority.wire.codes import FRAME_ANSWERED, MajorityRequest, PushType
from brokers.majority.wire.messages import (
    HeartBeatRequest,
    HeartBeatResponse,
    PushRequest,
    PushResponse,
    Request,
    Response,
)
from brokers.process.majority.peers import Peers
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Answer, Connection
from brokers.remoting.server import RemotingServer
from tests.support.brokers import free_port, until

BEAT = HeartBeatRequest(group="g", remote_id="m1", local_id="m0", leader_id="m0", term=3)
ENTRIES = PushRequest(
    group="g", remote_id="m1", local_id="m0", leader_id="m0", term=3, type=PushType.APPEND,
    entries=(Entry(0, 3, 0, b"abc"), Entry(1, 3, 51, b"d")), previous=Place(),
)  # fmt: skip


class Peer:
    """Answers with what is in `answers`, by the code of the request; None: nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Request]] = []
        self.answers: dict[int, Response | bytes | None] = {}
        self.frame_code = FRAME_ANSWERED

    def __call__(self, connection: Connection, request: RemotingCommand) -> Answer:
        self.asked.append((connection.id, json_bodies.decode_request(request.code, request.body)))
        answer = self.answers.get(request.code)
        if answer is None:
            return None
        body = answer if isinstance(answer, bytes) else json_bodies.encode(answer)
        return request.reply(self.frame_code, body=body)


@asynccontextmanager
async def calls(
    call_ms: int = 60_000,
) -> AsyncIterator[tuple[Peers, Peer, list[tuple[int, Response | None]], RemotingServer]]:
    peer = Peer()
    server = RemotingServer(peer)
    await server.start()
    heard: list[tuple[int, Response | None]] = []
    peers = Peers(
        {"m1": f"127.0.0.1:{server.port}", "m2": f"127.0.0.1:{free_port()}"},
        call_ms,
        lambda token, answer: heard.append((token, answer)),
    )
    yield peers, peer, heard, server
    await peers.close()
    await server.close()


async def test_an_answer_comes_back_to_its_call() -> None:
    async with calls() as (peers, peer, heard, _):
        peer.answers[MajorityRequest.HEART_BEAT] = HeartBeatResponse(group="g", term=3)
        peers.send(Send(7, "m1", BEAT))
        await until(lambda: heard, "it is answered")
        assert heard == [(7, HeartBeatResponse(group="g", term=3))]
        assert [request for _, request in peer.asked] == [BEAT]


async def test_words_do_not_wait_behind_entries() -> None:
    async with calls() as (peers, peer, heard, _):
        peer.answers[MajorityRequest.HEART_BEAT] = HeartBeatResponse(group="g")
        peers.send(Send(1, "m1", ENTRIES, binary=True))
        peers.send(Send(2, "m1", BEAT))
        await until(lambda: heard, "the heartbeat is answered")
        assert [token for token, _ in heard] == [2]
        await until(lambda: len(peer.asked) == 2, "both came")
        assert len({connection for connection, _ in peer.asked}) == 2
        assert ENTRIES in [request for _, request in peer.asked]


async def test_pushes_leave_in_their_order() -> None:
    async with calls() as (peers, peer, heard, _):
        peer.answers[MajorityRequest.PUSH] = PushResponse(group="g")
        for token in range(50):
            entry = Entry(token, 3, 0, b"x")
            push = PushRequest(group="g", type=PushType.APPEND, entries=(entry,))
            peers.send(Send(token, "m1", push))
        await until(lambda: len(heard) == 50, "all are answered")
        came = [one.first_index for _, one in peer.asked if isinstance(one, PushRequest)]
        assert came == list(range(50))


async def test_who_does_not_listen_is_no_answer() -> None:
    async with calls() as (peers, _, heard, _server):
        peers.send(Send(1, "m2", BEAT))
        await until(lambda: heard, "it is heard of")
        assert heard == [(1, None)]


async def test_a_connection_on_which_a_call_found_no_answer_is_left() -> None:
    async with calls(call_ms=100) as (peers, peer, heard, _):
        peers.send(Send(1, "m1", BEAT))
        await until(lambda: heard == [(1, None)], "its time is over")
        peer.answers[MajorityRequest.HEART_BEAT] = HeartBeatResponse(group="g")
        tokens = iter(range(2, 1_000))

        async def answered() -> bool:
            peers.send(Send(next(tokens), "m1", BEAT))
            await asyncio.sleep(0.05)
            return any(answer is not None for _, answer in heard)

        await until(answered, "the next connection answers")
        assert peer.asked[0][0] != peer.asked[-1][0]


async def test_what_is_no_answer_is_none() -> None:
    async with calls() as (peers, peer, heard, _):
        peer.answers[MajorityRequest.HEART_BEAT] = b"[]"
        peers.send(Send(1, "m1", BEAT))
        await until(lambda: heard, "it is heard of")
        peer.answers[MajorityRequest.HEART_BEAT] = HeartBeatResponse(group="g")
        peer.frame_code = 1
        peers.send(Send(2, "m1", BEAT))
        await until(lambda: len(heard) == 2, "it is heard of")
        assert heard == [(1, None), (2, None)]


async def test_a_connection_that_is_lost_ends_its_calls_at_once() -> None:
    async with calls() as (peers, peer, heard, server):
        peers.send(Send(1, "m1", BEAT))
        await until(lambda: peer.asked, "it came")
        await server.close()
        await until(lambda: heard == [(1, None)], "it is heard of")
