"""HA sockets: order, partial writes, back-pressure, endings, on real loopback."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from brokers.ha import transport as under_test
from brokers.ha.transport import HaTransport
from tests.support.descriptors import none_left


class Range(NamedTuple):
    fileno: int
    position: int
    count: int


class Owner:
    """Writes down what it hears."""

    def __init__(self, path: Path, content: bytes = b"") -> None:
        path.write_bytes(content)
        self._file = path.open("rb")
        self.size = len(content)
        self.opened: list[tuple[int, bool]] = []
        self.received: dict[int, bytes] = {}
        self.closed: list[tuple[int, str]] = []
        self.flow: list[bool] = []
        self.failed: list[str] = []
        self.transport = HaTransport(self, self._resolve)

    def _resolve(self, offset: int, count: int) -> Range | None:
        # Never more than 1000 bytes at once: a file's end in the middle of a packet.
        left = min(self.size - offset, 1000)
        return Range(self._file.fileno(), offset, left) if left > 0 else None

    def on_opened(self, link_id: int, *, outbound: bool) -> None:
        self.opened.append((link_id, outbound))
        self.received[link_id] = b""

    def on_data(self, link_id: int, data: memoryview) -> None:
        self.received[link_id] += bytes(data)

    def on_closed(self, link_id: int, reason: str) -> None:
        self.closed.append((link_id, reason))

    def on_flow(self, link_id: int, *, blocked: bool) -> None:
        self.flow.append(blocked)

    def on_connect_failed(self, reason: str) -> None:
        self.failed.append(reason)

    def close(self) -> None:
        self.transport.close()
        self._file.close()


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt to connect ends after a second and its owner makes the next: here nobody does."""
    monkeypatch.setattr(under_test, "CONNECT_TIMEOUT_MS", 20_000)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[Owner, Owner]]:
    """A listening owner with 300,000 bytes of log, and one connected to it."""
    server = Owner(tmp_path / "server", bytes(i % 251 for i in range(300_000)))
    client = Owner(tmp_path / "client")
    port = server.transport.listen("127.0.0.1", 0)
    client.transport.connect(f"127.0.0.1:{port}")
    await until(lambda: server.opened and client.opened)
    yield server, client
    server.close()
    client.close()


async def test_both_ends_are_told_who_connected(pair) -> None:
    server, client = pair
    assert (server.opened[0][1], client.opened[0][1]) == (False, True)


async def test_links_over_ipv6(tmp_path: Path) -> None:
    server, client = Owner(tmp_path / "server", bytes(range(200))), Owner(tmp_path / "client")
    port = server.transport.listen("::1", 0)
    client.transport.connect(f"[::1]:{port}")
    await until(lambda: server.opened and client.opened)
    server.transport.send(server.opened[0][0], b"head", 10, 190)
    await until(lambda: client.received[client.opened[0][0]] == b"head" + bytes(range(10, 200)))
    assert client.transport.peer(client.opened[0][0]) == f"[::1]:{port}"
    assert server.transport.peer(server.opened[0][0]).startswith("[::1]:")
    server.close()
    client.close()


@pytest.mark.parametrize("address", ["[::1", "::1", "nobody", "[::1]:port"])
async def test_an_address_that_is_none_is_a_failed_attempt(tmp_path: Path, address: str) -> None:
    client = Owner(tmp_path / "client")
    client.transport.connect(address)
    await until(lambda: client.failed)
    client.close()


async def test_packets_and_log_ranges_arrive_in_order(pair) -> None:
    server, client = pair
    (link, _), (far, _) = server.opened[0], client.opened[0]
    log = bytes(i % 251 for i in range(300_000))
    for at in range(0, 300_000, 30_000):
        server.transport.send(link, b"head%06d" % at, at, 30_000)
        server.transport.send(link, b"beat")
    expected = b"".join(
        b"head%06d" % at + log[at : at + 30_000] + b"beat" for at in range(0, 300_000, 30_000)
    )
    await until(lambda: len(client.received[far]) >= len(expected))
    assert client.received[far] == expected
    client.transport.send(far, b"ack")
    await until(lambda: server.received[link] == b"ack")


async def test_a_peer_that_does_not_read_is_felt_and_later_served(pair) -> None:
    server, client = pair
    (link, _), (far, _) = server.opened[0], client.opened[0]
    client.transport.loop.remove_reader(client.transport._links[far]._sock.fileno())
    sent = 0
    while True not in server.flow:
        server.transport.send(link, b"", 0, 300_000)
        sent += 300_000
        await asyncio.sleep(0)
    assert server.flow == [True]
    far_link = client.transport._links[far]
    client.transport.loop.add_reader(far_link._sock.fileno(), far_link._on_readable)
    await until(lambda: len(client.received[far]) == sent)
    assert server.flow == [True, False]


async def test_a_queue_that_grows_without_end_closes_the_link(
    pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "QUEUE_PACKETS_MAX", 100)
    server, client = pair
    (link, _), (far, _) = server.opened[0], client.opened[0]
    client.transport.loop.remove_reader(client.transport._links[far]._sock.fileno())
    for _ in range(400):
        server.transport.send(link, b"", 0, 300_000)
    await until(lambda: server.closed)
    assert server.closed == [(link, "100 packets not taken by the peer")]


async def test_the_owner_hears_once_of_a_link_the_peer_closed_and_never_of_its_own_closing(
    pair,
) -> None:
    server, client = pair
    (link, _), (far, _) = server.opened[0], client.opened[0]
    client.transport.close_link(far)
    await until(lambda: server.closed)
    assert server.closed == [(link, "closed by peer")]
    assert client.closed == []
    server.transport.send(link, b"into the void")
    await asyncio.sleep(0)
    assert len(server.closed) == 1


async def test_log_bytes_that_are_gone_close_the_link(pair) -> None:
    server, _ = pair
    (link, _) = server.opened[0]
    server.transport.send(link, b"head", 299_000, 5000)
    await until(lambda: server.closed)
    assert "are gone" in server.closed[0][1]


async def test_a_connection_refused_is_told(tmp_path: Path) -> None:
    client = Owner(tmp_path / "client")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        client.transport.connect(f"127.0.0.1:{free.getsockname()[1]}")
        await until(lambda: client.failed)
    for address in ("nonsense", "127.0.0.1:x"):
        client.transport.connect(address)
        await until(lambda: len(client.failed) > 1)
        client.failed.pop()
    client.close()


async def test_a_newer_attempt_replaces_the_one_under_way(tmp_path: Path) -> None:
    server, client = Owner(tmp_path / "server"), Owner(tmp_path / "client")
    port = server.transport.listen("127.0.0.1", 0)
    for _ in range(5):
        client.transport.connect(f"127.0.0.1:{port}")
    await until(lambda: client.opened)
    await asyncio.sleep(0)
    assert len(client.opened) == 1 and client.failed == []
    client.transport.cancel_connect()
    server.close()
    client.close()


async def test_a_port_in_use_is_an_error_of_the_caller(tmp_path: Path) -> None:
    first, second = Owner(tmp_path / "a"), Owner(tmp_path / "b")
    port = first.transport.listen("127.0.0.1", 0)
    with pytest.raises(OSError):
        second.transport.listen("127.0.0.1", port)
    first.close()
    second.close()


async def test_nothing_stays_open_after_close(tmp_path: Path) -> None:
    gc.collect()
    before = set(os.listdir("/proc/self/fd"))
    server, client = Owner(tmp_path / "server"), Owner(tmp_path / "client")
    client.transport.connect(f"127.0.0.1:{server.transport.listen('127.0.0.1', 0)}")
    await until(lambda: server.opened and client.opened)
    server.close()
    client.close()
    # What others left, earlier tests and their threads, may have been closed meanwhile.
    assert set(os.listdir("/proc/self/fd")) <= before


async def test_without_descriptors_it_waits_and_does_not_spin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "ACCEPT_PAUSE_MS", 200)
    server = Owner(tmp_path / "server")
    turns = 0
    acceptable = server.transport._on_acceptable

    def counted() -> None:
        nonlocal turns
        turns += 1
        acceptable()

    monkeypatch.setattr(server.transport, "_on_acceptable", counted)
    port = server.transport.listen("127.0.0.1", 0)
    with socket.create_connection(("127.0.0.1", port)):
        with none_left():
            rounds = 0
            while turns < 3:
                rounds += 1
                await asyncio.sleep(0)
            assert not server.opened and rounds > 3 * turns
        await until(lambda: server.opened)
    server.close()
