"""Brokers that are the only replica of their set, on a store of a wanted size: ours and Java's, in
turn on one folder.

The log is written by the store's own code, without a broker around it: sends would take many
minutes. Refuses to know what is measured on it.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from brokers.remoting.calls import RemotingError
from brokers.remoting.codes import RequestCode
from brokers.remoting.command import RemotingCommand
from brokers.store.store import MessageStore, StoreConfig
from infra.processes.ports import split_address
from tests.bench import java_brokers, send_load
from tests.bench.apart import apart
from tests.bench.cluster import BenchCluster, BenchFailed
from tests.bench.own_set import call, create_topic
from tests.bench.replica_ends import message
from tests.interop.java_rocketmq import JavaBroker, JavaWorld
from tests.interop.program import Replica
from tests.interop.regent_broker import RegentBroker

CLUSTER = "regent"
GROUP = 256
CHECKPOINT_S = 0.5
POLL_S = 0.005
SERVES_WITHIN_S = 300.0
SETTINGS = {
    "min_in_sync_replicas": 1,
    "index_hash_slots": 5_000_000,
    "index_entries_max": 20_000_000,
    "consume_queue_file_entries": 300_000,
}


def fill(root: Path, count: int, file_bytes: int) -> int:
    """In a process of its own: 1 KiB messages until the log has `count` bytes, readable by queue,
    with the checkpoints of a broker that runs. Gives the end of the log and leaves the folder as a
    kill does.
    """
    store = MessageStore(root, StoreConfig(log_file_bytes=file_bytes), same_boot=True)
    number, due = 0, time.monotonic() + CHECKPOINT_S
    while store.log_end < count:
        store.put_many([(message(number + i),) for i in range(GROUP)], time.time_ns() // 1_000_000)
        store.dispatch_to(store.log_end)
        number += GROUP
        if time.monotonic() > due:
            store.checkpoint_job()()
            due = time.monotonic() + CHECKPOINT_S
    return store.log_end


@dataclass(frozen=True, slots=True)
class Place:
    """What a broker of ours asks of the run it belongs to."""

    folder: Path
    cluster: BenchCluster

    def wait_until(self, condition: Callable[[], bool], what: str, limit_s: float) -> float:
        return self.cluster.wait(what, condition, limit_s)


class OneSet:
    """A set of that name on a cluster's controllers; its brokers are made here and ended by
    `end`.
    """

    def __init__(self, cluster: BenchCluster, home: Path, name: str, file_bytes: int) -> None:
        self._place = Place(home, cluster)
        self._name = name
        self._file_bytes = file_bytes
        self._made: list[Replica] = []

    def ours(self, label: str, store: Path | None = None) -> RegentBroker:
        """A broker of ours, on that store when one is given; not started."""
        cluster = self._place.cluster
        settings = {**SETTINGS, "commit_log_file_bytes": self._file_bytes} | (
            {"store_dir": str(store)} if store else {}
        )
        made = RegentBroker(
            self._place,
            label,
            controllers=cluster.controllers,
            name_servers=[cluster.name_server],  # type: ignore[arg-type]
            broker_set=self._name,
            cluster=CLUSTER,
            settings=settings,
        )
        self._made.append(made)
        return made

    def java(self, world: JavaWorld, label: str, store: Path | None = None) -> JavaBroker:
        """The same of Java's."""
        cluster = self._place.cluster
        extra = {"mappedFileSizeCommitLog": str(self._file_bytes)}
        if store is not None:
            extra |= {
                "storePathRootDir": str(store),
                "storePathCommitLog": str(store / "commitlog"),
            }
        made = world.broker(
            label,
            controllers=cluster.controllers,
            name_servers=[cluster.name_server],
            broker_set=self._name,
            cluster=CLUSTER,
            settings=java_brokers.settings_for(1, extra),
            jvm=java_brokers.JVM,
            start=False,
        )
        self._made.append(made)
        return made

    def filled(self, count: int) -> Path:
        """The store of a broker that had its id and its first role, was killed, and has `count`
        bytes in its log.
        """
        return self.filled_by(fill, count, self._file_bytes)

    def filled_by(self, filling: Callable[..., object], *arguments: object) -> Path:
        """The same, filled by a function of the folder and `arguments`, in a process of its own."""
        broker = self.ours(f"{self._name}-filled")
        broker.start(wait=False)
        until_writable(broker)
        create_topic(broker.address, send_load.TOPIC)
        broker.kill()
        apart(filling, broker.store, *arguments)
        return broker.store

    def end(self) -> None:
        for one in self._made:
            one.end()


def until_listening(broker: Replica) -> float:
    """Seconds from now until it accepts a connection. BenchFailed when it ends or takes too
    long.
    """
    address, began = split_address(broker.address), time.perf_counter()
    while True:
        try:
            socket.create_connection(address, 1).close()
            return time.perf_counter() - began
        except OSError:
            _judge(broker, began)
            time.sleep(POLL_S)


def until_writable(broker: Replica) -> float:
    """Seconds from now until it is master and makes or changes a topic."""
    began = time.perf_counter()
    while True:
        try:
            create_topic(broker.address, f"{send_load.TOPIC}-probe")
            return time.perf_counter() - began
        except (BenchFailed, RemotingError, OSError):
            _judge(broker, began)
            time.sleep(POLL_S * 4)


def _judge(broker: Replica, began: float) -> None:
    if not broker.is_running:
        raise BenchFailed(f"{broker.name} ended at start: {' | '.join(broker.logs(4))}")
    if time.perf_counter() - began > SERVES_WITHIN_S:
        raise BenchFailed(f"{broker.name} does not serve within {SERVES_WITHIN_S:.0f} s")


def ha_status(broker: Replica) -> bytes:
    """The body of 907. OSError, RemotingError when it does not answer."""
    return (
        asyncio.run(
            call(broker.address, RemotingCommand.request(RequestCode.GET_BROKER_HA_STATUS))
        ).body
        or b""
    )
