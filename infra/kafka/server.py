"""A local Kafka in KRaft mode: configuration files, the command, start, readiness, stop.

Knows Kafka's settings and nothing of what is stored in it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from infra.jars import store
from infra.jars.java import Java, find_java
from infra.problems import EXIT_USAGE, Problem
from infra.processes import children
from infra.processes.ports import pick_block
from lakehouse.spark_session import NO_WORD_OF_ARCHIVES

HEAP_MB = 256
READY_TIMEOUT_S = 120.0
REQUEST_TIMEOUT_S = 3.0
STOP_GRACE_S = 10.0
READY_POLL_S = 0.1
NODE_COUNTS = (1, 3)
CLASS_ARCHIVE = Path(sys.prefix, "share", "regent", "kafka.jsa")
"""Kafka's classes as Java has them in memory. `make classes` lays it out in the environment; Java
passes over one that is missing, or made by another Java, without a word.
"""
READ_CLASSES = f"-XX:SharedArchiveFile={CLASS_ARCHIVE}"


@dataclass(frozen=True, slots=True)
class KafkaNode:
    """One node, broker and quorum voter in one process. Addresses are `host:port`."""

    node_id: int
    directory: Path
    listen: str
    advertise: str
    quorum: str

    @property
    def properties(self) -> Path:
        return self.directory / "server.properties"


def plan_nodes(directory: Path, count: int, host: str = "127.0.0.1") -> list[KafkaNode]:
    """`count` nodes (1 or 3) on free ports below `directory`."""
    if count not in NODE_COUNTS:
        raise Problem(f"{count} Kafka nodes are not a quorum", "Use 1 or 3.", EXIT_USAGE)
    first = pick_block(2 * count, host)
    return [
        KafkaNode(
            i + 1,
            directory / f"node-{i + 1}",
            f"{host}:{first + 2 * i}",
            f"{host}:{first + 2 * i}",
            f"{host}:{first + 2 * i + 1}",
        )
        for i in range(count)
    ]


def cluster_uuid(name: str) -> str:
    """Kafka's 22 letter base64 id, the same for the same name."""
    return (
        base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()[:16]).decode().rstrip("=")
    )


def properties_of(node: KafkaNode, voters: Mapping[int, str]) -> dict[str, str]:
    """The server's settings: durable for our topics, quick to fail over, small."""
    replicas, in_sync = len(voters), 2 if len(voters) >= 3 else 1
    internal = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")
    fixed = {
        "process.roles": "broker,controller",
        "node.id": str(node.node_id),
        ("controller.quorum.voters"): ",".join(
            f"{i}@{address}" for i, address in sorted(voters.items())
        ),
        "listeners": f"BROKER://{node.listen},CONTROLLER://{node.quorum}",
        "advertised.listeners": f"BROKER://{node.advertise}",
        "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "BROKER",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(node.directory / "data"),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "num.partitions": "1",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "num.recovery.threads.per.data.dir": "1",
        "auto.create.topics.enable": "false",
        "unclean.leader.election.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1000",
        "log.retention.ms": "-1",
        "log.retention.bytes": "-1",
        # a lost leader is seen after 1.5 s; below 1 s a scheduling pause on a busy machine fences
        # healthy nodes
        "broker.heartbeat.interval.ms": "200",
        "broker.session.timeout.ms": "1500",
        "controller.quorum.fetch.timeout.ms": "700",
        "controller.quorum.election.timeout.ms": "400",
        "controller.quorum.election.backoff.max.ms": "300",
        "replica.lag.time.max.ms": "2000",
        "replica.fetch.wait.max.ms": "200",
        "replica.fetch.backoff.ms": "100",
    }
    for topic in internal:
        fixed[f"{topic}.replication.factor"] = str(replicas)
        fixed[f"{topic}.num.partitions"] = "1"
    fixed["transaction.state.log.min.isr"] = fixed["share.coordinator.state.topic.min.isr"] = str(
        in_sync
    )
    return fixed


LOG_SETTINGS = """status = error
appender.file.type = RollingFile
appender.file.name = FILE
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %c{{1}} %m%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 10MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 3
rootLogger.level = warn
rootLogger.appenderRef.file.ref = FILE
logger.server.name = kafka.server
logger.server.level = info
"""


def write_files(node: KafkaNode, voters: Mapping[int, str], cluster: str, log: Path) -> None:
    """server.properties, log4j2.properties, and meta.properties, which stands for Kafka's format
    step.
    """
    data = node.directory / "data"
    data.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{key}={value}\n" for key, value in properties_of(node, voters).items())
    node.properties.write_text(text, encoding="utf-8")
    (node.directory / "log4j2.properties").write_text(
        LOG_SETTINGS.format(log=log), encoding="utf-8"
    )
    meta = data / "meta.properties"
    if not meta.exists():
        own = cluster_uuid(f"{cluster}/node-{node.node_id}")
        part = meta.with_suffix(".part")
        part.write_text(
            f"version=1\nnode.id={node.node_id}\ncluster.id={cluster_uuid(cluster)}\ndirectory.id={own}\n",
            encoding="utf-8",
        )
        part.replace(meta)


