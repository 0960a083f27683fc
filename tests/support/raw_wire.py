"""Plain blocking sockets for peers that do not keep to the protocol."""

from __future__ import annotations

import random
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from brokers.remoting import codec
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand

# a process closes after the time it is configured with; a machine that does much else needs longer
CLOSE_LIMIT_S = 20.0
ANSWER_LIMIT_S = 20.0
PEERS_AT_ONCE = 40


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), ANSWER_LIMIT_S)


def push(link: socket.socket, data: bytes) -> None:
    """Send; a peer that closes meanwhile is no error here."""
    try:
        link.sendall(data)
    except (ConnectionError, TimeoutError):
        pass


def until_closed(link: socket.socket, limit_s: float = CLOSE_LIMIT_S) -> bytes:
    """What still comes until the peer closes; fails when it does not in time."""
    deadline = time.monotonic() + limit_s
    got = b""
    while True:
        left = deadline - time.monotonic()
        assert left > 0, f"not closed within {limit_s:.0f} s"
        link.settimeout(left)
        try:
            data = link.recv(65_536)
        except ConnectionError:
            return got
        except TimeoutError:
            continue
        if not data:
            return got
        got += data


def ask(address: str, request: RemotingCommand) -> RemotingCommand | None:
    """One request on a connection of its own; None when the connection ends or nothing comes."""
    with connect(address) as link:
        return ask_on(link, request)


def ask_on(link: socket.socket, request: RemotingCommand) -> RemotingCommand | None:
    request.opaque = random.randrange(1, 2**30)
    push(link, codec.encode(request))
    decoder = codec.FrameDecoder()
    link.settimeout(ANSWER_LIMIT_S)
    try:
        while data := link.recv(65_536):
            for answer in decoder.feed(data):
                if answer.opaque == request.opaque:
                    return answer
    except (ConnectionError, TimeoutError):
        pass
    return None


def all_at_once(attack: Callable[[int], object], peers: int = PEERS_AT_ONCE) -> None:
    """Run `attack(number)` for many peers side by side; the first failure is raised."""
    with ThreadPoolExecutor(peers) as pool:
        list(pool.map(attack, range(peers)))


def raw_frame(header: bytes, body: bytes = b"", serialization: int = 0) -> bytes:
    """A frame with any header."""
    return (
        struct.pack(">II", 4 + len(header) + len(body), serialization << 24 | len(header))
        + header
        + body
    )


def half_a_frame() -> bytes:
    whole = codec.encode(
        RemotingCommand.request(RequestCode.REGENT_PROCESS_STATUS, {"why": "x" * 1000})
    )
    return whole[: len(whole) // 2]
