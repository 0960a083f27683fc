"""The two ends of a replication link, each a process of its own, and their peer: sendfile -> recv
-> file write.

The test plays the controller. Refuses to know what is concluded from the times.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from dataclasses import dataclass
from pathlib import Path

from brokers.ha.epoch_file import EpochFile
from brokers.ha.frames import Transfer
from brokers.ha.log_sender import BATCH_BYTES
from brokers.ha.transport import RECEIVE_BYTES
from brokers.replica import effects as fx
from brokers.replica.config import ReplicaConfig
from brokers.replica.core import ReplicaCore
from brokers.replica.driver import ReplicaDriver
from brokers.replica.hooks import AlterResult, ReplicaHooks
from brokers.replica.roles import RoleNotice
from brokers.store.log.records import MessageFields, host_bytes
from brokers.store.queue_follower import QueueFollower
from brokers.store.store import MessageStore, StoreConfig

FILE_BYTES = 256 * 1024 * 1024
BODY_BYTES = 1024
GROUP = 256
EPOCH = 1
SET_EPOCH = 10
REFUSED = 2000
READY_FILE = "ready"
POLL_S = 0.001
HEADER = bytes(Transfer.LAYOUT.size)
HOST = host_bytes("127.0.0.1", 10911)


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy cost: bytes, wall seconds, processor seconds of the receiving end, seconds until
    readable by queue.
    """

    count: int
    seconds: float
    cpu_s: float
    readable_s: float


def message(number: int, size: int = BODY_BYTES) -> MessageFields:
    """A message as a producer's, 1 KiB by default."""
    return MessageFields(
        "bench",
        number & 3,
        b"x" * size,
        b"KEYS\x01k\x02UNIQ_KEY\x010A0B0C\x02",
        1_700_000_000_000,
        HOST,
        HOST,
    )


def _replica(
    root: Path, broker_id: int, dispatches: bool = True
) -> tuple[ReplicaDriver, MessageStore]:
    store = MessageStore(root, StoreConfig(log_file_bytes=FILE_BYTES), same_boot=True)
    epoch_file = EpochFile(root / "epochFileCheckpoint")
    epochs, seen = epoch_file.load()
    config = ReplicaConfig(file_bytes=FILE_BYTES, min_in_sync_replicas=1)
    core = ReplicaCore(
        config,
        broker_id=broker_id,
        incarnation=f"bench-{broker_id}",
        clean=True,
        epochs=epochs,
        epoch_seen=seen,
        log_end=store.log_end,
        log_min=store.log_min,
        confirm_offset=store.confirm_offset,
    )

    async def role_changed(_change: fx.RoleChanged) -> None:
        return None

    async def refuse(_proposal: fx.ProposeSyncSet, _command_id: str) -> AlterResult:
        # The set stays {master}: a copy must not turn into a member while it is measured.
        return AlterResult(REFUSED, (1,), SET_EPOCH, EPOCH)

    confirmed = (
        QueueFollower(store, lambda _grown: None).confirmed if dispatches else lambda _offset: None
    )
    hooks = ReplicaHooks(
        role_changed, refuse, lambda _elect: None, confirmed, lambda _kind, _fields: None
    )
    return ReplicaDriver(core, store, epoch_file, hooks), store


def _lead(driver: ReplicaDriver, master_ha_port: int) -> None:
    ha_address = f"127.0.0.1:{master_ha_port}"
    driver.notice(RoleNotice(1, "127.0.0.1:1", ha_address, EPOCH, (1,), SET_EPOCH, source="bench"))


def serve_log(root: Path, port: int, count: int) -> None:
    """A master with `count` bytes of 1 KiB messages in its log; serves slaves until it is
    killed.
    """
    asyncio.run(_serve_log(root, port, count))


async def _serve_log(root: Path, port: int, count: int) -> None:
    driver, store = _replica(root, 1)
    driver.listen("127.0.0.1", port)
    driver.start()
    _lead(driver, port)
    assert driver.write_refusal() is None
    now_ms = time.time_ns() // 1_000_000
    number = 0
    while store.log_end < count:
        store.put_many([(message(number + i),) for i in range(GROUP)], now_ms)
        driver.log_grew(store.log_end)
        number += GROUP
        await asyncio.sleep(0)
    store.flush()
    (root / READY_FILE).write_text(str(store.log_end))
    await asyncio.Event().wait()


def copy_log(root: Path, port: int, count: int) -> Copied:
    """A slave with an empty disk: from the controller's notice until its log holds `count`
    bytes.
    """
    return asyncio.run(_copy_log(root, port, count, dispatches=True))


def copy_log_only(root: Path, port: int, count: int) -> Copied:
    """The same without making messages readable by queue on the way."""
    return asyncio.run(_copy_log(root, port, count, dispatches=False))


async def _copy_log(root: Path, port: int, count: int, *, dispatches: bool) -> Copied:
    driver, store = _replica(root, 2, dispatches)
    driver.start()
    began, cpu = time.perf_counter(), time.process_time()
    _lead(driver, port)
    while store.log_end < count:
        await asyncio.sleep(POLL_S)
    seconds, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    while dispatches and store.dispatched_offset < count:
        await asyncio.sleep(POLL_S)
    readable_s = time.perf_counter() - began
    await driver.stop()
    store.close(clean=False)
    return Copied(count, seconds, cpu_s, readable_s)


# -- the peer: the same log files, the same packet sizes, and nothing else -------------------------


def send_plain(log_folder: Path, port: int, count: int) -> None:
    """Packets of a header and up to BATCH_BYTES by sendfile, to each who connects."""
    with socket.create_server(("127.0.0.1", port)) as server:
        (log_folder.parent / READY_FILE).write_text(str(count))
        while True:
            link, _ = server.accept()
            with link:
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _send_files(link, log_folder, count)


def _send_files(link: socket.socket, log_folder: Path, count: int) -> None:
    left = count
    for path in sorted(log_folder.iterdir()):
        with path.open("rb") as source:
            at, end = 0, min(FILE_BYTES, left)
            while at < end:
                link.sendall(HEADER)
                packet_end = min(end, at + BATCH_BYTES)
                while at < packet_end:
                    at += os.sendfile(link.fileno(), source.fileno(), at, packet_end - at)
        left -= end
        if left <= 0:
            return


def receive_plain(folder: Path, port: int, count: int) -> Copied:
    """recv -> write into files of the same size until `count` bytes of log have come."""
    buffer = memoryview(bytearray(RECEIVE_BYTES))
    packets = sum(
        -(-min(FILE_BYTES, count - start) // BATCH_BYTES) for start in range(0, count, FILE_BYTES)
    )
    expected = count + packets * len(HEADER)
    began, cpu = time.perf_counter(), time.process_time()
    with socket.create_connection(("127.0.0.1", port)) as link:
        got, target = 0, -1
        while got < expected:
            received = link.recv_into(buffer)
            if not received:
                raise ConnectionError(f"closed after {got} of {expected} bytes")
            if target < 0 or got // FILE_BYTES != (got - received) // FILE_BYTES:
                if target >= 0:
                    os.close(target)
                target = os.open(folder / f"{got // FILE_BYTES}", os.O_CREAT | os.O_WRONLY)
                os.ftruncate(target, FILE_BYTES)
            os.write(target, buffer[:received])
            got += received
        os.close(target)
    seconds = time.perf_counter() - began
    return Copied(count, seconds, time.process_time() - cpu, seconds)
