"""Asking brokers where they stand: what is no answer, what is no broker of ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from brokers.changeover.order import Kind, Lines, Order
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer
from infra.changeover import calls
from infra.changeover.facts import NO_ANSWER, NOT_OURS, Look, look_of
from infra.problems import Problem
from tests.support.brokers import free_port

DOCUMENT = {
    "cluster_name": "regent",
    "broker_name": "a",
    "address": "h:1",
    "kind": "fixed",
    "broker_id": 0,
    "serving": True,
    "role": "MASTER",
    "change": "",
    "copies": 2,
    "acts": True,
    "name_servers": ["n:1"],
    "store_dir": "/s",
    "lines": {"broker_id": 0, "controllers": []},
    "orders": [],
}
LOOK = Look(
    "regent", "a", "h:1", Kind.FIXED, 0, True, "MASTER", "", 2, True, ("n:1",), "/s", Lines(0)
)


class Answers:
    """A peer that answers everything in the same way, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[RemotingCommand] = []
        self.code, self.body, self.remark = 0, b"", ""
        self.server = RemotingServer(self._serve)

    def _serve(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand:
        self.asked.append(request)
        return request.reply(self.code, {"heldMs": "7"}, self.body, self.remark)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"


@pytest.fixture
async def peer() -> AsyncIterator[Answers]:
    made = Answers()
    await made.server.start()
    yield made
    await made.server.close()


def test_a_document_is_read_whole_or_not_at_all() -> None:
    assert look_of(DOCUMENT) == LOOK
    for name in DOCUMENT:
        with pytest.raises(ValueError):
            look_of({key: value for key, value in DOCUMENT.items() if key != name})
    for wrong in ([], {**DOCUMENT, "kind": "x"}, {**DOCUMENT, "lines": 3}):
        with pytest.raises(ValueError):
            look_of(wrong)


async def test_who_does_not_answer_and_who_is_another_one_are_told_apart(peer: Answers) -> None:
    peer.body = json.dumps(DOCUMENT).encode()
    nobody = f"127.0.0.1:{free_port()}"
    found = await asyncio.to_thread(calls.looks_of, [peer.address, nobody], 5_000)
    assert found == {peer.address: LOOK, nobody: NO_ANSWER}
    peer.code = 3
    assert await asyncio.to_thread(calls.look, peer.address, 5_000) == NOT_OURS
    peer.code = 14
    begins = await asyncio.to_thread(calls.look, peer.address, 5_000)
    assert begins == NO_ANSWER, "a process that has only started is no broker of RocketMQ's"
    peer.code, peer.body = 0, b"{}"
    assert await asyncio.to_thread(calls.look, peer.address, 5_000) == NOT_OURS


async def test_a_refusal_says_what_keeps_it_and_silence_that_nothing_is_known(
    peer: Answers,
) -> None:
    order = Order("c", Kind.FIXED, "regent", "a", peer.address, peer.address, 0, 2)
    assert (await asyncio.to_thread(calls.begin, [order], 5_000))["heldMs"] == "7"
    assert peer.asked[0].ext["word"] == "begin"
    peer.code, peer.remark = 1, "one is behind"
    with pytest.raises(calls.NotNow, match="one is behind"):
        await asyncio.to_thread(calls.follow, order, 5_000)
    await peer.server.close()
    with pytest.raises(Problem, match="not known") as silent:
        await asyncio.to_thread(calls.begin, [order], 5_000)
    assert not isinstance(silent.value, calls.NotNow)


def group(**addresses: str) -> bytes:
    members = {key[1:]: address for key, address in addresses.items()}
    return json.dumps({"brokerMemberGroup": {"brokerAddrs": members}}).encode()


async def test_members_are_those_of_all_name_servers_that_tell(peer: Answers) -> None:
    nobody, young = f"127.0.0.1:{free_port()}", Answers()
    peer.body, young.body = group(_0="h:1", _1="h:2"), group(_0="h:1", _2="h:3")
    await young.server.start()
    try:
        servers = [nobody, young.address, peer.address]
        told = await asyncio.to_thread(calls.members_of, servers, "a", 5_000)
    finally:
        await young.server.close()
    assert told == {0: "h:1", 1: "h:2", 2: "h:3"}
    with pytest.raises(Problem, match="namesrv"):
        await asyncio.to_thread(calls.members_of, [nobody], "a", 5_000)