def java_command(
    node: KafkaNode, java: Java, jars: Path, heap_mb: int = HEAP_MB, classes: str = READ_CLASSES
) -> list[str]:
    """The server's command line. Small heap, one collector thread, quick start instead of peak
    speed. `classes`: Java's option for the archive that it reads, or makes.
    """
    return [
        str(java.executable),
        f"-Xms{heap_mb}m",
        f"-Xmx{heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        classes,
        *NO_WORD_OF_ARCHIVES,
        "-cp",
        f"{jars}/*",
        f"-Dlog4j2.configurationFile={node.directory / 'log4j2.properties'}",
        "kafka.Kafka",
        str(node.properties),
    ]


def is_ready(bootstrap: str, nodes: int, settings: Mapping[str, str] | None = None) -> bool:
    """Topics can be created and every node is in the metadata. An open port is not enough."""
    admin = AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 0,
            "socket.timeout.ms": 3000,
            "logger": _silent_logger(),
            **(settings or {}),
        }
    )
    try:
        if len(admin.list_topics(timeout=REQUEST_TIMEOUT_S).brokers) < nodes:
            return False
        asked = NewTopic("regent.readiness", num_partitions=1, replication_factor=nodes)
        answers = admin.create_topics(
            [asked], validate_only=True, request_timeout=REQUEST_TIMEOUT_S
        )
        answers["regent.readiness"].result(REQUEST_TIMEOUT_S + 1)
    except (KafkaException, TimeoutError):
        return False
    return True


def _silent_logger() -> Any:
    import logging

    logger = logging.getLogger("regent.kafka.librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False  # refused connections before the server is up are no news
    return logger


def wait_ready(
    bootstrap: str,
    nodes: int,
    died: Callable[[], str | None] = lambda: None,
    timeout_s: float = READY_TIMEOUT_S,
) -> None:
    """Return when Kafka is ready; Problem when a node died (`died` gives the text) or time ran
    out.
    """
    deadline = time.monotonic() + timeout_s
    while not is_ready(bootstrap, nodes):
        reason = died()
        if reason is not None:
            raise Problem(f"Kafka ended while starting: {reason}", "Its log file says why.")
        if time.monotonic() > deadline:
            raise Problem(
                f"Kafka at {bootstrap} not reachable within {timeout_s:.0f} s",
                "Look into its log files.",
            )
        time.sleep(READY_POLL_S)


class LocalKafka:
    """One or three nodes as children of this process: `with LocalKafka(directory) as kafka:
    kafka.bootstrap`.
    """

    def __init__(
        self, directory: Path, nodes: int = 1, cluster: str = "regent", classes: str = READ_CLASSES
    ) -> None:
        self.directory = directory
        self.nodes = plan_nodes(directory, nodes)
        self.voters = {node.node_id: node.quorum for node in self.nodes}
        self.children: dict[int, subprocess.Popen[bytes]] = {}
        self._cluster = cluster
        self._classes = classes

    @property
    def bootstrap(self) -> str:
        """Kafka's bootstrap.servers."""
        return ",".join(node.advertise for node in self.nodes)

    def start(self) -> LocalKafka:
        """Start every node and return when Kafka is ready."""
        for node in self.nodes:
            self.start_node(node.node_id)
        try:
            wait_ready(self.bootstrap, len(self.nodes), self._died)
        except BaseException:
            self.stop()
            raise
        return self

    def start_node(self, node_id: int) -> None:
        """Start one node (again); does not wait."""
        node = next(node for node in self.nodes if node.node_id == node_id)
        write_files(node, self.voters, self._cluster, node.directory / "kafka.log")
        command = java_command(node, find_java(), store.check("kafka"), classes=self._classes)
        self.children[node_id] = children.spawn(command, node.directory / "output.log")

    def signal_node(self, node_id: int, number: int) -> None:
        """Send a signal to one node (SIGKILL, SIGSTOP, SIGCONT); after SIGKILL it is reaped."""
        child = self.children[node_id]
        os.kill(child.pid, number)
        if number == signal.SIGKILL:
            child.wait()
        elif number == signal.SIGSTOP:
            children.until_stopped(child.pid)

    def _died(self) -> str | None:
        for node in self.nodes:
            code = self.children[node.node_id].poll()
            if code is not None:
                tail = children.last_lines(node.directory / "output.log", 3)
                return f"node {node.node_id} exit code {code}: {' | '.join(tail)}"
        return None

    def stop(self) -> None:
        """Stop all nodes at once."""
        # a paused node would not see SIGTERM
        for child in self.children.values():
            children.kill_group(child.pid, 18)
        children.stop_all(list(self.children.values()), STOP_GRACE_S)

    def __enter__(self) -> LocalKafka:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.stop()


def create_topics(
    bootstrap: str, topics: Sequence[NewTopic], settings: Mapping[str, str] | None = None
) -> list[str]:
    """Create what is missing; gives the names that were created. An existing topic is left as it
    is.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2, **(settings or {})})
    present = set(admin.list_topics(timeout=10).topics)
    missing = [topic for topic in topics if topic.topic not in present]
    if missing:
        for future in admin.create_topics(missing, request_timeout=20).values():
            future.result(25)
    return [topic.topic for topic in missing]
