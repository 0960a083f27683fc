"""Run one function in a process of its own, so that what it costs is not mixed with what is
measured.

The child dies with this process and leaves Ctrl-C to it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
SPAWN = multiprocessing.get_context("spawn")


class ChildFailed(Exception):
    """The function raised in its process; the text says what."""


def _work(link: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        link.send((True, function(*arguments)))
    except Exception as error:
        link.send((False, f"{type(error).__name__}: {error}"))


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result from a fresh process. ChildFailed when it raised or died."""
    with running(function, *arguments) as result:
        return result()


class Running:
    """A function at work in a process of its own; call it for its result."""

    def __init__(self, name: str, link: Connection) -> None:
        self._name, self._link = name, link

    @property
    def is_done(self) -> bool:
        """Whether its result is there, or will never come."""
        return self._link.poll()

    def __call__(self, within_s: float | None = None) -> Any:
        """The result. ChildFailed when the function raised, died, or takes longer."""
        if not self._link.poll(within_s):
            raise ChildFailed(f"{self._name} gave no result within {within_s:.0f} s")
        try:
            ok, value = self._link.recv()
        except EOFError:
            raise ChildFailed(f"{self._name} ended without a result") from None
        if not ok:
            raise ChildFailed(value)
        return value


@contextmanager
def running(function: Callable[..., Any], *arguments: Any) -> Iterator[Running]:
    """The function at work in a fresh process, killed at the end if still there."""
    ours, theirs = SPAWN.Pipe()
    child = SPAWN.Process(target=_work, args=(theirs, function, arguments), daemon=True)
    child.start()
    theirs.close()
    try:
        yield Running(function.__name__, ours)
    finally:
        if child.is_alive():
            child.join(0.5)
        if child.is_alive():
            child.kill()
        child.join()
        ours.close()


def cpu_seconds(pid: int) -> float:
    """Processor time a process has used so far, user and system."""
    fields = (
        Path(f"/proc/{pid}/stat")
        .read_text(encoding="utf-8", errors="replace")
        .rsplit(")", 1)[-1]
        .split()
    )
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS
