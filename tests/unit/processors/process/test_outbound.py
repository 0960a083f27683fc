"""What a controller sends of its own accord, over real sockets."""

import asyncio
import logging
import socket

import pytest

from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer
from processors.controller.metrics import Metrics
from processors.process import outbound as peers
from processors.process.outbound import Outbound, PeerHosts, Sparsely, probe_port
from tests.support.brokers import free_port, until


class Far:
    """Another process: answers requests with 0, keeps what it got."""

    def __init__(self, port: int = 0) -> None:
        self.got: list[RemotingCommand] = []
        self.server = RemotingServer(self._handle, port=port)

    def _handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.got.append(request)
        return None if request.is_oneway else request.reply(0, {"far": "yes"})

    async def start(self) -> str:
        await self.server.start()
        return f"127.0.0.1:{self.server.port}"


async def test_a_peer_gets_messages_and_its_end_is_told() -> None:
    far = Far()
    address = await far.start()
    closed: list[tuple[str, bool]] = []
    outbound = Outbound(lambda where, refused: closed.append((where, refused)))
    outbound.tell_peer(address, RemotingCommand.request(19001, {"n": "1"}, oneway=True))
    await until(lambda: far.got, "the peer has the message")
    await far.server.close()
    await until(lambda: closed, "the end of the connection is told")
    assert closed == [(address, False)]
    outbound.tell_peer(address, RemotingCommand.request(19001, oneway=True))
    await until(lambda: len(closed) == 2, "the refusal is told")
    assert closed[1] == (address, True)
    await outbound.close()


async def test_a_forwarded_request_brings_the_answer_or_nothing() -> None:
    far = Far()
    address = await far.start()
    outbound = Outbound(lambda where, refused: None)
    replies: list[RemotingCommand | None] = []
    outbound.forward(address, RemotingCommand.request(1004), 20_000, replies.append)
    await until(lambda: replies, "the leader answered")
    assert replies[0] is not None and replies[0].ext == {"far": "yes"}
    outbound.forward(
        f"127.0.0.1:{free_port()}", RemotingCommand.request(1004), 20_000, replies.append
    )
    await until(lambda: len(replies) == 2, "the failure is told")
    assert replies[1] is None
    await outbound.close()
    await far.server.close()


async def test_a_role_notice_reaches_a_broker_and_a_dead_one_harms_nobody() -> None:
    far = Far()
    address = await far.start()
    outbound = Outbound(lambda where, refused: None)
    outbound.notify(f"127.0.0.1:{free_port()}", RemotingCommand.request(1008, oneway=True))
    outbound.notify(address, RemotingCommand.request(1008, oneway=True))
    outbound.notify(address, RemotingCommand.request(1008, oneway=True))
    await until(lambda: len(far.got) == 2, "both notices came")
    await outbound.close()
    await far.server.close()


@pytest.mark.parametrize("listens", [True, False])
async def test_a_probe_tells_open_from_refused(listens: bool) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        if listens:
            bound.listen()
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        results: list[str] = []
        outbound = Outbound(lambda where, refused: None)
        outbound.probe(address, results.append)
        await until(lambda: results, "the probe is answered")
        assert results == ["open" if listens else "refused"]
        await outbound.close()


async def test_an_address_that_is_none_is_no_refusal() -> None:
    assert await probe_port("nonsense") == "timeout"


async def test_nothing_is_sent_after_the_end() -> None:
    outbound = Outbound(lambda where, refused: pytest.fail("told after the end"))
    await outbound.close()
    replies: list[RemotingCommand | None] = []
    outbound.forward("127.0.0.1:1", RemotingCommand.request(1004), 100, replies.append)
    results: list[str] = []
    outbound.probe("127.0.0.1:1", results.append)
    outbound.tell_peer("127.0.0.1:1", RemotingCommand.request(19001))
    await asyncio.sleep(0)
    assert (replies, results) == ([None], ["timeout"])


def test_what_happens_a_thousand_times_at_once_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    told = Sparsely("role notices not delivered")
    for number in range(1_000):
        told.tell(f"to {number}", 100.0)
    told.tell("to the last", 101.5)
    lines = [record.message for record in caplog.records]
    assert lines == [
        "1 role notices not delivered, last to 0",
        "1000 role notices not delivered, last to the last",
    ]


