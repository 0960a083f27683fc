"""Inside a broker under test: named points at which it can be killed, a gate before it begins,
settings and a boot id of the test.

Responsible for: wrapping the product's own functions so that a process that is armed ends itself,
and others with it, at the Nth time it comes by a point. Refuses to know: who arms it and why.
Product code knows nothing of any of this.

Each broker has a folder, named as its store's:

    gate           while it is there the process does not begin: a machine that is still off
    settings.json  settings that go before those of its configuration
    boot_id        the boot id of its machine, instead of this one's
    arm.json       {"point": NAME, "passes": N, "also": [PID, ...]}: die at the Nth pass, the others
    first
    fired.json     what became of it: {"point", "at_ns" (monotonic)}
    journal        see write_journal.py
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from tests.chaos.write_journal import Recorder

POINTS = ("before-write", "after-write", "after-flush", "after-send", "after-ack", "before-answer")
GATE, SETTINGS, BOOT_ID, ARM, FIRED, JOURNAL = (
    "gate",
    "settings.json",
    "boot_id",
    "arm.json",
    "fired.json",
    "journal",
)
GATE_POLL_S = 0.02
SCRUB_FIRST_AFTER_S = 1.0


class KillPoints:
    """Counts passes by the armed point; the last one does not return."""

    def __init__(self, folder: Path, kill: Callable[[int, int], None] = os.kill) -> None:
        self._folder, self._kill = folder, kill
        self._arm = os.fspath(folder / ARM)
        self._lock = threading.Lock()
        self._passes = 0
        self._stamp = 0

    def passed(self, point: str) -> None:
        """The process is at `point` now."""
        try:
            stamp = os.stat(self._arm).st_mtime_ns
        except OSError:
            return
        with self._lock:
            try:
                order = json.loads(Path(self._arm).read_text())
            except (OSError, ValueError):
                return  # taken back just now
            if order["point"] != point:
                return
            if stamp != self._stamp:
                self._stamp, self._passes = stamp, 0
            self._passes += 1
            if self._passes < order["passes"]:
                return
            os.unlink(self._arm)
            note = self._folder / f"{FIRED}.part"
            note.write_text(json.dumps({"point": point, "at_ns": time.monotonic_ns()}))
            os.replace(note, self._folder / FIRED)
            for pid in (*order.get("also", ()), os.getpid()):
                self._kill(pid, signal.SIGKILL)


def around(owner: Any, name: str, points: KillPoints, before: str = "", after: str = "") -> None:
    """Have `owner.name` pass a point before or after it has done its work. AttributeError when
    there is no such function.
    """
    real = getattr(owner, name)

    @wraps(real)
    def wrapped(*arguments: Any, **more: Any) -> Any:
        if before:
            points.passed(before)
        result = real(*arguments, **more)
        if after:
            points.passed(after)
        return result

    setattr(owner, name, wrapped)


def set_points(points: KillPoints) -> None:
    """Puts every point into the product's classes."""
    from brokers.ha import transport
    from brokers.service.sending.send import SendService
    from brokers.store.log.commit_log import CommitLog

    around(CommitLog, "write", points, before="before-write", after="after-write")
    around(CommitLog, "flush", points, after="after-flush")
    write_packet, answer_all = transport._Link._write_packet, SendService._answer_all

    def packet_written(link: Any, packet: Any) -> bool:
        bytes_of_log = packet.count
        done = write_packet(link, packet)
        points.passed("after-send" if bytes_of_log else "after-ack")
        return done

    def answered(sends: Any, batch: Any, code: int, remark: str | None) -> None:
        if code == 0:
            points.passed("before-answer")
        answer_all(sends, batch, code, remark)

    transport._Link._write_packet = packet_written  # type: ignore[method-assign]
    SendService._answer_all = answered  # type: ignore[method-assign]


def set_boot_id(folder: Path) -> None:
    """The machine's boot id is that of the folder, where there is one."""
    from brokers.store.recovery import boot

    real = boot.machine_boot_id

    def boot_id(*arguments: Any) -> str:
        try:
            return (folder / BOOT_ID).read_text().strip()
        except FileNotFoundError:
            return real(*arguments)

    boot.machine_boot_id = boot_id


def install(control: str) -> None:
    """The broker of this process, once it begins, runs with all of it. `control`: the folder above
    those of the brokers.
    """
    from brokers.process import program, scrubber

    begin = program.run
    scrubber.Scrubber.__init__.__defaults__ = (SCRUB_FIRST_AFTER_S,)

    async def run(config: Any) -> int:
        folder = Path(control) / config.store_dir.name
        folder.mkdir(parents=True, exist_ok=True)
        while (folder / GATE).exists():
            await asyncio.sleep(GATE_POLL_S)
        if (folder / SETTINGS).exists():
            given = json.loads((folder / SETTINGS).read_text())
            config = type(config).model_validate({**config.model_dump(), **given})
        set_points(KillPoints(folder))
        set_boot_id(folder)
        Recorder(config.store_dir, folder / JOURNAL).install()
        return await begin(config)

    program.run = run
