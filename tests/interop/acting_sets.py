"""Java sets without a controller, whose slaves act for a master that is away (RIP-32): a fixed
master, two slaves, registered at one name server of either kind.

Responsible for: their configuration, what the name server says of them with roles in place of
addresses, and how long that takes; of sets of either kind, what one broker or name server says.
Refuses to know: what a scenario proves.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from infra.controllers.calls import NoAnswer, call
from infra.problems import Problem
from tests.interop.java_rocketmq import JavaBroker
from tests.interop.stage import Stage

BROKER_SET, CLUSTER = "acting-set", "DefaultCluster"
MASTER, SLAVES = "master", ("slave 1", "slave 2")
TOPIC = "TBW102"
MEMBERS_TOPIC = f"rmq_sys_SYNC_BROKER_MEMBER_{BROKER_SET}"
POLL_S = 0.02
PERM_WRITE = 2
WHOLE_WITHIN_S = 180.0
NOTICED = "min broker id changed, prev .*, new {}$"
"""What a Java broker writes for each 905; the hole is for the smallest id."""
SETTINGS: Mapping[str, str] = {
    "enableControllerMode": "false",
    "allAckInSyncStateSet": "false",
    "enableSlaveActingMaster": "true",
    "enableRemoteEscape": "true",
    "slaveReadEnable": "true",
    "totalReplicas": "3",
    "inSyncReplicas": "1",
    "minInSyncReplicas": "1",
    "timerEnableRetryUntilSuccess": "true",
}
SHOWN = ("enableSlaveActingMaster", "enableRemoteEscape", "slaveReadEnable", "totalReplicas")


def body_of(address: str, code: int, ext: dict[str, str]) -> dict[str, Any] | None:
    """The table that an answer with code 0 has; None without one."""
    try:
        answer = call(address, RemotingCommand.request(code, ext))
    except NoAnswer:
        return None
    found = fastjson.loads(answer.body) if answer.code == 0 and answer.body else None
    return found if isinstance(found, dict) else None


def lacking(master: str) -> list[int]:
    """What each slave lacks, in bytes, by the master's word."""
    body = body_of(master, RequestCode.GET_BROKER_HA_STATUS, {})
    links = (body or {}).get("haConnectionInfo") or []
    return [one["diff"] for one in links if one["slaveAckOffset"] >= 0]


@dataclass(slots=True)
class ActingSet:
    """One set, and the name server that it is registered at. `name` says which."""

    name: str
    name_server: str
    stage: Stage
    brokers: dict[str, JavaBroker] = field(default_factory=dict)

    @property
    def master(self) -> JavaBroker:
        return self.brokers[MASTER]

    # -- what the name server says -----------------------------------------------------------------

    def said(self) -> dict[str, Any]:
        """Routes, members and cluster, each comparable with another set's."""
        group = {"clusterName": CLUSTER, "brokerName": BROKER_SET}
        return {
            f"route of {TOPIC}": self._ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=TOPIC),
            f"route of {MEMBERS_TOPIC}": self._ask(
                RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=MEMBERS_TOPIC
            ),
            "members": self._ask(RequestCode.GET_BROKER_MEMBER_GROUP, **group),
            "cluster": self._ask(RequestCode.GET_BROKER_CLUSTER_INFO),
        }

    def _ask(self, code: int, **fields: str) -> Any:
        try:
            answer = call(self.name_server, RemotingCommand.request(code, fields))
        except NoAnswer as error:
            return str(error)
        if answer.code or not answer.body:
            return answer.code
        text = json.dumps(fastjson.loads(answer.body), sort_keys=True)
        for role, broker in self.brokers.items():
            text = text.replace(broker.address, role)
        return json.loads(text)

    def who_leads(self) -> tuple[str | None, bool]:
        """Who stands in the route as the master, and whether clients may write."""
        route = self._ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=TOPIC)
        if not isinstance(route, dict):
            return None, False
        data, queues = route["brokerDatas"][0], route["queueDatas"][0]
        return data["brokerAddrs"].get("0"), bool(queues["perm"] & PERM_WRITE)

    def is_whole(self) -> bool:
        members = self._ask(
            RequestCode.GET_BROKER_MEMBER_GROUP, clusterName=CLUSTER, brokerName=BROKER_SET
        )
        return (
            isinstance(members, dict)
            and len(members["brokerMemberGroup"]["brokerAddrs"]) == len(self.brokers)
            and self.who_leads() == (MASTER, True)
        )

    def notices(self, min_id: int) -> dict[str, int]:
        """How many times each slave was told that this is the smallest id now."""
        pattern = NOTICED.format(min_id)
        return {role: len(self.brokers[role].log_lines(pattern)) for role in SLAVES}


def start_sets(
    stage: Stage, stack: ExitStack, name_servers: Mapping[str, str], compatible: bool, prefix: str
) -> list[ActingSet]:
    """One set at each of `name_servers` (name to address), equal but for their addresses, whole
    when this returns. `compatible`: they speak to name servers as older brokers do.
    """
    settings = {**SETTINGS, "compatibleWithOldNameSrv": "true" if compatible else "false"}
    shown = {key: settings[key] for key in (*SHOWN, "compatibleWithOldNameSrv")}
    stage.configured(
        "Java 5.3.3 brokers without a controller: "
        + ", ".join(f"{key}={value}" for key, value in shown.items())
    )
    sets = [ActingSet(name, address, stage) for name, address in name_servers.items()]
    for one in sets:
        for broker_id, role in enumerate((MASTER, *SLAVES)):
            own = {
                "brokerId": str(broker_id),
                "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
            }
            label = f"{prefix}-{one.name}-{broker_id}".replace(" ", "-").replace("'", "")
            broker = stage.java.broker(
                label,
                controllers=(),
                name_servers=[one.name_server],
                broker_set=BROKER_SET,
                settings=settings | own,
                start=False,
            )
            stack.callback(broker.end)
            one.brokers[role] = broker
    for role in (MASTER, *SLAVES):
        for one in sets:
            one.brokers[role].start(wait=False)
    for one in sets:
        stage.java.wait_until(one.is_whole, f"the set at {one.name} is whole", WHOLE_WITHIN_S)
    return sets


def seconds_until(
    sets: list[ActingSet],
    begin: Callable[[ActingSet], object],
    condition: Callable[[ActingSet], bool],
    what: str,
    limit_s: float,
) -> dict[str, float]:
    """Seconds from `begin`, done to one set right after the other, until its name server fulfils
    the condition, by the set's name. Problem at the limit.
    """
    took: dict[str, float] = {}

    def watch(one: ActingSet, began: float) -> None:
        while time.monotonic() - began < limit_s:
            if condition(one):
                took[one.name] = time.monotonic() - began
                return
            time.sleep(POLL_S)

    threads = []
    for one in sets:
        # here and not in the thread: a process that a thread started ends with it
        began = time.monotonic()
        begin(one)
        threads.append(threading.Thread(target=watch, args=(one, began)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    for one in sets:
        if one.name not in took:
            raise Problem(
                f"waited in vain for {limit_s:.0f} s until {what} at {one.name}",
                json.dumps(one.said(), sort_keys=True)[:1_500],
            )
    return took
