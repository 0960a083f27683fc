"""A small RocketMQ client: route by 105 with a poll, send by 310, pull by 11, offsets, heartbeat.

It behaves as a tuned stock client does: it sends to the address with id 0 of the last route it
read. Refuses to know what is sent and why. Sources: PROTOCOL 4.1, 4.3 to 4.6.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from brokers.remoting import fastjson
from brokers.remoting.calls import CallTimeout, RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from brokers.store.log import records
from brokers.store.log.properties import encode_properties

DEFAULT_TOPIC = "TBW102"
POLL_MS = 200
CALL_TIMEOUT_MS = 500
PULL_SUSPEND_MS = 2_000
PULL_MESSAGES = 32
HEARTBEAT_MS = 10_000
_SUSPEND, _SUBSCRIPTION = 2, 4
PERM_WRITE, PERM_READ = 2, 4

log = logging.getLogger("regent.workload")


class CallFailed(Exception):
    """No answer with code 0. `reason` is one line; whether the call had an effect is unknown."""

    def __init__(self, reason: str, address: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.address = address


@dataclass(frozen=True, slots=True)
class Route:
    """Where a topic lives in one set: addresses by broker id (0 is the master, or a slave that acts
    for it), and what is allowed there.
    """

    broker_name: str
    addresses: dict[int, str]
    queues: int
    perm: int = PERM_READ | PERM_WRITE

    @property
    def master(self) -> str | None:
        return self.addresses.get(0)

    @property
    def is_writable(self) -> bool:
        """Somebody takes sends there."""
        return self.master is not None and bool(self.perm & PERM_WRITE)


@dataclass(frozen=True, slots=True)
class Stored:
    """Answer to a send."""

    queue: int
    queue_offset: int
    message_id: str
    address: str


@dataclass(frozen=True, slots=True)
class Pulled:
    """Answer to a pull: messages in order, where to go on, and the queue's bounds."""

    messages: Sequence[records.StoredMessage]
    next_offset: int
    min_offset: int
    max_offset: int


def decode_route(body: bytes) -> Route | None:
    """The first broker set of a route body, None when there is none."""
    return next(iter(decode_routes(body)), None)


def decode_routes(body: bytes) -> list[Route]:
    """All broker sets of a route body."""
    found = fastjson.loads(body, fastjson.TABLE_BYTES_MAX)
    if not isinstance(found, dict):
        return []
    queues = {one["brokerName"]: one for one in found.get("queueDatas") or ()}
    return [_route_of(one, queues) for one in found.get("brokerDatas") or ()]


def _route_of(broker: dict[str, Any], queues: dict[str, dict[str, Any]]) -> Route:
    name = str(broker["brokerName"])
    addresses = {int(i): str(a) for i, a in broker["brokerAddrs"].items()}
    own = queues.get(name)
    if own is None:
        return Route(name, addresses, 0)
    perm = int(own.get("perm", PERM_READ | PERM_WRITE))
    return Route(name, addresses, int(own["writeQueueNums"]), perm)


