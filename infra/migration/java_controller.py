"""Ask a RocketMQ controller, its name server and its brokers what a plan needs to know, and drive
such a controller.

Responsible for: finding the leader and its peers (1005), reading sets (1006, 1004, 1012), names of
sets (106) and brokers (1007, 907), and one connection that a sequence of requests goes over.
Refuses to know: what is planned.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

from brokers.remoting import codec, fastjson
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from infra.controllers.admin import ControllerAdmin
from infra.controllers.calls import READ_BYTES, NoAnswer, Refused, call
from infra.migration import import_plan, plan
from infra.migration.export_requests import Ask
from infra.migration.import_plan import HaFacts
from infra.migration.plan import BrokerFacts, ControllerFacts, JavaSet, OddAnswer
from infra.problems import EXIT_USAGE, Problem
from infra.processes.ports import split_address

ASKERS = 8
NAMES_PER_QUESTION = 200


def require_address(flag: str, text: str) -> str:
    """`text` when it is an address; Problem otherwise."""
    try:
        split_address(text)
    except ValueError as error:
        raise Problem(f"{flag}: {error}", "Write HOST:PORT.", EXIT_USAGE) from None
    return text


class JavaControllers:
    """The group of controllers that one address belongs to."""

    def __init__(self, address: str, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        asked = self._facts(address)
        if asked is None:
            raise Problem(
                f"{address} does not answer as a controller does",
                "Is one running there, and is the address right?",
            )
        self.asked = asked
        peers = [one for one in self.asked.peers if one != address]
        self.others = [one for one in _at_once(self._facts, peers) if one is not None]
        self.addresses = list(dict.fromkeys([address, *self.asked.peers]))
        self._admin = ControllerAdmin([self.asked.leader or address], timeout_ms)

    @property
    def leader(self) -> str:
        """The leader's address, the asked one while nobody leads."""
        return self._admin.addresses[0]

    def _facts(self, address: str) -> ControllerFacts | None:
        try:
            answer = call(
                address,
                RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO),
                self._timeout_ms,
            )
        except NoAnswer:
            return None
        return (
            plan.controller_facts(address, answer.ext)
            if answer.code == ResponseCode.SUCCESS
            else None
        )

    def sets(self, clusters: Mapping[str, str]) -> dict[str, JavaSet | None]:
        """Each set by name, None for what that controller does not know. `clusters`: name ->
        cluster, '' is fine.
        """
        found: dict[str, JavaSet | None] = {}
        names = list(clusters)
        for first in range(0, len(names), NAMES_PER_QUESTION):
            listed = self._admin.sync_state_data(names[first : first + NAMES_PER_QUESTION])
            for name in names[first : first + NAMES_PER_QUESTION]:
                found[name] = (
                    self._set(name, clusters[name], listed[name]) if name in listed else None
                )
        return found

    def _set(self, name: str, cluster: str, listed: Mapping[str, Any]) -> JavaSet:
        raw = self._admin.ask_leader(
            RequestCode.CONTROLLER_GET_REPLICA_INFO, {"brokerName": name}, what=f"set {name}"
        )
        try:
            return plan.java_set(
                name, listed, fastjson.loads(raw.body), self._admin.next_broker_id(cluster, name)
            )
        except OddAnswer as error:
            raise Problem(str(error), "Is it a RocketMQ controller of 5.1.1 or newer?") from None

    def config(self) -> dict[str, str]:
        """1010 of the leader."""
        return self._admin.config(self.leader)


