"""A process that does pieces of a proof's work for another one, until that one ends it or is gone.

It is told over stdin which lake, which files and how they are cut up, then which tasks (`tasks`),
and answers each over stdout: pickles, one behind the other, from its parent alone.
Refuses to know what is proven.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO, Any

import pyarrow as pa

from lakehouse.proof.known_names import Sizes
from lakehouse.proof.tasks import Tasks
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.lake import Lake
from lakehouse.tables.table_files import TableFile


@dataclass(frozen=True, slots=True)
class Begin:
    """What a process works on."""

    lake: Lake
    files: Sequence[TableFile]
    sizes: Sizes


@dataclass(frozen=True, slots=True)
class Failed:
    """Instead of an answer."""

    error: Exception


def main(asked: IO[bytes], answers: IO[bytes]) -> None:
    """Answer until nothing more is asked."""
    begin: Begin = pickle.load(asked)
    files = BronzeFiles(begin.lake)
    files.read_only(begin.files)
    tasks = Tasks(files, begin.sizes)
    while True:
        try:
            name, arguments = pickle.load(asked)
        except EOFError:
            return
        pickle.dump(_answer(tasks, name, arguments), answers, pickle.HIGHEST_PROTOCOL)
        answers.flush()


def _answer(tasks: Tasks, name: str, arguments: Sequence[Any]) -> Any:
    try:
        return getattr(tasks, name)(*arguments)
    except Exception as error:  # Whoever asked knows what to do with it.
        return Failed(error)


def serve() -> None:
    """Be such a process, of stdin and stdout."""
    # Whoever interrupts the proof interrupts its parent, which ends it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pa.set_cpu_count(1)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # What a library prints is no answer.
        main(sys.stdin.buffer, out)
