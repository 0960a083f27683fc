"""A landing job that dies at a named point: `python -m tests.support.landing_points POINT TABLE
PASSES FOLDER VERB...`.

Responsible for: wrapping the product's own append so that the process and its Java child are killed
at the Nth append to a table: before anything is written, when the data file is on the disk and its
commit is not, or when the commit is done and nothing else knows of it. Refuses to know: who starts
it and what must hold afterwards. Product code knows nothing of it.

`FOLDER/died-at` holds the point once it was reached.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BEFORE_WRITE, AFTER_WRITE, AFTER_COMMIT = POINTS = ("before-write", "after-write", "after-commit")
DIED_AT = "died-at"
WATCH = "watch"
MAGIC = b"PAR1"
POLL_S = 0.0003


class Point:
    """Counts appends to the table and dies at the Nth; a chance that is missed is taken at the next
    append.
    """

    def __init__(self, point: str, table: str, passes: int, folder: Path) -> None:
        self._point, self._table, self._left, self._note = point, table, passes, folder / DIED_AT

    def append(self, real: Any, spark: Any, lake: Any, table: Any, rows: Any, *more: Any) -> None:
        """In place of the product's `append`."""
        self._left -= table.name == self._table
        if table.name != self._table or self._left > 0:
            return real(spark, lake, table, rows, *more)
        if self._point == BEFORE_WRITE:
            self._die()
        if self._point == AFTER_WRITE:
            with self._watched(Path(lake.uri(table))):
                real(spark, lake, table, rows, *more)
        else:
            real(spark, lake, table, rows, *more)
        if self._point == AFTER_COMMIT:
            self._die()
        return None

    @contextmanager
    def _watched(self, folder: Path) -> Iterator[None]:
        """Another process looks on, and goes when its input ends: all threads of this one must
        stand still while it decides.
        """
        words = [WATCH, str(folder), str(self._note), str(os.getpid()), str(java_pid())]
        command = [sys.executable, "-m", "tests.support.landing_points", *words]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as watcher:
            assert watcher.stdin is not None and watcher.stdout is not None
            watcher.stdout.readline()
            try:
                yield
            finally:
                watcher.stdin.close()

    def _die(self) -> None:
        self._note.write_text(self._point)
        for pid in (java_pid(), os.getpid()):
            os.kill(pid, signal.SIGKILL)


def watch(folder: Path, note: Path, pid: int, java: int) -> int:
    """Stop the landing job as soon as a new file of the table is whole; it dies there if it has not
    committed yet, else it goes on.
    """
    files, commits = _files(folder), _commits(folder)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        if not any(map(_is_whole, _files(folder) - files)):
            continue
        os.kill(pid, signal.SIGSTOP)
        while _state(pid) != "T":
            time.sleep(POLL_S)
        if _commits(folder) != commits:
            os.kill(pid, signal.SIGCONT)
            return 0
        note.write_text(AFTER_WRITE)
        for one in (java, pid):
            os.kill(one, signal.SIGKILL)
        return 0
    return 0


def java_pid() -> int:
    """Of this process's Spark."""
    from pyspark import SparkContext

    return int(SparkContext._gateway.proc.pid)  # type: ignore[union-attr]


def _files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.parquet")) - set((folder / "_delta_log").glob("*"))


def _commits(folder: Path) -> set[str]:
    return {path.name for path in (folder / "_delta_log").glob("*.json")}


def _is_whole(path: Path) -> bool:
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return len(data) > 2 * len(MAGIC) and data.endswith(MAGIC)


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def install(point: Point) -> None:
    """Every append of this process goes through the point."""
    from lakehouse.landing import appends

    real = appends.append
    appends.append = lambda *arguments: point.append(real, *arguments)


def main(words: list[str]) -> int:
    if words[0] == WATCH:
        return watch(Path(words[1]), Path(words[2]), int(words[3]), int(words[4]))
    point, table, passes, folder, *command = words
    assert point in POINTS, point
    install(Point(point, table, int(passes), Path(folder)))
    from infra.cli import main as cli

    return cli.main(command)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
