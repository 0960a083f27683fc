"""Whether the disk of the store still answers.

A disk that hangs gives no error: a flush just does not end. The log itself is asked only when there
is something to flush, so a byte of a file beside it is written and flushed now and then.

Responsible for: how long the disk has been silent, and when a master should hand over for it.
Refuses to know: how a hand-over goes, what is stored.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PROBE_NAME = "diskProbe"
PROBE_EVERY_S = 1.0
LOOK_S = 0.1
STOOD_STILL_S = 1.0
"""Looks that are further apart than this say that the process stood still, and not the disk."""
HAND_OVER_S = 3.0
"""What a hand-over may take; after it a master whose disk is silent is stuck."""
AGAIN_S = 60.0
"""Between two hand-overs for the disk: replicas whose disks are all slow do not play ball."""

_log = logging.getLogger("regent.broker.disk")


class DiskWatch:
    """`now_s`: a monotonic clock. Asking and answering may be on any thread."""

    def __init__(self, folder: Path, now_s: Callable[[], float] = time.monotonic) -> None:
        self._path = folder / PROBE_NAME
        self._now_s = now_s
        self._excused_s = 0.0
        self._asked: dict[object, float] = {}
        self._answered_s = now_s()
        self._stop = threading.Event()

    @contextmanager
    def asks(self) -> Iterator[None]:
        """Around whatever waits for the disk. An error is an answer."""
        one = object()
        self._asked[one] = self._ran_s()
        try:
            yield
        finally:
            del self._asked[one]
            self._answered_s = self._now_s()

    @property
    def silent_s(self) -> float:
        """How long the oldest question has been waiting; 0 without one."""
        asked = min(list(self._asked.values()), default=None)
        return 0.0 if asked is None else max(0.0, self._ran_s() - asked)

    def excuse(self, seconds: float) -> None:
        """This process stood still for so long: its own pause is not the disk's silence."""
        self._excused_s += seconds

    def _ran_s(self) -> float:
        return self._now_s() - self._excused_s

    def start(self) -> None:
        """Ask every second, on a thread that nothing waits for, unless the disk just answered."""
        threading.Thread(target=self._probe_on, name="disk probe", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _probe_on(self) -> None:
        while not self._stop.wait(PROBE_EVERY_S):
            if self._asked or self._now_s() - self._answered_s < PROBE_EVERY_S / 2:
                continue
            try:
                self.probe()
            except OSError as error:  # a full disk answers too; the log's own flush tells the rest
                _log.debug("the probe of the disk was refused: %s", error)

    def probe(self) -> None:
        """One byte, written and flushed. OSError."""
        with self.asks():
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.pwrite(fd, b".", 0)
                os.fdatasync(fd)
            finally:
                os.close(fd)


class DiskHandOver:
    """Lets a master whose disk is silent hand over, while it can."""

    def __init__(
        self,
        disk: DiskWatch,
        timeout_ms: int,
        leads: Callable[[], bool],
        hand_over: Callable[[], Awaitable[None]],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`hand_over()` tries it once, and raises nothing."""
        self._disk = disk
        self._timeout_s = timeout_ms / 1000
        self._leads = leads
        self._hand_over = hand_over
        self._now_s = now_s
        self._not_before_s = 0.0
        self._looked_s: float | None = None

    @property
    def hangs(self) -> bool:
        """The disk has been silent for longer than it may."""
        self._excuse_own_standstill()
        return bool(self._timeout_s) and self._disk.silent_s > self._timeout_s

    @property
    def stuck(self) -> bool:
        """This master could not hand over either: whoever supervises it may end it."""
        return self._leads() and self.hangs and self._disk.silent_s > self._timeout_s + HAND_OVER_S

    def refusal(self) -> str | None:
        """Why this replica must not take over; None when it may."""
        return f"{self._reason()} here" if self.hangs else None

    def _reason(self) -> str:
        return f"the disk has not answered for {self._disk.silent_s:.1f} s"

    def _excuse_own_standstill(self) -> None:
        """Who was stopped, or got no processor, has not heard the disk's answer."""
        if self._looked_s is None:  # it does not run yet, so that nobody says when it should look
            return
        now = self._now_s()
        if now - self._looked_s > STOOD_STILL_S:
            self._disk.excuse(now - self._looked_s)
        self._looked_s = now

    async def run(self) -> None:
        """For as long as the broker runs. A hand-over that takes its time is no standstill."""
        self._looked_s = self._now_s()
        await asyncio.gather(self._every_look(self._notice), self._every_look(self.look))

    async def _every_look(self, act: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await act()

    async def _notice(self) -> None:
        self._excuse_own_standstill()

    async def look(self) -> None:
        """Hand over now, if that is due."""
        if not (self.hangs and self._leads()) or self._now_s() < self._not_before_s:
            return
        self._not_before_s = self._now_s() + AGAIN_S
        _log.error("%s: this master hands over", self._reason())
        await self._hand_over()
