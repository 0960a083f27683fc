"""
The gold job beside another one, in a thread of its own.

Responsible for its rhythm, and for what goes wrong with it staying its own: gold can be made again any time,
landing must not wait for it. Refuses to know how gold is made.
"""

from __future__ import annotations

import logging
import threading
import time

from lakehouse.commit_lock import CommitLocks
from lakehouse.gold_job import GoldJob, Step
from lakehouse.lake import Lake

log = logging.getLogger(__name__)

ERROR_CHARS_MAX = 500


class GoldActivity:
    """
    Brings gold up to what has landed, every `every_s` seconds, until it is stopped.

    A run that fails is told in the log and tried again the next time.
    """

    def __init__(self, lake: Lake, locks: CommitLocks, every_s: float) -> None:
        """`locks` are those of the tables, as the job beside it holds them."""
        self._every_s = every_s
        self._job = GoldJob(lake, locks)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="gold")
        self.last: Step | None = None
        """What the last run that did not fail has done."""
        self.failure: str | None = None
        """Why the last run failed; None when it did not."""

    def start(self) -> None:
        """Begin; the first run comes after `every_s` seconds."""
        self._thread.start()

    def stop(self, wait_s: float) -> None:
        """Begin no run any more, and wait for the one at work, at most `wait_s` seconds: it may be cut off anywhere."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)
        if not self._thread.is_alive():
            self._job.close()

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            self._bring_up()

    def _bring_up(self) -> None:
        try:
            self.last = None
            while not self._stop.is_set() and (self.last is None or self.last.commands):
                began = time.monotonic()
                self.last = self._job.step()
                if self.last.rows:
                    taken_ms = round((time.monotonic() - began) * 1000)
                    log.info("gold is at command %d: %d rows in %d ms", self.last.mark.offset, self.last.rows, taken_ms)
            self.failure = None
        except Exception as error:  # Whatever Delta raises; the next run begins at what the lake says.
            if not self._stop.is_set():
                self.failure = f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX]
                log.warning("gold could not be brought up, it will be tried again: %s", self.failure)
