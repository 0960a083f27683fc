"""One running controller on a real Kafka, started from RocketMQ's own properties file: the wire,
byte by byte.

The rules are shown row by row in tests/conformance; here it is frames, connections and time that
count.
"""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers.remoting import fastjson
from brokers.remoting.codec import FrameDecoder, encode
from brokers.remoting.command import RemotingCommand
from events.properties import parse
from infra.kafka.server import LocalKafka
from tests.support.brokers import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.processes]
GOLDEN = Path(__file__).parents[1] / "golden"
START_S = 90.0
ANSWER_S = 3.0
"""Brokers wait so long (RULES 16, broker row 9)."""
PATIENCE_S = 60.0
"""For a machine that does much else; what is told is the time of the answer, where time is the
point.
"""
PATIENT = "watchdog_ms = 90000\n"
UNHURRIED = f"request_deadline_ms = 30000\n{PATIENT}"
"""Where an answer is compared, *unknown* must not be it because the machine stood still for a
moment.
"""
SERVED = (
    904,
    1001,
    1002,
    1003,
    1004,
    1005,
    1006,
    1009,
    1010,
    1011,
    1012,
    1013,
    19002,
    19003,
    19004,
    19005,
    19006,
    19007,
)


class Peer:
    """One connection to the controller."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._decoder = FrameDecoder()
        self._opaque = 0
        self.unexpected: list[RemotingCommand] = []

    def send(self, command: RemotingCommand) -> int:
        self._opaque += 1
        command.opaque = self._opaque
        self._socket.sendall(encode(command))
        return self._opaque

    def ask(
        self, code: int, ext: dict[str, str] | None = None, body: bytes = b"", kind: int = 0
    ) -> RemotingCommand:
        command = RemotingCommand.request(code, ext or {}, body)
        command.serialization = kind
        return self.answer_to(self.send(command))

    def tell(self, code: int, ext: dict[str, str], body: bytes = b"") -> None:
        self.send(RemotingCommand.request(code, ext, body, oneway=True))

    def answer_to(self, opaque: int) -> RemotingCommand:
        self._socket.settimeout(PATIENCE_S)
        while True:
            for position, found in enumerate(self.unexpected):
                if found.opaque == opaque:
                    return self.unexpected.pop(position)
            data = self._socket.recv(65_536)
            assert data, "the controller closed the connection"
            self.unexpected += self._decoder.feed(data)

    def close(self) -> None:
        self._socket.close()


class Controller:
    """The process, and connections to it that end with the test. `more`: further lines of its
    file.
    """

    def __init__(self, folder: Path, kafka: LocalKafka, more: str = UNHURRIED) -> None:
        self.address, self.kafka = f"127.0.0.1:{free_port()}", kafka
        config = folder / "controller.properties"
        config.write_text(
            "# as for the Java controller\ncontrollerDLegerGroup = group1\ncontrollerDLegerPeers "
            f"= n0-{self.address}\n"
            "controllerDLegerSelfId = n0\ncontrollerStorePath = "
            f"{folder / 'store'}\nmappedFileSize = 4194304\n"
            "notifyBrokerRoleChanged = true\nkafka.bootstrap.servers = "
            f"{kafka.bootstrap}\nlocal_cluster = true\n{more}"
        )
        self.log = folder / "controller.log"
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "infra", "controller", "-c", str(config)],
                stdout=output,
                stderr=output,
                cwd=Path(__file__).parents[2],
            )
        self._peers: list[Peer] = []

    def peer(self) -> Peer:
        made = Peer(self.address)
        self._peers.append(made)
        return made

    def status(self) -> dict[str, Any]:
        try:
            peer = Peer(self.address)
        except OSError:
            return {}
        try:
            return dict(json.loads(peer.ask(19002).body))
        finally:
            peer.close()

    def hang_up(self) -> None:
        while self._peers:
            self._peers.pop().close()

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(START_S)


def until(condition: Callable[[], bool], what: str, limit_s: float = START_S) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def running(
    tmp_path_factory: pytest.TempPathFactory, own_kafka: LocalKafka
) -> Iterator[Controller]:
    controller = Controller(tmp_path_factory.mktemp("controller"), own_kafka)
    try:
        until(lambda: bool(controller.status().get("ready")), "the controller leads")
        yield controller
    finally:
        controller.end()


@pytest.fixture
def controller(running: Controller) -> Iterator[Controller]:
    yield running
    running.hang_up()


def names(broker_set: str) -> dict[str, str]:
    return {"clusterName": "C", "brokerName": broker_set}


def join(peer: Peer, broker_set: str, broker: int, port: int) -> None:
    """A Java broker's way in: 1012, 1013, 1003, 904, 1002 (RULES 10.1)."""
    me, address = names(broker_set), f"127.0.0.1:{port}"
    offered = peer.ask(1012, me)
    assert offered.ext["nextBrokerId"] == str(broker)
    assert (
        peer.ask(
            1013, me | {"appliedBrokerId": str(broker), "registerCheckCode": f"{address};1"}
        ).code
        == 0
    )
    assert peer.ask(1003, me | {"brokerId": str(broker), "brokerAddress": address}).code == 0
    peer.tell(
        904,
        me
        | {
            "brokerId": str(broker),
            "brokerAddr": address,
            "epoch": "-1",
            "maxOffset": "0",
            "heartbeatTimeoutMills": "1000000",
        },
    )
    assert peer.ask(1002, me | {"brokerId": str(broker)}).code in (0, 2011)