class JavaLink:
    """One connection to a controller's leader; what it heartbeats for counts as alive until it
    closes (RULES 8).
    """

    def __init__(self, address: str, timeout_ms: int) -> None:
        self._address = address
        self._timeout_ms = timeout_ms
        self._opaque = 0
        self._decoder = codec.FrameDecoder()

    def __enter__(self) -> Self:
        try:
            self._socket = socket.create_connection(
                split_address(self._address), self._timeout_ms / 1000
            )
        except OSError as error:
            raise Problem(
                f"controller {self._address}: {error.strerror or error}", "Is it running?"
            ) from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, ask: Ask) -> None:
        """Perform one request. Refused when it is answered with another code than it must be."""
        self._opaque += 1
        request = RemotingCommand.request(
            ask.code, dict(ask.fields), b"" if ask.body is None else fastjson.dumps(ask.body)
        )
        request.opaque = self._opaque
        answer = self._call(request)
        if answer.code != ask.answers:
            raise Refused(f"{ask.fields.get('brokerName')}: {ask.meaning}", answer, self._address)

    def _call(self, request: RemotingCommand) -> RemotingCommand:
        deadline = time.monotonic() + self._timeout_ms / 1000
        try:
            self._socket.sendall(codec.encode(request))
            while (left := deadline - time.monotonic()) > 0:
                self._socket.settimeout(left)
                data = self._socket.recv(READ_BYTES)
                if not data:
                    raise self._lost("closed the connection")
                for answer in self._decoder.feed(data):
                    if answer.is_response and answer.opaque == request.opaque:
                        return answer
        except (OSError, codec.FrameError) as error:
            raise self._lost(str(error)) from None
        raise self._lost("no answer in time")

    def _lost(self, text: str) -> Problem:
        return Problem(
            f"controller {self._address}: {text}",
            "When it is back, run again; with --replace if it says so.",
        )


def set_names(name_server: str, timeout_ms: int) -> dict[str, str]:
    """Set name -> cluster, of every broker that a name server knows (106). A Java controller cannot
    list its sets.
    """
    try:
        answer = call(
            name_server, RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO), timeout_ms
        )
        table = fastjson.loads(answer.body, fastjson.TABLE_BYTES_MAX).get("brokerAddrTable", {})  # type: ignore[attr-defined]
        return {str(name): str(one.get("cluster", "")) for name, one in table.items()}
    except (NoAnswer, ValueError, AttributeError) as error:
        raise Problem(
            f"name server {name_server}: {error}", "Is it running? Or name the sets with --sets."
        ) from None


def brokers_at(addresses: Iterable[str], timeout_ms: int) -> dict[str, BrokerFacts | None]:
    """1007 of each; None for one that does not answer, or is not in controller mode."""
    wanted = list(dict.fromkeys(addresses))

    def one(address: str) -> BrokerFacts | None:
        body = _body(address, RequestCode.GET_BROKER_EPOCH_CACHE, timeout_ms)
        try:
            return None if body is None else plan.broker_facts(address, body)
        except OddAnswer:
            return None

    return dict(zip(wanted, _at_once(one, wanted), strict=True))


def ha_links(addresses: Iterable[str], timeout_ms: int) -> dict[str, HaFacts | None]:
    """907 of each, one after the other: the first one's end is asked for before the others'."""
    return {
        one: import_plan.ha_facts(one, _body(one, RequestCode.GET_BROKER_HA_STATUS, timeout_ms))
        for one in addresses
    }


def _body(address: str, code: int, timeout_ms: int) -> object | None:
    try:
        answer = call(address, RemotingCommand.request(code), timeout_ms)
        return (
            fastjson.loads(answer.body, fastjson.TABLE_BYTES_MAX)
            if answer.code == ResponseCode.SUCCESS
            else None
        )
    except (NoAnswer, ValueError):
        return None


def _at_once(ask: Any, addresses: Sequence[str]) -> list[Any]:
    if not addresses:
        return []
    with ThreadPoolExecutor(ASKERS) as askers:
        return list(askers.map(ask, addresses))


def is_silent(address: str, timeout_ms: int) -> bool:
    """Nobody answers there."""
    try:
        call(address, RemotingCommand.request(RequestCode.CONTROLLER_GET_METADATA_INFO), timeout_ms)
    except NoAnswer:
        return True
    return False
