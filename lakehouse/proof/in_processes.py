"""The work of a proof in processes beside this one, as many as there are cores: for long histories
on a local disk. Each reads the files itself, so that rows go through no pipe.

Responsible for starting and ending them and for who does which piece. Refuses to know what is
proven.
"""

from __future__ import annotations

import contextlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lakehouse.errors import LakehouseError
from lakehouse.proof.in_process import InProcess
from lakehouse.proof.known_names import Sizes
from lakehouse.proof.worker import Begin, Failed
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.lake import Lake

# Not with -m: what is defined in a module that is run so has another name for its parent.
COMMAND = (sys.executable, "-c", "from lakehouse.proof.worker import serve; serve()")
PROCESSES_MAX = 16
"""Each holds a range of commands with its outcomes, some hundred megabytes."""
END_WAIT_S = 5.0


class InProcesses(InProcess):
    """See `proof.work.Work`."""

    def __init__(self, lake: Lake, files: BronzeFiles, sizes: Sizes, count: int) -> None:
        super().__init__(files, sizes)
        self._begin = Begin(lake, files.files, sizes)
        self._count = min(count, PROCESSES_MAX)
        self._lock = threading.Lock()
        self._free: list[subprocess.Popen[bytes]] = []
        self._all: list[subprocess.Popen[bytes]] = []

    def close(self) -> None:
        super().close()
        for worker in self._all:
            _end(worker)
        self._all.clear()

    def _each(self, task: str, asked: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        if len(asked) <= 1:
            yield from super()._each(task, asked)
            return
        with ThreadPoolExecutor(self._count, thread_name_prefix="proof") as askers:
            yield from askers.map(lambda one: self._asked(task, one), asked)

    def _asked(self, task: str, arguments: tuple[Any, ...]) -> Any:
        """Raises what the task raised, `LakehouseError` when its process is gone."""
        worker = self._taken()
        assert worker.stdin is not None and worker.stdout is not None
        try:
            pickle.dump((task, arguments), worker.stdin, pickle.HIGHEST_PROTOCOL)
            worker.stdin.flush()
            answer = pickle.load(worker.stdout)
        except (OSError, EOFError, pickle.UnpicklingError) as error:
            raise LakehouseError(f"a process of the proof ended: {error}") from error
        with self._lock:
            self._free.append(worker)
        if isinstance(answer, Failed):
            raise answer.error
        return answer

    def _taken(self) -> subprocess.Popen[bytes]:
        """One that nobody else asks. Raises `LakehouseError` when none can be started."""
        with self._lock:
            if self._free:
                return self._free.pop()
        try:  # No more than `count` threads ask at a time.
            worker = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            with self._lock:
                self._all.append(worker)
            assert worker.stdin is not None
            pickle.dump(self._begin, worker.stdin, pickle.HIGHEST_PROTOCOL)
        except OSError as error:
            raise LakehouseError(f"no process for the proof can be started: {error}") from error
        return worker


def _end(worker: subprocess.Popen[bytes]) -> None:
    assert worker.stdin is not None and worker.stdout is not None
    with contextlib.suppress(OSError):
        worker.stdin.close()
    try:
        worker.wait(END_WAIT_S)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
    worker.stdout.close()