def golden(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


def frame(line: dict[str, Any]) -> RemotingCommand:
    (command,) = FrameDecoder().feed(bytes.fromhex(line["raw_hex"]))
    return command


def theirs_only(ext: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in ext.items() if not name.startswith("regent")}


def test_the_properties_file_is_what_counts(controller: Controller) -> None:
    shown = parse(controller.peer().ask(1010).body)
    assert list(shown) == sorted(shown) and shown["controllerDLegerGroup"] == "group1"
    assert (
        shown["controllerDLegerPeers"] == f"n0-{controller.address}"
        and shown["mappedFileSize"] == "4194304"
    )
    assert "mappedFileSize has no meaning here" in controller.log.read_text()
    metadata = controller.peer().ask(1005)
    assert metadata.ext == {
        "group": "group1",
        "controllerLeaderId": "n0",
        "controllerLeaderAddress": controller.address,
        "isLeader": "true",
        "peers": f"n0:{controller.address};",
    }


def test_a_recorded_life_of_java_brokers_gets_the_recorded_answers(controller: Controller) -> None:
    """As tests/unit/processors/wire/test_answers.py against the core alone; then mqadmin's
    conversation about that set.
    """
    peers: dict[int, Peer] = {}
    waiting: dict[tuple[int, int], tuple[RemotingCommand, RemotingCommand]] = {}
    compared: dict[int, int] = {}
    for line in golden("controller/broker-life.jsonl"):
        command, conn = frame(line), line["conn"]
        recorded_opaque = command.opaque
        peer = peers.setdefault(conn, controller.peer())
        if not command.is_response:
            # Repeats of the same shape were dropped from the recording: beat in between.
            for broker in range(3):
                address = f"127.0.0.1:{25911 + 10 * broker}"
                peers.setdefault(-1 - broker, controller.peer()).tell(
                    904,
                    {
                        "clusterName": "DefaultCluster",
                        "brokerName": "g",
                        "brokerId": str(broker + 1),
                        "brokerAddr": address,
                        "epoch": "-1",
                        "maxOffset": "0",
                        "heartbeatTimeoutMills": "1000000",
                    },
                )
                assert peers[-1 - broker].ask(1005).code == 0  # so the heartbeat before it is taken
            command.ext = {
                name: value.replace("127.0.0.1:209", "127.0.0.1:259")
                for name, value in command.ext.items()
            }
            opaque = peer.send(command)
            if not command.is_oneway:
                waiting[conn, recorded_opaque] = (command, peer.answer_to(opaque))
        elif (conn, recorded_opaque) in waiting:
            request, ours = waiting.pop((conn, recorded_opaque))
            if request.code == 1005:
                continue
            assert ours.code == command.code, line
            assert theirs_only(ours.ext) == command.ext, line
            wanted = fastjson.loads(command.body) if command.body else None
            found = fastjson.loads(ours.body) if ours.body else None
            if isinstance(found, dict) and "brokerMemberGroup" in found:
                found = {
                    key: value
                    for key, value in found.items()
                    if key not in ("brokerAddrs", "brokerName", "cluster")
                }
            assert found == wanted, line
            compared[request.code] = compared.get(request.code, 0) + 1
    assert set(compared) >= {1001, 1002, 1003, 1004, 1012, 1013}
    assert not any(peer.unexpected for peer in peers.values())
    replay_mqadmin(controller.peer())


def replay_mqadmin(peer: Peer) -> None:
    """The tool's requests, each with the shape of the recorded answer."""
    asked: dict[tuple[int, int], tuple[int, RemotingCommand]] = {}
    for line in golden("wire/mqadmin-controller.jsonl"):
        command = frame(line)
        key = (line["conn"], command.opaque)
        if not command.is_response:
            asked[key] = command.code, peer.answer_to(peer.send(command))
            continue
        code, ours = asked.pop(key)
        assert ours.code == command.code, line
        assert theirs_only(ours.ext).keys() == command.ext.keys(), line
        if code == 1010:
            recorded, shown = parse(command.body), parse(ours.body)
            mine = {
                "controllerDLegerGroup",
                "controllerDLegerPeers",
                "controllerDLegerSelfId",
                "enableElectUncleanMaster",
                "isProcessReadEvent",
                "listenPort",
                "scanInactiveMasterInterval",
                "scanNotActiveBrokerInterval",
            }
            assert mine <= shown.keys() & recorded.keys()
        elif command.body:
            wanted, found = fastjson.loads(command.body), fastjson.loads(ours.body)
            assert (
                isinstance(wanted, dict)
                and isinstance(found, dict)
                and wanted.keys() <= found.keys()
            ), line


def test_a_code_nobody_knows_is_answered_in_the_recorded_words(controller: Controller) -> None:
    recorded = [
        frame(line) for line in golden("wire/follower-controller.jsonl") if line["code"] == 3
    ]
    ours = controller.peer().ask(9_999)
    assert [(one.code, one.remark) for one in recorded] == [(ours.code, ours.remark)]


def test_both_header_serialisations_and_unknown_fields_are_read(controller: Controller) -> None:
    peer = controller.peer()
    for kind, broker_set in ((0, "json"), (1, "binary")):
        strange = names(broker_set) | {
            "AccessKey": "k",
            "Signature": "s",
            "SecurityToken": "t",
            "ünknown": "x",
        }
        assert peer.ask(1012, strange, kind=kind).ext["nextBrokerId"] == "1"
        applied = peer.ask(
            1013, strange | {"appliedBrokerId": "1", "registerCheckCode": "h:1;1"}, kind=kind
        )
        assert (applied.code, applied.serialization) == (0, 0)
        assert peer.ask(1004, {"brokerName": broker_set}, kind=kind).ext["masterEpoch"] == "0"


def test_a_one_way_request_is_never_answered(controller: Controller) -> None:
    peer = controller.peer()
    fields = names("oneway") | {
        "brokerId": "1",
        "brokerAddr": "127.0.0.1:1",
        "brokerAddress": "127.0.0.1:1",
        "appliedBrokerId": "1",
        "registerCheckCode": "h:1;1",
        "masterBrokerId": "1",
        "masterEpoch": "1",
    }
    for code in (*SERVED, 9_999):
        peer.tell(code, fields, b'["oneway"]')
        peer.tell(code, {}, b"\xff")
    # Whatever came of them has been decided before this is.
    assert peer.ask(1004, {"brokerName": "oneway"}).code in (0, 2008)  # 1011 was among them
    assert peer.unexpected == []


def test_garbage_is_answered_and_the_process_goes_on(controller: Controller) -> None:
    peer, chance = controller.peer(), random.Random(7)
    fields = (
        "clusterName",
        "brokerName",
        "brokerId",
        "masterBrokerId",
        "masterEpoch",
        "appliedBrokerId",
        "registerCheckCode",
        "brokerAddress",
        "regentCommandId",
        "brokerControllerIdsToClean",
        "level",
        "heartbeatTimeoutMills",
        "controllerId",
    )
    values = ("", "x", "-1", "9" * 40, "1.5", "null", "true", "ü" * 300, "1;2;x", "\x00", "١")
    bodies = (
        b"",
        b"{",
        b"[]",
        b"{}",
        b"[1]",
        b"\xff\xfe",
        b'{"syncStateSet":[1e9]}',
        b"{1:2}",
        b'{"settings":7}',
        b"[" * 5_000,
        b"a=\\u00",
    )
    pending = []
    for _ in range(400):
        ext = {name: chance.choice(values) for name in fields if chance.random() < 0.6}
        command = RemotingCommand.request(chance.choice(SERVED), ext, chance.choice(bodies))
        command.serialization = chance.randrange(2)
        pending.append(peer.send(command))
    for opaque in pending:
        answer = peer.answer_to(opaque)
        assert answer.code == 0 or answer.remark, answer
    until(lambda: bool(controller.status().get("ready")), "it leads as before")


def test_many_at_once_are_each_answered_once(controller: Controller) -> None:
    peer = controller.peer()
    asked = {
        peer.send(RemotingCommand.request(1012, names(f"many-{number}"))): number
        for number in range(500)
    }
    for opaque, number in asked.items():
        answer = peer.answer_to(opaque)
        assert (answer.code, answer.ext["brokerName"]) == (0, f"many-{number}")
    assert peer.unexpected == []


def test_a_new_master_is_told_by_1008_on_the_brokers_own_address(controller: Controller) -> None:
    """One-way, JSON header, with a body, after the old one's port refuses."""
    listening = socket.create_server(("127.0.0.1", 0))
    dead = free_port()
    first, second = controller.peer(), controller.peer()
    join(first, "notified", 1, dead)
    join(second, "notified", 2, listening.getsockname()[1])
    base = {"brokerName": "notified", "masterBrokerId": "1", "masterEpoch": "1", "invokeTime": "1"}
    altered = first.ask(1001, base, b'{"syncStateSet":[1,2],"syncStateSetEpoch":1}')
    assert (altered.code, altered.ext["newSyncStateSetEpoch"]) == (0, "2")
    first.close()
    decoder, notices = FrameDecoder(), []
    listening.settimeout(PATIENCE_S)
    while not any(notice.ext["masterBrokerId"] == "2" for notice in notices):
        link, _ = listening.accept()  # The probe connects too, and says nothing.
        link.settimeout(PATIENCE_S)
        with link:
            while data := link.recv(65_536):
                notices += decoder.feed(data)
                if any(notice.ext["masterBrokerId"] == "2" for notice in notices):
                    break
    listening.close()
    notice = next(notice for notice in notices if notice.ext["masterBrokerId"] == "2")
    assert notice.code == 1008 and notice.is_oneway and notice.serialization == 0
    assert theirs_only(notice.ext).keys() == {
        "masterAddress",
        "masterBrokerId",
        "masterEpoch",
        "syncStateSetEpoch",
    }
    assert json.loads(notice.body) == {"syncStateSet": [2], "syncStateSetEpoch": 3}, (
        "a Java broker's set falls back to the master"
    )


def test_a_stranger_deposes_nobody_with_five_seconds_of_packets_in_the_masters_name(
    controller: Controller,
) -> None:
    """The master is one of ours: it tells the check code of its id. The stranger has another start
    of it, or its very incarnation.
    """
    master, stranger, me = controller.peer(), controller.peer(), names("watched")
    known = {
        "brokerId": "1",
        "brokerAddr": "127.0.0.1:9",
        "epoch": "0",
        "maxOffset": "0",
        "regentIncarnation": "its own",
        "heartbeatTimeoutMills": "3000",
    }
    code = {"regentCheckCode": "127.0.0.1:9;1;secret"}
    assert (
        master.ask(
            1013, me | {"appliedBrokerId": "1", "registerCheckCode": code["regentCheckCode"]}
        ).code
        == 0
    )
    register = {
        "brokerId": "1",
        "brokerAddress": "127.0.0.1:9",
        "regentIncarnation": "its own",
        "regentClean": "true",
    }
    assert master.ask(1003, me | register | code).code == 0
    master.tell(904, me | known | code)
    assert master.ask(1002, me | {"brokerId": "1"} | code).ext["masterEpoch"] == "1"
    ended = time.monotonic() + 5.0
    while time.monotonic() < ended:
        master.tell(904, me | known | code)
        for incarnation, timeout_ms in (("another", "3000"), ("another", "-1"), ("its own", "-1")):
            stranger.tell(
                904,
                me
                | known
                | {"regentIncarnation": incarnation, "heartbeatTimeoutMills": timeout_ms},
            )
        for told in ({}, {"regentCheckCode": "127.0.0.1:9;1;guess"}):
            for clean in ("true", "false"):
                refused = stranger.ask(
                    1003,
                    me | register | told | {"regentIncarnation": "another", "regentClean": clean},
                )
                assert refused.code == 1 and "check code" in str(refused.remark)
            altered = {"brokerName": "watched", "masterBrokerId": "1", "masterEpoch": "1"} | told
            assert (
                stranger.ask(1001, altered, b'{"syncStateSet":[],"syncStateSetEpoch":1}').code == 1
            )
        time.sleep(0.1)
    stranger.close()
    stands = master.ask(1004, {"brokerName": "watched"})
    assert (
        stands.ext["masterBrokerId"],
        stands.ext["masterEpoch"],
        stands.ext["regentSyncStateSet"],
    ) == ("1", "1", "1")
    assert 0 < controller.log.read_text().count("no check code") <= 30, (
        "told, and not a line for each"
    )


def test_a_late_close_of_an_old_connection_evicts_nobody(controller: Controller) -> None:
    old, new = controller.peer(), controller.peer()
    port = free_port()
    join(old, "late", 1, port)
    beat = names("late") | {
        "brokerId": "1",
        "brokerAddr": f"127.0.0.1:{port}",
        "heartbeatTimeoutMills": "1000000",
    }
    new.tell(904, beat)
    assert new.ask(1005).code == 0
    old.close()

    def alive() -> bool:
        table = json.loads(new.ask(1006, body=b'["late"]').body)["replicasInfoTable"]["late"]
        return bool(table["inSyncReplicas"][0]["alive"]) and table["masterBrokerId"] == 1

    for _ in range(20):
        assert alive()


def test_operators_requests_go_over_the_wire(controller: Controller) -> None:
    peer = controller.peer()
    document = json.loads(peer.ask(19003).body)
    assert (
        document["leader"] == "n0"
        and document["settings"]["effective"]["notifyBrokerRoleChanged"] == "true"
    )
    assert peer.ask(1009, body=b"electMasterMaxRetryCount=5\n").code == 0
    assert parse(peer.ask(1010).body)["electMasterMaxRetryCount"] == "5"
    assert (
        peer.ask(1009, body=b"listenPort=1\n").code == 1
        and peer.ask(1009, body=(b"configStorePath=/x\n")).code == 16
    )
    assert peer.ask(19007, {"level": "DEBUG", "logger": "regent.controller"}).code == 0
    assert peer.ask(19007, {"level": "DEBUG", "logger": "regent.nothing"}).code == 1
    alone = peer.ask(19008)
    assert alone.code == 1 and "no other controller" in (alone.remark or "")


@pytest.fixture
def hurried(running: Controller, tmp_path: Path) -> Iterator[Controller]:
    """Another one in its place, with the deadline that a controller has unless told."""
    running.hang_up()
    running.end()
    controller = Controller(tmp_path, running.kafka, more=PATIENT)
    try:
        until(lambda: bool(controller.status().get("ready")), "the controller leads")
        yield controller
    finally:
        controller.hang_up()
        controller.end()


def test_without_the_log_every_answer_comes_in_time_and_says_that_it_proves_nothing(
    hurried: Controller,
) -> None:
    peer = hurried.peer()
    hurried.kafka.signal_node(1, signal.SIGSTOP)
    try:
        # A machine that does much else may be late now and then, and is not late each time.
        assert any(unanswered(peer) < ANSWER_S for _ in range(5))
    finally:
        hurried.kafka.signal_node(1, signal.SIGCONT)
    until(lambda: peer.ask(1012, names("paused")).code == 0, "the log is back")


def unanswered(peer: Peer) -> float:
    """How long requests wait that only the log can answer; none of them gets more than a remark."""
    began = time.monotonic()
    asked = [
        peer.send(
            RemotingCommand.request(
                code, names("paused") | {"appliedBrokerId": "1", "registerCheckCode": "h:1;1"}, body
            )
        )
        for code, body in ((1012, b""), (1013, b""), (1004, b""), (1006, b'["g"]'), (19003, b""))
    ]
    answers = [peer.answer_to(opaque) for opaque in asked]
    took_s = time.monotonic() - began
    assert {answer.code for answer in answers} == {1} and all(answer.remark for answer in answers)
    return took_s