def notice(number: int) -> RemotingCommand:
    return RemotingCommand.request(1008, {"masterEpoch": str(number)}, oneway=True)


async def test_notices_for_more_brokers_than_connections_at_once_wait_and_all_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "NOTICES_AT_ONCE_MAX", 1)
    brokers = [Far() for _ in range(6)]
    addresses = [await broker.start() for broker in brokers]
    metrics = Metrics()
    outbound = Outbound(lambda where, refused: None, metrics)
    outbound.notify(f"127.0.0.1:{free_port()}", notice(1))
    for address in addresses:
        outbound.notify(address, notice(1))
    outbound.notify(addresses[-1], notice(2))
    await until(lambda: all(broker.got for broker in brokers), "every broker has its notice")
    assert [one.ext["masterEpoch"] for one in brokers[-1].got] == ["2"], "the newest word counts"
    assert (metrics.notices_deferred, metrics.notices_undelivered, metrics.notices_dropped) == (
        7,
        1,
        0,
    )
    await outbound.close()
    for broker in brokers:
        await broker.server.close()


async def test_notices_without_room_to_wait_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "NOTICES_AT_ONCE_MAX", 1)
    monkeypatch.setattr(peers, "NOTICES_WAITING_MAX", 2)
    metrics = Metrics()
    outbound = Outbound(lambda where, refused: None, metrics)
    for number in range(10):
        outbound.notify(f"127.0.0.{number + 1}:1", notice(1))
    assert (metrics.notices_deferred, metrics.notices_dropped) == (2, 7)
    await outbound.close()


async def test_forwarded_requests_keep_their_places_beside_ten_thousand_notices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "NOTICES_AT_ONCE_MAX", 2)
    monkeypatch.setattr(peers, "TASKS_MAX", 4)
    far = Far()
    address = await far.start()
    outbound = Outbound(lambda where, refused: None)
    for number in range(50):
        outbound.notify(f"127.0.0.{number + 1}:1", notice(1))
    replies: list[RemotingCommand | None] = []
    outbound.forward(address, RemotingCommand.request(1004), 20_000, replies.append)
    await until(lambda: replies, "the leader answered")
    assert replies[0] is not None
    await outbound.close()
    await far.server.close()


async def test_a_probe_without_a_place_is_made_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "TASKS_MAX", 1)
    outbound = Outbound(lambda where, refused: None)
    results: list[str] = []
    for _ in range(3):
        outbound.probe(f"127.0.0.1:{free_port()}", results.append)
    await until(lambda: len(results) == 3, "all three are answered")
    assert results == ["refused"] * 3
    await outbound.close()


async def test_a_peer_speaks_from_the_host_of_its_address_or_from_a_network_that_is_named() -> None:
    hosts = PeerHosts({"c2": "localhost:9878", "c3": "10.0.0.3:9878"}, {"c3": "192.168.0.0/16"})
    looking_up = asyncio.ensure_future(hosts.keep())
    await until(lambda: hosts.holds("c2", "127.0.0.1:40000"), "the name is known")
    looking_up.cancel()
    assert (
        hosts.holds("c3", "10.0.0.3:40000")
        and hosts.holds("c3", "192.168.7.7:40000")
        and hosts.holds("", "192.168.7.7:40000")
    )
    assert not hosts.holds("c2", "10.0.0.3:40000") and not hosts.holds("c2", "192.168.7.7:40000")
    assert not hosts.holds("", "6.6.6.6:40000") and not hosts.holds("c4", "10.0.0.3:40000")


def test_one_line_tells_of_many_words_from_elsewhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="regent.controller.peers")
    hosts = PeerHosts({"c2": "10.0.0.2:9878"}, {})
    for _ in range(100):
        assert not hosts.believed("c2", "6.6.6.6:4711")
    assert (
        len(caplog.records) == 1
        and "6.6.6.6:4711" in caplog.text
        and "peer_networks" in caplog.text
    )
