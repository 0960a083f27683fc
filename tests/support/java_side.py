"""A Java controller (the model of its rules) and brokers over real sockets, for tests of what talks
to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from brokers.remoting.command import RemotingCommand
from brokers.remoting.connection import Connection
from infra.migration.export_requests import Ask
from tests.support import remoting_thread
from tests.support.java_controller_model import JavaControllerModel


@dataclass
class BrokerStub:
    """Answers 1007 and 907 as a broker of a set does."""

    broker_id: int
    is_master: bool
    name: str = "broker-a"
    epoch: int = 4
    end: int = 900
    in_sync_slaves: int = 1
    address: str = ""

    def reply(self, request: RemotingCommand) -> RemotingCommand:
        if request.code == 1007:
            body: dict[str, Any] = {
                "brokerId": 0 if self.is_master else self.broker_id,
                "brokerName": self.name,
                "clusterName": "regent",
                "maxOffset": self.end,
                "epochList": [{"epoch": self.epoch, "startOffset": 0, "endOffset": 2**63 - 1}],
            }
        elif request.code == 907 and self.is_master:
            links = [{"addr": "h:1", "inSync": True}] * self.in_sync_slaves
            body = {
                "master": True,
                "masterCommitLogMaxOffset": self.end,
                "inSyncSlaveNums": self.in_sync_slaves,
                "haConnectionInfo": links,
            }
        elif request.code == 907:
            body = {
                "master": False,
                "haClientRuntimeInfo": {"masterAddr": "h:2", "maxOffset": self.end},
                "haConnectionInfo": [],
            }
        else:
            return request.reply(3)
        return request.reply(body=json.dumps(body).encode())


@dataclass
class JavaSide:
    """`model` is the controller at `address`; `config` is its 1010; `heard` keeps the codes it was
    asked.
    """

    model: JavaControllerModel = field(default_factory=JavaControllerModel)
    config: dict[str, str] = field(default_factory=dict)
    address: str = ""
    heard: list[int] = field(default_factory=list)
    _beating: Connection | None = None

    @contextmanager
    def serving(self, *brokers: BrokerStub) -> Iterator[JavaSide]:
        with ExitStack() as stack:
            self.address = stack.enter_context(remoting_thread.serving(self._reply))
            for broker in brokers:
                broker.address = stack.enter_context(
                    remoting_thread.serving(lambda _, request, one=broker: one.reply(request))
                )
            yield self

    def _reply(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        self.heard.append(request.code)
        if self._beating is not None and self._beating.closed:
            self.model.hang_up()
            self._beating = None
        match request.code:
            case 1005:
                return request.reply(
                    0,
                    {
                        "group": "g",
                        "controllerLeaderAddress": self.address,
                        "isLeader": "true",
                        "peers": f"n0:{self.address};",
                    },
                )
            case 1010:
                return request.reply(
                    body="".join(f"{key}={value}\n" for key, value in self.config.items()).encode()
                    or b"a=b\n"
                )
            case 1012:
                seen = self.model.seen(request.ext["brokerName"])
                return request.reply(
                    0, {"nextBrokerId": str(1 if seen is None else seen.next_broker_id)}
                )
            case 1004:
                return self._replica_info(request)
            case 1006:
                return request.reply(
                    body=json.dumps(
                        {"replicasInfoTable": self._table(json.loads(request.body))}
                    ).encode()
                )
        code = self.model.send(
            Ask(request.code, request.ext, json.loads(request.body) if request.body else None)
        )
        if request.code == 904:
            self._beating = connection
        return request.reply(code)

    def _replica_info(self, request: RemotingCommand) -> RemotingCommand:
        seen = self.model.seen(request.ext["brokerName"])
        if seen is None:
            return request.reply(2008)
        body = {
            "syncStateSet": list(seen.sync_state_set),
            "syncStateSetEpoch": seen.sync_state_set_epoch,
        }
        return request.reply(0, {"masterEpoch": str(seen.master_epoch)}, json.dumps(body).encode())

    def _table(self, names: list[str]) -> dict[str, Any]:
        table = {}
        for name in names:
            if (seen := self.model.seen(name)) is None:
                continue
            rows = {
                one.broker_id: {
                    "brokerName": name,
                    "brokerId": one.broker_id,
                    "brokerAddress": one.address,
                    "alive": one.alive,
                }
                for one in seen.replicas
            }
            table[name] = {
                "inSyncReplicas": [row for i, row in rows.items() if i in seen.sync_state_set],
                "notInSyncReplicas": [
                    row for i, row in rows.items() if i not in seen.sync_state_set
                ],
                "masterEpoch": seen.master_epoch,
                "syncStateSetEpoch": seen.sync_state_set_epoch,
            }
            if seen.master_id is not None:
                table[name]["masterBrokerId"] = seen.master_id
        return table
