"""What applications do beside plain sends, at a broker, ours or Java's: delayed and timed sends,
transactions, pulls, pops with their acknowledgements.

Every function runs in a process of its own and gives how many messages it carried through; one that
is refused ends it. Refuses to know who answers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from brokers.remoting import codec
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.service.popping.handles import Handle
from brokers.store.log.properties import decode_properties
from brokers.store.log.records import StoredMessage, decode_messages
from tests.bench import pipelined
from tests.bench.send_load import QUEUES, send_request

GROUP = "bench-features"
CALL_MS = 10_000
PRODUCERS, CONSUMERS, GIVEN = 64, 8, 32
WINDOW = 512
COMMIT, PREPARED = "8", "4"
LEVEL_OF_TWO_HOURS, AN_HOUR_S = "18", "3600"
INVISIBLE_MS = 600_000
POP_TRIES_MAX = 2_000
NOTHING_NOW = (ResponseCode.POLLING_FULL, ResponseCode.POLLING_TIMEOUT)
DELAYED = f"DELAY\x01{LEVEL_OF_TWO_HOURS}\x02"
TIMED = f"TIMER_DELAY_SEC\x01{AN_HOUR_S}\x02"
HALF = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02"

Call = Callable[[RemotingCommand], Awaitable[RemotingCommand]]


class Refused(Exception):
    """A request was answered with another code than success."""


def sending(topic: str, number: int, properties: str = "", sys_flag: str = "0") -> RemotingCommand:
    """A 310 of 1 KiB, each with a key of its own."""
    text = f"KEYS\x01bench\x02UNIQ_KEY\x01{number:032X}\x02WAIT\x01true\x02{properties}"
    return send_request(topic, number % QUEUES, text, GROUP, "bench", sys_flag)


def sends(address: tuple[str, int], topic: str, count: int, properties: str) -> int:
    """Over one connection, a window under way; what a busy broker refuses is sent again."""
    frames = [
        codec.encode(sending(topic, number, properties), opaque=pipelined.FIRST_OPAQUE + number)
        for number in range(count)
    ]
    load = pipelined.run(address, frames, WINDOW, again_code=ResponseCode.SYSTEM_BUSY)
    if load.bad:
        asyncio.run(_one(address, sending(topic, 0, properties)))
        raise Refused(f"sends were answered with {load.bad}")
    return load.answered


def transactions(address: tuple[str, int], topic: str, count: int) -> int:
    """Halves that their producers commit, each when its half is stored."""

    async def one(call: Call, number: int) -> int:
        half = await _good(call, sending(topic, number, HALF, PREPARED))
        ext = {
            "producerGroup": GROUP,
            "tranStateTableOffset": half.ext["queueOffset"],
            "commitLogOffset": str(int(half.ext["msgId"][-16:], 16)),
            "commitOrRollback": COMMIT,
            "fromTransactionCheck": "false",
            "msgId": f"{number:032X}",
            "transactionId": f"{number:032X}",
        }
        await _good(call, RemotingCommand.request(RequestCode.END_TRANSACTION, ext))
        return 1

    return asyncio.run(_side_by_side(address, count, PRODUCERS, one))


def pulls(address: tuple[str, int], topic: str, count: int, per_queue: int) -> int:
    """So many pulls of GIVEN messages, all over the topic's queues."""

    async def one(call: Call, number: int) -> int:
        ext = {
            "consumerGroup": GROUP,
            "topic": topic,
            "queueId": str(number % QUEUES),
            "queueOffset": str(number // QUEUES * GIVEN % (per_queue - GIVEN)),
            "maxMsgNums": str(GIVEN),
            "sysFlag": "4",
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        answer = await _good(call, RemotingCommand.request(RequestCode.PULL_MESSAGE, ext))
        return len(decode_messages(answer.body))

    return asyncio.run(_side_by_side(address, count, CONSUMERS, one))


def pops(address: tuple[str, int], topic: str, count: int, broker_name: str) -> int:
    """So many pops of GIVEN messages, each message acknowledged by itself, as clients do."""

    async def one(call: Call, number: int) -> int:
        ext = {
            "consumerGroup": GROUP,
            "topic": topic,
            "queueId": str(number % QUEUES),
            "maxMsgNums": str(GIVEN),
            "invisibleTime": str(INVISIBLE_MS),
            "pollTime": "0",
            "initMode": "0",
            "expType": "TAG",
            "exp": "*",
            "order": "false",
        }
        answer = await _popped(call, ext)
        asked = [
            _acknowledgement(topic, answer.ext, broker_name, record)
            for record in decode_messages(answer.body)
        ]
        await asyncio.gather(*(_good(call, each) for each in asked))
        return len(asked)

    return asyncio.run(_side_by_side(address, count, CONSUMERS, one))


def _acknowledgement(
    topic: str, ext: dict[str, str], broker_name: str, record: StoredMessage
) -> RemotingCommand:
    """The handle names the broker as its check point does: else it would end none."""
    queue_id, offset = record.fields.queue_id, record.queue_offset
    handle = decode_properties(record.fields.properties).get("POP_CK")
    if handle is None:
        [start] = [
            int(entry.split(" ")[2])
            for entry in ext["startOffsetInfo"].split(";")
            if entry.split(" ")[:2] == ["0", str(queue_id)]
        ]
        times = int(ext["popTime"]), int(ext["invisibleTime"]), int(ext["reviveQid"])
        handle = Handle(start, *times, "0", broker_name, queue_id, offset).text()
    return RemotingCommand.request(
        RequestCode.ACK_MESSAGE,
        {
            "consumerGroup": GROUP,
            "topic": topic,
            "queueId": str(queue_id),
            "extraInfo": handle,
            "offset": str(offset),
        },
    )


async def _good(call: Call, request: RemotingCommand) -> RemotingCommand:
    """The answer; a broker that is busy is asked again."""
    answer = await call(request)
    while answer.code == ResponseCode.SYSTEM_BUSY:
        answer = await call(request)
    return _checked(request, answer)


def _checked(request: RemotingCommand, answer: RemotingCommand) -> RemotingCommand:
    if answer.code != ResponseCode.SUCCESS:
        raise Refused(f"{request.code} was answered with {answer.code} {answer.remark}")
    return answer


async def _popped(call: Call, ext: dict[str, str]) -> RemotingCommand:
    """The same; a queue that another one is popping from gives nothing for the moment, and a pop
    that waited long on this machine is made anew, as clients do.
    """
    for _ in range(POP_TRIES_MAX):
        born_ms = time.time_ns() // 1_000_000
        request = RemotingCommand.request(
            RequestCode.POP_MESSAGE, {**ext, "bornTime": str(born_ms)}
        )
        answer = await call(request)
        if answer.code not in NOTHING_NOW:
            break
        await asyncio.sleep(0.001)
    return _checked(request, answer)


async def _one(address: tuple[str, int], request: RemotingCommand) -> None:
    """One request by itself, for what a refusal says."""
    client = RemotingClient()
    try:
        await _good(lambda one: client.call(f"{address[0]}:{address[1]}", one, CALL_MS), request)
    finally:
        await client.close()


async def _side_by_side(
    address: tuple[str, int], count: int, workers: int, one: Callable[[Call, int], Awaitable[int]]
) -> int:
    """`count` steps by workers that each have one connection and one step under way."""
    where = f"{address[0]}:{address[1]}"
    numbers = iter(range(count))

    async def work() -> int:
        client, done = RemotingClient(), 0
        try:
            for number in numbers:
                done += await one(lambda request: client.call(where, request, CALL_MS), number)
        finally:
            await client.close()
        return done

    return sum(await asyncio.gather(*(work() for _ in range(workers))))
