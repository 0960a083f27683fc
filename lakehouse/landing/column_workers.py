"""Columns of many records made in several processes, one for each core.

With threads instead, all of them would take turns at one interpreter.
Responsible for starting and ending the processes, for the share of each, and for making itself what
one of them does not. Refuses to know what columns are made of records. Safe to call from several
threads.
"""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.landing.column_worker import answer_of, question, receive, send
from lakehouse.landing.silver_columns import AT, Typed, typed_batch

log = logging.getLogger("regent.lake.landing")

COMMAND = (sys.executable, "-m", "lakehouse.landing.column_worker")
ALONE_RECORDS = 4_000
"""So many are made sooner than another process has them."""
RECORDS_AT_ONCE = 10_000
"""Of one question: whoever comes with a few does not wait long behind a batch."""
IDLE_S = 60.0
"""Processes that were not asked for so long are ended: a job that has caught up needs none."""
END_WAIT_S = 5.0
ANSWER_WAIT_S = 60.0
"""A process that has not answered by then stands still: it is ended, and its records are made
here. A question takes a second at most.
"""


class ColumnWorkers:
    """Up to `count` processes, started when first needed; with fewer than two it does all alone."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._lock = threading.Lock()
        self._free: list[subprocess.Popen[bytes]] = []
        self._asked_at = time.monotonic()
        self._askers = ThreadPoolExecutor(max(count, 1), thread_name_prefix="columns")
        self._closed = False

    def typed(self, batch: pa.Table, wanted: Collection[str]) -> Typed:
        """As `silver_columns.typed_batch`."""
        if self._count < 2 or batch.num_rows <= ALONE_RECORDS or self._closed:
            self._end_idle()
            return typed_batch(batch, wanted)
        self._asked_at = time.monotonic()
        size = min(RECORDS_AT_ONCE, -(-batch.num_rows // self._count))
        starts = range(0, batch.num_rows, size)
        parts = [batch.select(["topic", "value"]).slice(start, size) for start in starts]
        made = self._askers.map(lambda part: self._asked(part, wanted), parts)
        return together(starts, list(made))

    def close(self) -> None:
        """End the processes; what is asked later is made in this one."""
        self._closed = True
        self._askers.shutdown()
        with self._lock:
            ended, self._free = self._free, []
        _end(ended)

    def _asked(self, part: pa.Table, wanted: Collection[str]) -> Typed:
        worker = None
        try:
            worker = self._taken()
            made = answer_of(_answer(worker, question(part, wanted)))
        except OSError as error:
            log.warning("columns are made without their process: %s", error)
            if worker is not None:
                worker.kill()
                _end([worker])
            return typed_batch(part, wanted)
        self._put_back(worker)
        return made

    def _taken(self) -> subprocess.Popen[bytes]:
        """One that nobody else asks. Raises OSError when none can be started."""
        with self._lock:
            if self._free:
                return self._free.pop()
        # No more than `count` threads ask at a time. Nothing is multiplied there.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        return subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def _put_back(self, worker: subprocess.Popen[bytes]) -> None:
        with self._lock:
            if not self._closed:
                self._free.append(worker)
                return
        _end([worker])

    def _end_idle(self) -> None:
        if time.monotonic() - self._asked_at > IDLE_S and self._free:
            with self._lock:
                ended, self._free = self._free, []
            _end(ended)


def together(starts: Sequence[int], made: Sequence[Typed]) -> Typed:
    """What was made of the parts of a batch that begin at these places, as of the whole."""
    parts: dict[str, list[pa.Table]] = {}
    left: list[int] = []
    for start, (tables, mine) in zip(starts, made, strict=True):
        left += [start + place for place in mine]
        for name, table in tables.items():
            at = pc.add(table[AT], pa.scalar(start, pa.int32()))
            parts.setdefault(name, []).append(table.set_column(0, AT, at))
    return Typed({name: pa.concat_tables(some) for name, some in parts.items()}, left)


def _answer(worker: subprocess.Popen[bytes], asked: bytes) -> bytes:
    """Raises OSError when it ended, or was ended because it did not answer."""
    assert worker.stdin is not None and worker.stdout is not None
    # Neither a write to a pipe nor a read from one has a limit of its own.
    limit = threading.Timer(ANSWER_WAIT_S, worker.kill)
    limit.start()
    try:
        send(worker.stdin, asked)
        answer = receive(worker.stdout)
    finally:
        limit.cancel()
    if answer is None:
        raise OSError(f"it ended, or was silent for {ANSWER_WAIT_S:.0f} s")
    return answer


def _end(workers: Sequence[subprocess.Popen[bytes]]) -> None:
    for worker in workers:
        assert worker.stdin is not None and worker.stdout is not None
        with contextlib.suppress(OSError):
            worker.stdin.close()
    for worker in workers:
        assert worker.stdout is not None
        try:
            worker.wait(END_WAIT_S)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
        worker.stdout.close()
