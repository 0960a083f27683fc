"""Processes that are started but not yet begun: a broker that dies is replaced without waiting for
Python to load.

A client with default settings talks to the old address until its next poll, so the time until
*some* process answers there is what its users wait for. A spare has read its configuration and
imported everything, and waits for one line on its standard input; the end of that input ends it.
Refuses to know when a spare is needed and what it runs.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from infra.processes import children

START_LINE = b"start\n"


class Watchdog(Protocol):
    """The part that ends process groups when the supervisor cannot."""

    def add(self, group: int) -> None: ...
    def drop(self, group: int) -> None: ...


class Spares:
    """At most one spare per name. `watchdog` hears of each: a spare must not outlive the supervisor
    either.
    """

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._waiting: dict[str, subprocess.Popen[bytes]] = {}

    def prepare(
        self,
        name: str,
        command: Sequence[str],
        output: Path,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Have a spare for `name`; one that waits already is kept, a dead one replaced."""
        waiting = self._waiting.get(name)
        if waiting is not None and waiting.poll() is None:
            return
        if waiting is not None and waiting.stdin is not None:
            waiting.stdin.close()
        spare = children.spawn(command, output, environ, wants_input=True)
        self._watchdog.add(spare.pid)
        self._waiting[name] = spare

    def begin(self, name: str) -> subprocess.Popen[bytes] | None:
        """Let the spare of `name` begin; None when there is none that lives."""
        spare = self._waiting.pop(name, None)
        if spare is None:
            return None
        return spare if _tell_to_begin(spare) else None

    def stop_all(self) -> None:
        """End every spare."""
        for spare in self._waiting.values():
            assert spare.stdin is not None
            spare.stdin.close()
            children.stop(spare, 1.0)
            self._watchdog.drop(spare.pid)
        self._waiting.clear()


def _tell_to_begin(spare: subprocess.Popen[bytes]) -> bool:
    """One line, then the end of its input; False when the spare is dead."""
    assert spare.stdin is not None
    alive = spare.poll() is None
    try:
        if alive:
            spare.stdin.write(START_LINE)
        spare.stdin.close()
    except BrokenPipeError:
        alive = False
    return alive
