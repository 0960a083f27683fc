"""
Something done again and again in a thread beside the landing queries.

Responsible for the rhythm, and for a round that fails staying its own trouble: it is told once and
tried again.
Refuses to know what is done.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

ERROR_CHARS_MAX = 300


class Activity:
    """Calls `step(stopped)` every `every_s` seconds until it is stopped; the first time after that
    pause.

    `troubled` is told after each round: the name and why the round failed, or None when it did not.
    """

    def __init__(
        self,
        name: str,
        every_s: float,
        step: Callable[[Callable[[], bool]], object],
        troubled: Callable[[str, str | None], None],
    ) -> None:
        self._name, self._every_s, self._step, self._troubled = name, every_s, step, troubled
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=name)
        self._failure: str | None = None

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, wait_s: float) -> None:
        """Begin no round any more, and wait for the one at work, at most `wait_s` seconds: it may
        be cut off anywhere.
        """
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            failure = None
            try:
                self._step(self._stop.is_set)
            except Exception as error:  # Whatever Delta or Kafka raise; the next round begins anew.
                failure = " ".join(f"{type(error).__name__}: {error}".split())[:ERROR_CHARS_MAX]
            if self._stop.is_set():
                return
            if failure is not None and failure != self._failure:
                log.warning("%s has failed and will be tried again: %s", self._name, failure)
            self._failure = failure
            self._troubled(self._name, failure)
