"""Store folders as a loss of power leaves them, and what reading them costs at the least.

A real loss of power cannot be had. Such a folder is one of a run that did not end, whose run marker
names another start of the machine, and of which nothing is in memory. What was written behind its
last checkpoint is all there, as if the disk had taken it by itself: a start reads the most then.
Refuses to know: which broker opens it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from brokers.store.files.disk import PAGE_BYTES
from brokers.store.files.durable import ABORT_NAME
from brokers.store.log.records import MessageFields
from brokers.store.recovery.boot import MARKER_NAME
from brokers.store.recovery.checkpoint import CHECKPOINT_NAME
from brokers.store.store import MessageStore, StoreConfig
from tests.bench.replica_ends import message

QUEUES_A_TOPIC = 8
GROUP = 256
CHUNK_BYTES = 1 << 20
OTHER_BOOT = "the start before the power went"


def queue_message(queue: int) -> MessageFields:
    """1 KiB for the queue of that number, over all topics."""
    one = message(0)
    topic, queue_id = f"bench-{queue // QUEUES_A_TOPIC}", queue % QUEUES_A_TOPIC
    return MessageFields(
        topic, queue_id, one.body, one.properties, one.born_ms, one.born_host, one.store_host
    )


def fill_queues(root: Path, queues: int, rounds: int, file_bytes: int) -> None:
    """In a process of its own: a message into each queue `rounds` times, a checkpoint, and one
    round more.
    """
    store = MessageStore(root, StoreConfig(log_file_bytes=file_bytes), same_boot=True)
    for number in range(rounds + 1):
        if number == rounds:
            store.checkpoint()
        put_round(store, queues)
    store.close(clean=False)


def put_round(store: MessageStore, queues: int) -> None:
    """A message into each queue, readable through it."""
    now_ms = time.time_ns() // 1_000_000
    for first in range(0, queues, GROUP):
        store.put_many(
            [(queue_message(queue),) for queue in range(first, min(first + GROUP, queues))], now_ms
        )
        store.dispatch_to(store.log_end)


def without_power(source: Path, target: Path, *, checkpoint: bool = True) -> None:
    """`target` becomes a copy of `source` as a loss of power leaves it, what was never written as
    holes. `checkpoint`: whether it has one.
    """
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", "--sparse=always", str(source), str(target)], check=True)
    marker = target / MARKER_NAME
    if marker.exists():
        marker.write_text(
            json.dumps(
                {**json.loads(marker.read_text()), "boot_id": OTHER_BOOT, "flushed_exit": False}
            )
        )
    (target / ABORT_NAME).touch()
    if not checkpoint:
        (target / CHECKPOINT_NAME).unlink(missing_ok=True)
    forget_pages(target)


def forget_pages(root: Path) -> None:
    """Takes the content of the files out of memory. Names stay known: only root could have those
    forgotten.
    """
    os.sync()
    for path in _files(root):
        fd = os.open(path, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def _files(root: Path) -> Iterator[Path]:
    return (Path(folder) / name for folder, _, names in os.walk(root) for name in names)


@dataclass(frozen=True, slots=True)
class AtLeast:
    """What no start can do without. Times in s."""

    queue_files: int
    queues_s: float
    log_bytes: int
    log_s: float

    @property
    def seconds(self) -> float:
        return self.queues_s + self.log_s


def read_at_least(root: Path, log_from: int) -> AtLeast:
    """Opens each queue file and reads a page of it, then reads the log from an offset to where its
    last file has data.
    """
    began, files = time.perf_counter(), 0
    for path in _files(root / "consumequeue"):
        fd = os.open(path, os.O_RDONLY)
        os.pread(fd, PAGE_BYTES, 0)
        os.close(fd)
        files += 1
    queues_s = time.perf_counter() - began
    began, read = time.perf_counter(), 0
    for path in sorted((root / "commitlog").iterdir()):
        if int(path.name) >= log_from:
            read += _read_data(path)
    return AtLeast(files, queues_s, read, time.perf_counter() - began)


def _read_data(path: Path) -> int:
    """Bytes read, up to the first megabyte of zeros."""
    zeros, read = bytes(CHUNK_BYTES), 0
    fd = os.open(path, os.O_RDONLY)
    try:
        while (piece := os.pread(fd, CHUNK_BYTES, read)) and piece != zeros:
            read += len(piece)
    finally:
        os.close(fd)
    return read


@dataclass(frozen=True, slots=True)
class Opened:
    """The store's own class on such a folder, without a broker around it."""

    seconds: float
    read_from: int
    end: int
    messages: int


def open_store(root: Path, file_bytes: int) -> Opened:
    """In a process of its own. ValueError when it was not judged to be a loss of power."""
    began = time.perf_counter()
    store = MessageStore(root, StoreConfig(log_file_bytes=file_bytes))
    seconds, found = time.perf_counter() - began, store.recovery
    store.close(clean=False)
    if not found.abnormal or found.same_boot:
        raise ValueError("this was an orderly end")
    return Opened(seconds, found.scanned_from, found.end_offset, found.messages)
