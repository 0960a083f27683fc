"""A log of a terabyte and 100,000 queues under the limit of 1,024 descriptors: a start after a loss
of power, a message into each queue, new files of the log, and a message read from each of its
files.

The log is the store's own, files of 1 GiB. Each holds a message of a hundred queues and a blank
record to its end; what the blank record passes over takes no room on the disk.
"""

from __future__ import annotations

import itertools
import os
import resource
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from brokers.store.files.disk import PAGE_BYTES
from brokers.store.log.records import BLANK_BYTES_MIN
from brokers.store.store import MessageStore, StoreConfig
from tests.bench import lost_power
from tests.bench.apart import apart
from tests.bench.figure import Figure, at_most
from tests.bench.run_context import Bench
from tests.support.descriptors import open_count

ROW = "terabyte"
FILES, QUEUES, FILE_BYTES = 1_000, 100_000, 1 << 30
DESCRIPTORS_MAX = 1_024
NEW_FILES = 3
GOAL_S = 30.0


@dataclass(frozen=True, slots=True)
class Life:
    """What happened under the limit. Times in s; `descriptors`: the most that were seen."""

    start_s: float
    sends_s: float
    rolls_s: float
    reads_s: float
    descriptors: int
    read: int


def lay(root: Path, files: int, queues: int, file_bytes: int) -> None:
    """In a process of its own: that many files, the messages of which are spread over the queues;
    nothing ends in order.
    """
    store = MessageStore(
        root, StoreConfig(log_file_bytes=file_bytes, message_index=False), same_boot=True
    )
    each = queues // files
    for number in range(files):
        messages = [
            (lost_power.queue_message(queue),)
            for queue in range(number * each, (number + 1) * each)
        ]
        store.put_many(messages, time.time_ns() // 1_000_000)
        store.dispatch_to(store.log_end)
        if number < files - 1:
            end = store.log_end
            close_file(store)
            make_sparse(store, end)
    store.checkpoint()
    store.close(clean=False)


def close_file(store: MessageStore) -> None:
    """The newest file of the log ends with a blank record, and the next one begins."""
    store.log.reserve(store.config.log_file_bytes - BLANK_BYTES_MIN)


def make_sparse(store: MessageStore, end: int) -> None:
    """What lies behind the blank record at `end` takes no room any more."""
    size = store.config.log_file_bytes
    path = store.root / "commitlog" / f"{end - end % size:020d}"
    os.truncate(path, (end % size + BLANK_BYTES_MIN + PAGE_BYTES - 1) // PAGE_BYTES * PAGE_BYTES)
    os.truncate(path, size)


def live(root: Path, files: int, queues: int, file_bytes: int, descriptors_max: int) -> Life:
    """In a process of its own, which never has more descriptors than that. ValueError when a
    message is not read as it was sent.
    """
    resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors_max, descriptors_max))
    times, most = [time.perf_counter()], open_count(root)
    store = MessageStore(root, StoreConfig(log_file_bytes=file_bytes, message_index=False))
    if (
        not store.recovery.abnormal
        or len(store.queue_ids()) != queues
        or len(store.log.file_starts) != files
    ):
        raise ValueError(
            f"{len(store.queue_ids())} queues and {len(store.log.file_starts)} files were found"
        )
    times, most = [*times, time.perf_counter()], max(most, open_count(root))
    store.rebuild_queue_offsets()
    lost_power.put_round(store, queues)
    times, most = [*times, time.perf_counter()], max(most, open_count(root))
    for _ in range(NEW_FILES):
        close_file(store)
        lost_power.put_round(store, queues // files)
        store.checkpoint()
    times, most = [*times, time.perf_counter()], max(most, open_count(root))
    read = sum(_read(store, queue) for queue in range(0, queues, queues // files))
    times, most = [*times, time.perf_counter()], max(most, open_count(root))
    store.close()
    start, sends, rolls, reads = (after - before for before, after in itertools.pairwise(times))
    return Life(start, sends, rolls, reads, most, read)


def _read(store: MessageStore, queue: int) -> int:
    """The first two messages of a queue: one was there, one is new."""
    wanted = lost_power.queue_message(queue)
    found = store.query(wanted.topic, wanted.queue_id, 0, 2)
    if found.messages != 2:
        raise ValueError(f"queue {queue} has {found.messages} messages")
    return found.messages


def measure(bench: Bench) -> list[Figure]:
    bench.quiet()
    root = bench.folder(ROW)
    bench.say(f"writing {FILES} files and {QUEUES} queues")
    apart(lay, root, FILES, QUEUES, FILE_BYTES)
    lost_power.forget_pages(root)
    bench.say(f"opened under {DESCRIPTORS_MAX} descriptors")
    life = apart(live, root, FILES, QUEUES, FILE_BYTES, DESCRIPTORS_MAX)
    shutil.rmtree(root)
    return [figure(life)]


def figure(life: Life) -> Figure:
    """The start is what is judged; the rest is told."""
    note = (
        f"{FILES:,} files of 1 GiB, {QUEUES:,} queues, {life.descriptors} of {DESCRIPTORS_MAX:,} "
        f"descriptors at most; then a message into each queue {life.sends_s:.1f} s, {NEW_FILES} "
        f"new files of the log, each with a checkpoint, {life.rolls_s:.1f} s, {life.read:,} "
        f"messages read from all of its files {life.reads_s:.1f} s"
    )
    return Figure(
        ROW,
        "store of a terabyte opened after a loss of power",
        "s",
        round(life.start_s, 2),
        goal=at_most(GOAL_S),
        note=note,
    )
