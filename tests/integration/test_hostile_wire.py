"""Bytes that no correct peer sends, against real processes: answered or closed in time, within
named memory, nobody dies.
"""

from __future__ import annotations

import json
import random
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from brokers.ha.frames import SlaveAck, SlaveHandshake
from brokers.remoting import codec
from brokers.remoting.codes import RequestCode, ResponseCode
from brokers.remoting.command import RemotingCommand
from infra.kafka.server import LocalKafka
from infra.processes import children
from infra.processes import status as process_status
from infra.processes.ports import pick_block
from tests.support.brokers import send_request
from tests.support.local_cluster import COMMAND, ROOT, wait_until
from tests.support.raw_wire import (
    ANSWER_LIMIT_S,
    CLOSE_LIMIT_S,
    all_at_once,
    ask,
    ask_on,
    connect,
    half_a_frame,
    push,
    raw_frame,
    until_closed,
)

pytestmark = [pytest.mark.kafka, pytest.mark.processes]
# in order after SIGTERM, one process after the other: what a busy machine may need
STOP_LIMIT_S = 60.0
# what one peer, or many at once, may cost a process at its peak
MEMORY_BYTES_MAX = 64 * 1024 * 1024
# the setting of the processes here; their default is 30 s
PARTIAL_FRAME_MS = 1_000
TWO_GIB = 2**31
REMOTING = ("controller", "namesrv", "broker")


@dataclass(slots=True)
class Server:
    """One process of ours under attack."""

    name: str
    address: str
    process: subprocess.Popen[bytes]
    log: Path

    def memory(self, field: str) -> int:
        """VmRSS or VmHWM (its peak) in bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"{self.name} is gone: {self.log.read_text()[-2000:]}")

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Within: the peak of its memory stays below what it had by less than the bound, and it
        lives on, ready.
        """
        assert self.process.poll() is None
        before = self.memory("VmRSS")
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")  # the peak starts anew
        yield
        assert self.process.poll() is None, f"{self.name} died: {self.log.read_text()[-2000:]}"
        wait_until(lambda: bool((self.status() or {}).get("ready")), f"{self.name} serves")
        grown = self.memory("VmHWM") - before
        assert grown < MEMORY_BYTES_MAX, f"{self.name} grew by {grown >> 20} MiB"

    def status(self) -> dict[str, object] | None:
        return process_status.ask_once(self.address, int(ANSWER_LIMIT_S * 1000))


