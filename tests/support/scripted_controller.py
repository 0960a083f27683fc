"""A controller of a few lines for tests of brokers: it says what the test wants, over a real
socket.

It is a peer, not a model: it checks no rule. Tests that want the real rules start real controllers.
"""

from __future__ import annotations

import asyncio

from brokers.remoting import fastjson
from brokers.remoting.calls import RemotingError
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from brokers.remoting.server import RemotingServer


class ScriptedController:
    """Hands out ids, makes the first who asks master, accepts every proposal; `heard` keeps all
    requests.
    """

    def __init__(self) -> None:
        self.server = RemotingServer(self._handle)
        self.client = RemotingClient()
        self.addresses: dict[int, tuple[str, str]] = {}
        self.codes: dict[int, str] = {}
        self.tokens: dict[int, str] = {}
        self.repeats_tokens = True  # False: as a Java controller, or one of an earlier release
        self.master: int | None = None
        self.epoch = 0
        self.members: list[int] = []
        self.set_epoch = 0
        self.heard: list[RemotingCommand] = []
        self.silent_codes: set[int] = set()
        self.refuse: dict[int, int] = {}
        self._telling: asyncio.Future[None] | None = None
        # False: as a Java controller, or a master that is a Java broker
        self.knows_ha_addresses = True

    async def start(self) -> str:
        await self.server.start()
        return self.address

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    async def close(self) -> None:
        await self.client.close()
        await self.server.close()

    def heard_codes(self) -> list[int]:
        return [request.code for request in self.heard if request.code not in (904, 1005)]

    async def elect(self, broker_id: int, members: list[int]) -> None:
        """Make a broker master and tell everyone, as 1008 does."""
        self._lead(broker_id, members)
        await self._tell()

    def _lead(self, broker_id: int, members: list[int]) -> None:
        self.epoch, self.set_epoch = self.epoch + 1, self.set_epoch + 1
        self.master, self.members = broker_id, members

    async def _tell(self) -> None:
        ext, body = self._facts() | self._master(), self._body()
        for broker_id, (address, _) in self.addresses.items():
            token = (
                {"regentNoticeToken": self.tokens[broker_id]}
                if self.repeats_tokens and broker_id in self.tokens
                else {}
            )
            try:
                await self.client.send_oneway(
                    address, RemotingCommand.request(1008, ext | token, body, oneway=True)
                )
            except RemotingError:
                continue

    def _facts(self) -> dict[str, str]:
        return {
            "regentTerm": "1",
            "regentMasterEpoch": str(self.epoch),
            "regentSyncStateSetEpoch": str(self.set_epoch),
            "regentSyncStateSet": ",".join(map(str, self.members)),
            "regentReplicas": ";".join(
                f"{key}={address}" for key, (address, _) in self.addresses.items()
            ),
        }

    def _master(self) -> dict[str, str]:
        fields = {"masterEpoch": str(self.epoch), "syncStateSetEpoch": str(self.set_epoch)}
        if self.master is not None and self.master in self.addresses:
            address, ha_address = self.addresses[self.master]
            fields |= {"masterBrokerId": str(self.master), "masterAddress": address}
            if self.knows_ha_addresses:
                fields["regentMasterHaAddress"] = ha_address
        return fields

    def _body(self) -> bytes:
        return fastjson.dumps({"syncStateSet": self.members, "syncStateSetEpoch": self.set_epoch})

    def _handle(self, _connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        self.heard.append(request)
        ext = request.ext
        if request.code in self.silent_codes:
            return None
        if request.code in self.refuse:
            return request.reply(self.refuse[request.code])
        match request.code:
            case 1005:
                return request.reply(
                    ext={"controllerLeaderAddress": self.address, "isLeader": "true"}
                )
            case 1012:
                return request.reply(ext={"nextBrokerId": str(len(self.codes) + 1)})
            case 1013:
                known = self.codes.setdefault(int(ext["appliedBrokerId"]), ext["registerCheckCode"])
                return request.reply(0 if known == ext["registerCheckCode"] else 2014)
            case 1003:
                self.addresses[int(ext["brokerId"])] = (
                    ext["brokerAddress"],
                    ext["regentHaAddress"],
                )
                self.tokens[int(ext["brokerId"])] = ext.get("regentNoticeToken", "")
                master = self._master() if self.master not in (None, int(ext["brokerId"])) else {}
                return request.reply(ext=self._facts() | master, body=self._body())
            case 1002 if ext["designateElect"] == "true":
                self._lead(int(ext["brokerId"]), self.members)
                self._telling = asyncio.ensure_future(self._tell())
                return request.reply(ext=self._facts() | self._master(), body=self._body())
            case 1002:
                if self.master is None or self.master == int(ext["brokerId"]):
                    self.master, self.members = int(ext["brokerId"]), [int(ext["brokerId"])]
                    self.epoch, self.set_epoch = self.epoch + 1, self.set_epoch + 1
                return request.reply(ext=self._facts() | self._master(), body=self._body())
            case 1004:
                return request.reply(ext=self._facts() | self._master(), body=self._body())
            case 1001:
                wanted = fastjson.loads(request.body)
                assert isinstance(wanted, dict)
                if wanted["syncStateSetEpoch"] != self.set_epoch:
                    return request.reply(2001, ext=self._facts())
                self.members, self.set_epoch = wanted["syncStateSet"], self.set_epoch + 1
                return request.reply(ext=self._facts(), body=self._body())
            case _:
                return request.reply() if request.code != 904 else None
