"""Questions of operators' tools to a broker on a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from brokers.remoting import fastjson
from brokers.remoting.command import RemotingCommand
from tests.support.brokers import send_request
from tests.support.client_service import Desk


@asynccontextmanager
async def leading(folder: Path) -> AsyncIterator[Desk]:
    async with Desk(folder) as desk:
        desk.lead()
        for number in range(3):
            assert (await desk.ask(send_request("T", b"%d" % number, 1))).code == 0
        yield desk


def queue(topic: str, queue_id: int) -> str:
    return f'{{"brokerName":"b","queueId":{queue_id},"topic":"{topic}"}}'


async def asked(desk: Desk, code: int, /, **ext: object) -> RemotingCommand:
    return await desk.ask(
        RemotingCommand.request(code, {key: str(value) for key, value in ext.items()})
    )


async def body_of(desk: Desk, code: int, /, **ext: object) -> Any:
    answer = await asked(desk, code, **ext)
    assert answer.code == 0, answer.remark
    return fastjson.loads(answer.body)


async def commit(desk: Desk, offset: int, group: str = "g", topic: str = "T") -> RemotingCommand:
    return await asked(desk, 15, consumerGroup=group, topic=topic, queueId=1, commitOffset=offset)
