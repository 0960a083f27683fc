"""Brokers of slave-acting-master sets that follow a script, the same at two name servers.

Responsible for: what such a broker says to a name server over a connection of its own, the notices
that it gets (905), and what a name server answers to everybody, with names instead of addresses so
that two of them can be compared.
Refuses to know: what is right.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from brokers.remoting import fastjson
from brokers.remoting.client import RemotingClient
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer

CALL_MS = 10_000
CLUSTER = "C"
JAVA_533 = 479
"""The version of RocketMQ 5.3.3, by which a name server chooses its dialect."""
TOPICS: Mapping[str, int] = {"T": 6, "Seven": 7, "WriteOnly": 2}
"""Topic to permission."""


@dataclass(slots=True)
class ScriptedBroker:
    """`name` is its set's and its own, such as `a1`; nobody else has its address."""

    name: str
    name_server: str
    notices: list[dict[str, str]] = field(default_factory=list)
    _server: RemotingServer | None = None
    _client: RemotingClient | None = None

    async def start(self) -> ScriptedBroker:
        self._server = RemotingServer(self._noticed)
        await self._server.start()
        return self

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"127.0.0.1:{self._server.port}"

    def _noticed(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        if request.code == RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE:
            self.notices.append(dict(request.ext))
        return request.reply()

    async def call(
        self, code: int, fields: Mapping[str, str], body: bytes = b""
    ) -> RemotingCommand:
        if self._client is None:
            self._client = RemotingClient()
        request = RemotingCommand.request(code, dict(fields), body)
        request.version, request.language = JAVA_533, "JAVA"
        return await self._client.call(self.name_server, request, CALL_MS)

    async def cut(self) -> None:
        """Its connection closes; the next call opens another one."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def end(self) -> None:
        await self.cut()
        if self._server is not None:
            await self._server.close()


@dataclass(slots=True)
class Side:
    """One name server and its scripted brokers."""

    name_server: str
    brokers: dict[str, ScriptedBroker] = field(default_factory=dict)

    async def broker(self, name: str) -> ScriptedBroker:
        if name not in self.brokers:
            self.brokers[name] = await ScriptedBroker(name, self.name_server).start()
        return self.brokers[name]

    async def end(self) -> None:
        for one in self.brokers.values():
            await one.end()

    # -- what brokers say --------------------------------------------------------------------------

    async def register(
        self,
        name: str,
        broker_id: int,
        *,
        acting: str | None = "true",
        topics: Mapping[str, int] = TOPICS,
        counter: int = 1,
        state_version: int = 0,
        broker_set: str = "",
        filter_servers: Iterable[str] | None = (),
        **more: str,
    ) -> RemotingCommand:
        """103. `acting` None: of a broker that does not know the option."""
        version = {"counter": counter, "stateVersion": state_version, "timestamp": 1_000}
        table = {
            topic: {
                "order": False,
                "perm": perm,
                "readQueueNums": 4,
                "topicFilterType": "SINGLE_TAG",
                "topicName": topic,
                "topicSysFlag": 0,
                "writeQueueNums": 4,
            }
            for topic, perm in topics.items()
        }
        body = {
            "filterServerList": None if filter_servers is None else list(filter_servers),
            "topicConfigSerializeWrapper": {"dataVersion": version, "topicConfigTable": table},
        }
        ext = {"haServerAddr": f"{name}-ha", "compressed": "false", "bodyCrc32": "0"}
        ext |= {} if acting is None else {"enableActingMaster": acting}
        fields = await self._who(name, broker_id, broker_set) | ext | more
        broker = await self.broker(name)
        return await broker.call(
            RequestCode.REGISTER_BROKER, fields, json.dumps(body).encode("ascii")
        )

    async def unregister(self, name: str, broker_id: int, broker_set: str = "") -> RemotingCommand:
        """104."""
        fields = await self._who(name, broker_id, broker_set)
        return await (await self.broker(name)).call(RequestCode.UNREGISTER_BROKER, fields)

    async def beat(self, name: str, broker_id: int, **more: str) -> RemotingCommand:
        """904."""
        fields = await self._who(name, broker_id) | more
        return await (await self.broker(name)).call(RequestCode.BROKER_HEARTBEAT, fields)

    async def ask_version(
        self, name: str, broker_id: int, counter: int = 1, **more: str
    ) -> RemotingCommand:
        """322."""
        fields = await self._who(name, broker_id) | more
        body = fastjson.dumps({"counter": counter, "stateVersion": 0, "timestamp": 1_000})
        return await (await self.broker(name)).call(RequestCode.QUERY_DATA_VERSION, fields, body)

    async def add_topic(self, name: str, topic: str, broker_set: str) -> RemotingCommand:
        """217, as a broker sends it for a topic of its own."""
        row = {"brokerName": broker_set, "perm": 6, "readQueueNums": 2, "writeQueueNums": 2}
        body = fastjson.dumps({"brokerDatas": [], "queueDatas": [row | {"topicSysFlag": 0}]})
        broker = await self.broker(name)
        return await broker.call(RequestCode.REGISTER_TOPIC_IN_NAMESRV, {"topic": topic}, body)

    async def ask(self, code: int, body: bytes = b"", **fields: str) -> RemotingCommand:
        """What a client or an operator asks."""
        return await (await self.broker("client")).call(code, fields, body)

    async def _who(self, name: str, broker_id: int, broker_set: str = "") -> dict[str, str]:
        return {
            "brokerName": broker_set or name.rstrip("0123456789'"),
            "brokerAddr": (await self.broker(name)).address,
            "clusterName": CLUSTER,
            "brokerId": str(broker_id),
        }

    # -- what everybody sees -----------------------------------------------------------------------

    async def seen(self, topics: Iterable[str], sets: Iterable[str]) -> dict[str, Any]:
        """Routes, members and clusters, and the notices so far, with names for addresses."""
        found: dict[str, Any] = {}
        for topic in topics:
            answer = await self.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic)
            found[f"route of {topic}"] = self.told(answer)
        for name in sets:
            answer = await self.ask(
                RequestCode.GET_BROKER_MEMBER_GROUP, clusterName=CLUSTER, brokerName=name
            )
            found[f"members of {name}"] = self.told(answer)
        found["clusters"] = self.told(await self.ask(RequestCode.GET_BROKER_CLUSTER_INFO))
        for name, broker in sorted(self.brokers.items()):
            if broker.notices:
                found[f"notices to {name}"] = [self._named(one) for one in broker.notices]
        return found

    def told(self, answer: RemotingCommand) -> Any:
        """Code, fields and body; of an error the code."""
        if answer.code:
            return answer.code
        body = fastjson.loads(answer.body) if answer.body else None
        return [self._named(dict(answer.ext)), _ordered(self._named(body))]

    def _named(self, value: Any) -> Any:
        text = json.dumps(value)
        for name, broker in self.brokers.items():
            text = text.replace(f'"{broker.address}"', f'"{name}"')
        return json.loads(text)


def _ordered(value: Any) -> Any:
    """Lists in one order: neither name server promises one."""
    if isinstance(value, dict):
        return {key: _ordered(one) for key, one in sorted(value.items())}
    if isinstance(value, list):
        return sorted((_ordered(one) for one in value), key=lambda one: json.dumps(one))
    return value