class Cluster:
    """One controller, one name server, one broker that is a set of its own."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder = folder
        self.servers: dict[str, Server] = {}
        first = pick_block(4)
        self.controller, self.namesrv, self.broker, self.ha = (
            f"127.0.0.1:{first + i}" for i in range(4)
        )
        kafka = ["--kafka", f"bootstrap.servers={bootstrap}"]
        self.start("namesrv", self.namesrv)
        self.start(
            "controller",
            self.controller,
            "--controller-id",
            "c",
            "--data-dir",
            str(folder / "c"),
            "--local-cluster",
            *kafka,
        )
        self.start(
            "broker",
            self.broker,
            "--ha-listen",
            self.ha,
            "--no-second-listen",
            "--store-dir",
            str(folder / "b"),
            "--controllers",
            self.controller,
            "--name-servers",
            self.namesrv,
            "--min-in-sync-replicas",
            "1",
            "--commit-log-file-bytes",
            str(1 << 20),
            *kafka,
        )

    def start(self, name: str, address: str, *flags: str) -> None:
        log = self.folder / f"{name}.log"
        limits = ["--partial-frame-timeout-ms", str(PARTIAL_FRAME_MS)]
        process = children.spawn(
            [*COMMAND, name, "--listen", address, *limits, *flags], log, cwd=ROOT
        )
        self.servers[name] = Server(name, address, process, log)

    def wait_ready(self) -> None:
        for server in self.servers.values():
            try:
                wait_until(
                    lambda: bool((server.status() or {}).get("ready")), f"{server.name} is ready"
                )
            except AssertionError as error:
                raise AssertionError(f"{error}: {server.log.read_text()[-2000:]}") from None
        wait_until(self.serves_clients, "a send is acknowledged")

    def serves_clients(self) -> bool:
        """A message is acknowledged and the name server knows where its topic is."""
        stored = ask(self.broker, send_request("Hostile", b"still here"))
        route = ask(
            self.namesrv,
            RemotingCommand.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Hostile"}),
        )
        return stored is not None and stored.code == 0 and route is not None and route.code == 0

    def close(self) -> None:
        for server in self.servers.values():
            children.stop(server.process, 0.0)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, own_kafka: LocalKafka) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("hostile"), own_kafka.bootstrap)
    try:
        made.wait_ready()
        yield made
        codes = {
            server.name: children.stop(server.process, STOP_LIMIT_S)
            for server in made.servers.values()
        }
        assert codes == dict.fromkeys(made.servers, 0), "each still stops in order"
    finally:
        made.close()


@pytest.fixture(params=REMOTING)
def server(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Server]:
    """Each process in turn; afterwards the whole cluster still serves."""
    found = cluster.servers[request.param]
    with found.bounded():
        yield found
    wait_until(cluster.serves_clients, "the cluster serves")


# -- remoting ports --------------------------------------------------------------------------------


def test_random_bytes_end_the_connection(server: Server) -> None:
    def attack(number: int) -> None:
        with connect(server.address) as link:
            push(link, random.Random(number).randbytes(1 << number % 17))
            until_closed(link)

    all_at_once(attack)


def test_frames_that_announce_too_much_end_the_connection_at_once(server: Server) -> None:
    sizes = [TWO_GIB - 1, TWO_GIB, 2**32 - 1, codec.FRAME_BYTES_MAX + 1, 0, 3]

    def attack(number: int) -> None:
        with connect(server.address) as link:
            push(link, struct.pack(">I", sizes[number % len(sizes)]) + bytes(4096))
            until_closed(link)

    all_at_once(attack)


def test_a_large_frame_that_never_ends_is_given_up(server: Server) -> None:
    header = b'{"code":10,"opaque":1}'
    begun = struct.pack(">II", codec.FRAME_BYTES_MAX - 4, len(header)) + header

    def attack(number: int) -> None:
        with connect(server.address) as link:
            push(link, begun + bytes(512 * 1024))
            until_closed(link)

    all_at_once(attack)


def test_half_a_frame_and_silence_is_closed_while_others_are_served(server: Server) -> None:
    with (
        connect(server.address) as silent,
        connect(server.address) as slow,
        connect(server.address) as idle,
    ):
        push(silent, half_a_frame())
        assert server.status() is not None, "others are served meanwhile"
        until_closed(silent)
        deadline = time.monotonic() + CLOSE_LIMIT_S
        slow.settimeout(PARTIAL_FRAME_MS / 1000 / 10)
        for byte in half_a_frame():  # a byte now and then is no progress
            push(slow, bytes([byte]))
            try:
                assert slow.recv(1) == b""
                break
            except TimeoutError:
                assert time.monotonic() < deadline, "a frame that trickles in is never given up"
            except ConnectionError:
                break
        answer = ask_on(idle, RemotingCommand.request(RequestCode.REGENT_PROCESS_STATUS))
        assert answer is not None and answer.code == 0, (
            "a connection that says nothing at all is left alone"
        )


def test_unknown_codes_are_answered_with_3_on_the_same_connection(server: Server) -> None:
    with connect(server.address) as link:
        for code in (4_711, 0, 32_000):
            answer = ask_on(link, RemotingCommand.request(code, {"any": "thing"}, b"body"))
            assert answer is not None and answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED, (
                code,
                answer,
            )
        push(link, codec.encode(RemotingCommand.request(4_711, oneway=True)))
        answer = ask_on(link, RemotingCommand.request(RequestCode.REGENT_PROCESS_STATUS))
        assert answer is not None and json.loads(answer.body)["kind"] == server.name


def test_known_codes_with_senseless_contents_do_no_harm(server: Server) -> None:
    """Answered, or at least the connection stays good or is closed: a one-way code needs no
    answer.
    """
    noise = random.Random(7)
    contents = [
        ({}, b""),
        (
            {"topic": "\x00" * 300, "queueId": "-1", "a": "x", "brokerId": "1e9"},
            noise.randbytes(2_000),
        ),
    ]

    def attack(number: int) -> None:
        with connect(server.address) as link:
            for code in list(RequestCode)[number::8]:
                for ext, body in contents:
                    push(link, codec.encode(RemotingCommand.request(code, dict(ext), body)))
            answer = ask_on(link, RemotingCommand.request(RequestCode.REGENT_PROCESS_STATUS))
            if answer is None:
                until_closed(link)

    all_at_once(attack, peers=8)


def test_headers_that_are_no_headers_are_answered_or_closed(server: Server) -> None:
    headers = [
        b"",
        b"null",
        b"[]",
        b'"text"',
        b"{",
        b"[" * 100_000,
        b'{"code":' + b"9" * 5_000 + b"}",
        b'{"code":-1,"opaque":1}',
        b'{"code":1e400}',
        b'{"code":true,"flag":"x","opaque":[]}',
        b'{"extFields":[1]}',
        b'{"extFields":{"a":{"b":1}}}',
        b'{"code":10,"opaque":2147483648}',
        b"\xff\xfe\x00",
        b'{"code":10,"version":"9","language":7}',
    ]

    def attack(number: int) -> None:
        serialization, header = divmod(number, len(headers))
        with connect(server.address) as link:
            push(link, raw_frame(headers[header], b"body", serialization))
            if ask_on(link, RemotingCommand.request(RequestCode.REGENT_PROCESS_STATUS)) is None:
                until_closed(link)

    all_at_once(attack, peers=2 * len(headers))
    with connect(server.address) as link:
        push(link, raw_frame(b"{}", b"", serialization=77))
        until_closed(link)


def test_a_peer_that_asks_and_never_reads_costs_little(server: Server) -> None:
    question = codec.encode(RemotingCommand.request(RequestCode.REGENT_PROCESS_STATUS)) * 500
    with connect(server.address) as link:
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        link.settimeout(1.0)
        sent = 0
        try:
            while sent < 2 * MEMORY_BYTES_MAX:
                sent += link.send(question)
        except (TimeoutError, ConnectionError):
            pass  # it has stopped reading, or has ended the connection
        assert sent < 2 * MEMORY_BYTES_MAX, "it goes on taking questions whose answers nobody reads"
        assert server.status() is not None, "others are served meanwhile"


# -- the HA port -----------------------------------------------------------------------------------


@pytest.fixture
def ha(cluster: Cluster) -> Iterator[str]:
    broker = cluster.servers["broker"]
    with broker.bounded():
        yield cluster.ha
    wait_until(lambda: (broker.status() or {}).get("role") == "MASTER", "the broker is master")
    wait_until(cluster.serves_clients, "the cluster serves")


def test_random_bytes_on_the_ha_port_end_the_link(ha: str) -> None:
    def attack(number: int) -> None:
        with connect(ha) as link:
            push(link, random.Random(number).randbytes(16 << number % 13))
            until_closed(link)

    all_at_once(attack)


def test_silence_and_half_a_handshake_on_the_ha_port_end_the_link(ha: str) -> None:
    handshake = SlaveHandshake(broker_id=9).encode()

    def attack(number: int) -> None:
        with connect(ha) as link:
            push(link, handshake[: number % len(handshake)])
            until_closed(link)

    all_at_once(attack)


def test_a_stranger_s_acknowledgements_on_the_ha_port_confirm_nothing(
    ha: str, cluster: Cluster
) -> None:
    before = cluster.servers["broker"].status()
    for claimed in (2**62, -1, 0):
        with connect(ha) as link:
            push(link, SlaveHandshake(broker_id=9).encode() + SlaveAck(claimed).encode() * 3)
            link.settimeout(0.5)
            try:
                while link.recv(65_536):
                    pass
            except (TimeoutError, ConnectionError):
                pass
    after = cluster.servers["broker"].status()
    assert before is not None and after is not None, "others are served meanwhile"
    assert (
        after["master_epoch"] == before["master_epoch"]
        and after["sync_state_set"] == before["sync_state_set"]
    )
    assert int(str(after["confirm_offset"])) <= int(str(after["log_end"]))


def test_every_process_lives_when_a_port_scanner_comes_by(cluster: Cluster) -> None:
    """Connections that open and end at once, by reset too."""
    addresses = [*(one.address for one in cluster.servers.values()), cluster.ha]

    def attack(number: int) -> None:
        with connect(addresses[number % len(addresses)]) as link:
            if number % 3:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    all_at_once(attack, peers=100)
    assert all(one.process.poll() is None for one in cluster.servers.values())
    wait_until(cluster.serves_clients, "the cluster serves")
