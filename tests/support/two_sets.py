"""The brokers of two sets, of which one may act and the other one takes what leaves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from brokers.service.escape.bridge import EscapeBridge
from brokers.store.log.records import MessageFields, host_bytes
from tests.support.brokers import send_request
from tests.support.client_service import Desk

HOST = host_bytes("10.0.0.2", 10911)


@asynccontextmanager
async def two_sets(folder: Path) -> AsyncIterator[tuple[Desk, Desk]]:
    """The second one leads set `b2` and has a message of topic T; nobody answers for set `gone`."""
    async with Desk(folder / "a") as one, Desk(folder / "b") as other:
        other.lead()
        assert (await other.ask(send_request("T", b"first"))).code == 0
        one.sets = {"b2": other.address, "gone": "127.0.0.1:1"}
        yield one, other


def way(desk: Desk) -> EscapeBridge:
    assert desk.service.escape is not None
    return desk.service.escape


def message(body: bytes) -> MessageFields:
    return MessageFields("T", 0, body, b"", 77, HOST, HOST)
