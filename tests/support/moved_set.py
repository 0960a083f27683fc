"""A set of three brokers that changes over, each with its lives one after the other in this
process, and questions to them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from brokers.changeover.order import Kind, Order
from brokers.process import program
from brokers.process.config import BrokerConfig
from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from events.last_resort import LastResort
from tests.support import brokers
from tests.support.brokers import broker_config

CALL_MS, WAIT_S = 60_000, 240
until = partial(brokers.until, within_s=WAIT_S, pause_s=0.02)
PATIENT = {
    "ack_timeout_ms": 60_000,
    "ack_wait_shrink_ms": 60_000,
    "relink_grace_ms": 60_000,
    "hold_without_master_ms": 60_000,
    "send_queue_wait_ms": 60_000,
    "page_cache_busy_ms": 60_000,
    "name_server_register_ms": 1_000,
    "route_poll_ms": 0,
    "in_sync_replicas": 2,
}

ACTING = {
    "enable_slave_acting_master": True,
    "slave_read_enable": True,
    "total_replicas": 3,
    "compatible_with_old_name_servers": False,
    "min_in_sync_replicas": 1,
}
"""Slaves that act for a master that is away."""


@dataclass
class Lives:
    """One broker of a set, from its start to its stop."""

    config: BrokerConfig
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    hurry: asyncio.Event = field(default_factory=asyncio.Event)
    running: asyncio.Future[int] | None = None

    def begin(self) -> None:
        self.stopping.clear()
        self.last = LastResort(self.config.broker_name, limit_s=3_600)
        self.running = asyncio.ensure_future(
            program.lives(self.config, self.stopping, self.hurry, self.last)
        )

    async def end(self) -> int | None:
        self.stopping.set()
        self.hurry.set()
        code = None if self.running is None else await self.running
        self.last.disarm()
        return code

    @property
    def address(self) -> str:
        return self.config.advertised


class MovedSet:
    """Three of them, and questions to them. `more`: further settings of all."""

    def __init__(
        self, folder: Path, name_server: str, client: RemotingClient, **more: object
    ) -> None:
        self._client = client
        settings = {**PATIENT, **more}
        self.brokers = [
            Lives(broker_config(folder / f"b{key}", [], [name_server], broker_id=key, **settings))
            for key in range(3)
        ]

    async def ask(self, address: str, word: str, body: Any = None) -> dict[str, Any] | None:
        """The document of a look, the fields of another answer; None when there is none yet."""
        data = b"" if body is None else fastjson.dumps(body)
        request = RemotingCommand.request(19018, {"word": word}, data)
        try:
            answer = await self._client.call(address, request, CALL_MS)
        except RemotingError:
            return None
        assert answer.code in (0, 14), answer.remark
        if answer.code:
            return None
        document: Any = fastjson.loads(answer.body) if word == "look" else answer.ext
        return dict(document)

    async def begin(self, orders: list[Order]) -> dict[str, Any]:
        """Again where the master serves on: a replica that has just begun knows no hosts yet."""
        body = fastjson.dumps([one.document() for one in orders])
        request = RemotingCommand.request(19018, {"word": "begin"}, body)
        answers: list[RemotingCommand] = []

        async def begun() -> bool:
            answers.append(await self._client.call(orders[0].leader, request, CALL_MS))
            return answers[-1].code == 0

        await until(begun, "the master gives up")
        return dict(answers[-1].ext)

    async def looks(self) -> list[dict[str, Any]]:
        found = [await self.ask(one.address, "look") for one in self.brokers]
        return [one for one in found if one is not None]

    async def stands(self, kind: str) -> bool:
        """One leads and two follow it, each in that place."""
        looks = await self.looks()
        assert sum(one["serving"] for one in looks) <= 1, "two lead"
        roles = sorted(one["role"] for one in looks)
        return roles == ["MASTER", "SLAVE", "SLAVE"] and {one["kind"] for one in looks} == {kind}

    async def leader(self) -> str:
        return next(str(one["address"]) for one in await self.looks() if one["serving"])

    async def linked(self) -> bool:
        request = RemotingCommand.request(907)
        answer = await self._client.call(await self.leader(), request, CALL_MS)
        body: Any = fastjson.loads(answer.body)
        return sum(one["slaveAckOffset"] >= 0 for one in body["haConnectionInfo"]) == 2


def orders(
    moved: MovedSet, leader: str, kind: Kind, controllers: tuple[str, ...], attempt: str = "first"
) -> list[Order]:
    addresses = sorted((one.address for one in moved.brokers), key=lambda at: at != leader)
    adopts = kind is Kind.CONTROLLERS
    return [
        Order(
            *(f"{attempt} to {kind.value}", kind, "regent", "broker-a", address, leader),
            *(number + adopts, 2, controllers, f"{address};code" if adopts else "", int(adopts)),
        )
        for number, address in enumerate(addresses)
    ]