def send_request(
    group: str,
    topic: str,
    queues: int,
    place: tuple[str, int],
    properties: str,
    body: bytes,
    *,
    flag: int = 0,
) -> RemotingCommand:
    """310 (PROTOCOL 4.3). `queues`: how many the topic gets when the send makes it; `place`: the
    name of the set and the number of the queue; `flag`: the system flag of the message.
    """
    ext = {
        "a": group,
        "b": topic,
        "c": DEFAULT_TOPIC,
        "d": str(queues),
        "e": str(place[1]),
        "f": str(flag),
        "g": str(time.time_ns() // 1_000_000),
        "h": "0",
        "i": properties,
        "j": "0",
        "k": "false",
        "l": "0",
        "m": "false",
        "n": place[0],
    }
    return RemotingCommand.request(RequestCode.SEND_MESSAGE_V2, ext, body)


class WorkloadClient:
    """One client of one topic. Use it as an async context manager."""

    def __init__(
        self,
        name_servers: Sequence[str],
        topic: str,
        group: str,
        *,
        poll_ms: int = POLL_MS,
        timeout_ms: int = CALL_TIMEOUT_MS,
        queues: int = 4,
    ) -> None:
        self._name_servers = list(name_servers)
        self._topic = topic
        self._group = group
        self._poll_ms = poll_ms
        self._timeout_ms = timeout_ms
        self._queues = queues
        self._client = RemotingClient(connect_timeout_ms=timeout_ms)
        self._poller: asyncio.Task[None] | None = None
        self._fresh: asyncio.Task[None] | None = None
        self.route: Route | None = None
        self.routes: dict[str, Route] = {}
        """Of all sets, by name; `route` is the first one."""

    async def __aenter__(self) -> WorkloadClient:
        await self.refresh()
        self._poller = asyncio.create_task(self._poll())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._poller is not None:
            self._poller.cancel()
        await self._client.close()

    # -- route -------------------------------------------------------------------------------------

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._poll_ms / 1000)
            await self.refresh()

    async def refresh(self) -> None:
        """Read the route again; many callers at once share one question. The old route stays when
        none answers.
        """
        if self._fresh is None or self._fresh.done():
            self._fresh = asyncio.create_task(self._read_route())
        await asyncio.shield(self._fresh)

    async def _read_route(self) -> None:
        for topic in (self._topic, DEFAULT_TOPIC):
            for address in self._name_servers:
                try:
                    ask = RemotingCommand.request(
                        RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}
                    )
                    answer = await self._client.call(address, ask, self._timeout_ms)
                except (RemotingError, OSError) as error:
                    log.debug("name server %s: %s", address, error)
                    continue
                if answer.code == 0:
                    found = decode_routes(answer.body)
                    if found:
                        self.route, self.routes = found[0], {one.broker_name: one for one in found}
                    return

    def master(self) -> str:
        """Address to send to; CallFailed when the route names none."""
        address = self.route.master if self.route is not None else None
        if address is None:
            raise CallFailed("the route names no master", "-")
        return address

    # -- calls -------------------------------------------------------------------------------------

    async def call(
        self, address: str, request: RemotingCommand, timeout_ms: int | None = None
    ) -> RemotingCommand:
        """The answer, whatever its code. CallFailed when there is none in time."""
        limit = timeout_ms or self._timeout_ms
        try:
            return await self._client.call(address, request, limit)
        except CallTimeout:
            raise CallFailed(f"no answer within {limit} ms", address) from None
        except (RemotingError, OSError) as error:
            raise CallFailed(f"{type(error).__name__}: {error}", address) from error

    async def send(self, key: str, body: bytes, queue: int) -> Stored:
        """Send one message to the master of the route. CallFailed for anything but code 0."""
        address = self.master()
        properties = encode_properties(
            {"KEYS": key, "WAIT": "true", "UNIQ_KEY": f"REGENT{key}"}
        ).decode()
        name = self.route.broker_name if self.route else ""
        answer = await self.call(
            address,
            send_request(self._group, self._topic, self._queues, (name, queue), properties, body),
        )
        if answer.code != ResponseCode.SUCCESS:
            raise CallFailed(f"code {answer.code} {answer.remark or ''}", address)
        return Stored(
            int(answer.ext["queueId"]), int(answer.ext["queueOffset"]), answer.ext["msgId"], address
        )

    async def pull(
        self,
        queue: int,
        offset: int,
        *,
        suspend_ms: int = PULL_SUSPEND_MS,
        address: str | None = None,
    ) -> Pulled:
        """Up to 32 messages from `offset`; with nothing there the master holds the question for
        `suspend_ms`.
        """
        ext = {
            "consumerGroup": self._group,
            "topic": self._topic,
            "queueId": str(queue),
            "queueOffset": str(offset),
            "maxMsgNums": str(PULL_MESSAGES),
            "sysFlag": str((_SUSPEND if suspend_ms else 0) | _SUBSCRIPTION),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(suspend_ms),
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
        }
        target = address or self.master()
        request = RemotingCommand.request(RequestCode.PULL_MESSAGE, ext)
        answer = await self.call(target, request, suspend_ms + 2 * self._timeout_ms)
        known = (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        )
        if answer.code not in known:
            raise CallFailed(f"code {answer.code} {answer.remark or ''}", target)
        messages = (
            records.decode_messages(answer.body) if answer.code == ResponseCode.SUCCESS else []
        )
        numbers = [int(answer.ext[name]) for name in ("nextBeginOffset", "minOffset", "maxOffset")]
        return Pulled(messages, numbers[0], numbers[1], numbers[2])

    async def offset(self, code: RequestCode, queue: int, address: str | None = None) -> int:
        """GET_MAX_OFFSET or GET_MIN_OFFSET of a queue, from the master or from that address."""
        target = address or self.master()
        answer = await self.call(
            target, RemotingCommand.request(code, {"topic": self._topic, "queueId": str(queue)})
        )
        if answer.code != 0:
            raise CallFailed(f"code {answer.code} {answer.remark or ''}", target)
        return int(answer.ext["offset"])

    async def commit_offset(self, queue: int, offset: int) -> None:
        """Store how far this group is (one-way; a loss only means reading again)."""
        ext = {
            "consumerGroup": self._group,
            "topic": self._topic,
            "queueId": str(queue),
            "commitOffset": str(offset),
        }
        try:
            request = RemotingCommand.request(RequestCode.UPDATE_CONSUMER_OFFSET, ext, oneway=True)
            await self._client.send_oneway(self.master(), request)
        except (CallFailed, RemotingError, OSError) as error:
            log.debug("offset of queue %d not stored: %s", queue, error)

    async def heartbeat(self, client_id: str, *, consumer: bool) -> None:
        """Introduce this client to the master (34). CallFailed when it does not answer."""
        subscription = {
            "classFilterMode": False,
            "codeSet": [],
            "expressionType": "TAG",
            "subString": "*",
            "subVersion": 0,
            "tagsSet": [],
            "topic": self._topic,
        }
        group = {
            "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
            "consumeType": "CONSUME_PASSIVELY",
            "groupName": self._group,
            "messageModel": "CLUSTERING",
            "subscriptionDataSet": [subscription],
            "unitMode": False,
        }
        body = {
            "clientID": client_id,
            "consumerDataSet": [group] if consumer else [],
            "producerDataSet": [] if consumer else [{"groupName": self._group}],
            "heartbeatFingerprint": 0,
            "withoutSub": False,
        }
        await self.call(
            self.master(),
            RemotingCommand.request(RequestCode.HEART_BEAT, body=fastjson.dumps(body)),
        )
