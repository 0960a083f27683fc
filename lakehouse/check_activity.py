"""
The check of all history beside the landing job, in a thread of its own.

Responsible for its rhythm, and for what goes wrong with it staying its own: landing must not wait for it.
Refuses to know what is checked.
"""

from __future__ import annotations

import logging
import threading

from lakehouse.check_report import Report
from lakehouse.lake import Lake
from lakehouse.lake_check import check_step

log = logging.getLogger(__name__)

ERROR_CHARS_MAX = 500


class CheckActivity:
    """
    Checks what has landed every `every_s` seconds, until it is stopped.

    An alarm is told in the log when it is first seen and when it is gone. A check that fails is told and made again.
    """

    def __init__(self, lake: Lake, every_s: float) -> None:
        self._lake = lake
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="check")
        self._standing: frozenset[str] = frozenset()
        self.last: Report | None = None
        """What the last check found that did not fail."""
        self.failure: str | None = None
        """Why the last check failed; None when it did not."""

    def start(self) -> None:
        """Begin; the first check comes after `every_s` seconds."""
        self._thread.start()

    def stop(self, wait_s: float) -> None:
        """Begin no check any more, and wait for the one at work, at most `wait_s` seconds: it may be cut off anywhere."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self.check()

    def check(self) -> None:
        """One check, now."""
        try:
            self.last = check_step(self._lake)
            self.failure = None
        except Exception as error:  # Whatever Delta raises; the next check begins at what the lake says.
            if not self._stop.is_set():
                self.failure = f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX]
                log.warning("what has landed could not be checked, it will be tried again: %s", self.failure)
            return
        self._tell(self.last)

    def _tell(self, report: Report) -> None:
        standing = frozenset(f"{one.invariant}: {one.topic}-{one.partition} offset {one.offset}: {one.said}" for one in report.alarms)
        for text in sorted(standing - self._standing):
            log.error("alarm: %s", text)
        for text in sorted(self._standing - standing):
            log.info("alarm cleared: %s", text)
        self._standing = standing
