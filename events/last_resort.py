"""A process that was asked to stop ends, also when something in it hangs.

Responsible for: the time a stop may take, the one line that says so when it took longer, and the
exit code.
Refuses to know: what is being stopped. It must not wait for anything that may hang too: not for the
loop, not for the threads of a client library, not for whoever holds the lock of the log's file.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable

_log = logging.getLogger("regent.process")

STOP_MAX_S = 30.0
"""From the request to stop until the process has ended."""
EXIT_STUCK = 71
"""Asked to stop, and could not."""
LINE_WITHIN_S = 1.0


class LastResort:
    """One use: armed when the stop begins. Not disarmed, it covers also what comes after the last
    line of `run`.
    """

    def __init__(self, who: str, limit_s: float = STOP_MAX_S, code: int = EXIT_STUCK) -> None:
        self._who = who
        self._limit_s = limit_s
        self._code = code
        self._disarmed = threading.Event()
        self._until_s = math.inf
        # A bare lock, and the thread is there before: a signal's handler must not wait for a lock
        # that it interrupted.
        self._begun = threading.Lock()
        self._begun.acquire()
        threading.Thread(target=self._watch, name="last resort", daemon=True).start()

    def arm(self) -> None:
        """The time runs from the first call."""
        if self._until_s == math.inf:
            self.put_off()
        with contextlib.suppress(RuntimeError):
            self._begun.release()

    def put_off(self) -> None:
        """The stop goes on as it should, and takes its time: it runs from now."""
        self._until_s = time.monotonic() + self._limit_s

    def disarm(self) -> None:
        """It has stopped, or never began to, and the process goes on."""
        self._disarmed.set()
        self.arm()

    def _watch(self) -> None:
        self._begun.acquire()
        while (left_s := self._until_s - time.monotonic()) > 0:
            if self._disarmed.wait(left_s):
                return
        self._end()

    def _end(self) -> None:
        line = threading.Thread(target=self._tell, daemon=True)
        line.start()
        line.join(LINE_WITHIN_S)
        os._exit(self._code)

    def _tell(self) -> None:
        _log.critical(
            "%s has not stopped within %g s: something hangs, the process ends with code %d",
            self._who,
            self._limit_s,
            self._code,
        )


def on_stop_signals(stop: Callable[[], object], resort: LastResort) -> None:
    """At SIGTERM and SIGINT call `stop` in the running loop, and `resort.arm` also when the loop
    stands still.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
        # The loop learns of a signal by a byte in its own pipe, whatever handler is installed: this
        # one runs beside it.
        signal.signal(number, lambda *_: resort.arm())
        signal.siginterrupt(number, False)
