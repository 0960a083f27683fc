"""Ask processes how they are, over remoting (REGENT_PROCESS_STATUS) and from a plain blocking
caller.

Refuses to know what the answers mean.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Iterable
from typing import Any

from brokers.remoting import codec
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from infra.processes.ports import split_address

ASK_TIMEOUT_MS = 1_000
READ_BYTES = 65_536
NO_LOG = "neither reads nor writes the log: Kafka does not answer it"
"""What is said of a controller whose status has `log_answers` false."""


def _question(sets: bool | str) -> RemotingCommand:
    wanted = {"name": sets} if isinstance(sets, str) else {} if sets else {"sets": "false"}
    return RemotingCommand.request(RequestCode.REGENT_PROCESS_STATUS, wanted)


def ask_once(
    address: str, timeout_ms: int = ASK_TIMEOUT_MS, *, sets: bool | str = True
) -> dict[str, Any] | None:
    """The process's status, None when it does not answer in time. Opens a connection of its own,
    blocks.

    `sets` False: a controller leaves its broker sets out, or gives that one alone, which is much
    less work when there are many.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    request = _question(sets)
    request.opaque = 1
    decoder = codec.FrameDecoder()
    try:
        with socket.create_connection(split_address(address), timeout_ms / 1000) as link:
            link.sendall(codec.encode(request))
            while (left := deadline - time.monotonic()) > 0:
                link.settimeout(left)
                data = link.recv(READ_BYTES)
                if not data:
                    return None
                for answer in decoder.feed(data):
                    return _status_of(answer)
    except (OSError, codec.FrameError):
        return None
    return None


def _status_of(answer: RemotingCommand) -> dict[str, Any] | None:
    if answer.code != 0:
        return None
    try:
        found = json.loads(answer.body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def ask_all(
    addresses: Iterable[str], timeout_ms: int = ASK_TIMEOUT_MS, *, sets: bool | str = True
) -> dict[str, dict[str, Any] | None]:
    """The status of many processes at once; `sets` as in `ask_once`."""
    return asyncio.run(_ask_all(list(addresses), timeout_ms, sets))


async def _ask_all(
    addresses: list[str], timeout_ms: int, sets: bool | str
) -> dict[str, dict[str, Any] | None]:
    client = RemotingClient()

    async def one(address: str) -> dict[str, Any] | None:
        try:
            return _status_of(await client.call(address, _question(sets), timeout_ms))
        except (RemotingError, OSError):
            return None

    try:
        return dict(zip(addresses, await asyncio.gather(*map(one, addresses)), strict=True))
    finally:
        await client.close()
