"""Where a process's log lines go: one file per process that rotates, else stderr; what is said
again and again is said now and then.

Refuses to know what is logged.
"""

from __future__ import annotations

import asyncio
import logging
import logging.handlers
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

LOG_BYTES_MAX = 10 * 1024 * 1024
LOG_FILES_KEPT = 3
LINE = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
# libraries that report every reconnect at INFO
QUIET = ("aiokafka", "faust", "mode", "kafka", "py4j", "asyncio")
# these say the same many times a second while Kafka is away
REPEATING = (*QUIET, "regent.controller.log", "regent.broker.events.client")
EVERY_S = 10.0
KINDS_MAX = 1_000


class Sparing(logging.Filter):
    """One line of a kind every `EVERY_S`, with how many were left out since the one before."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._now_s = now_s
        self._said: dict[tuple[str, int, str], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """False for what is left out; a kind is a logger, a level and a text without its
        figures.
        """
        if not any(record.name == name or record.name.startswith(f"{name}.") for name in REPEATING):
            return True
        kind, now_s = (record.name, record.levelno, str(record.msg)), self._now_s()
        said_s, left_out = self._said.get(kind, (now_s - EVERY_S, 0))
        if now_s - said_s < EVERY_S:
            self._said[kind] = said_s, left_out + 1
            return False
        if len(self._said) >= KINDS_MAX:
            self._said.clear()
        self._said[kind] = now_s, 0
        if left_out:
            record.msg, record.args = (
                (f"{record.getMessage()} ({left_out} more like this since the last)"),
                (),
            )
        return True


def thread_ended(what: threading.ExceptHookArgs) -> None:
    """A library's thread that is cancelled while it closes is no error; everything else is shown in
    full.
    """
    if issubclass(what.exc_type, asyncio.CancelledError):
        logging.getLogger("regent.process").info(
            "thread %s was cancelled", what.thread.name if what.thread else "?"
        )
    else:
        threading.__excepthook__(what)


def configure(log_file: Path | None, level: str = "INFO") -> None:
    """Send log lines to `log_file`, or to stderr when None. Times are UTC."""
    handler: logging.Handler
    if log_file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        log_file.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            log_file, maxBytes=LOG_BYTES_MAX, backupCount=LOG_FILES_KEPT, encoding="utf-8"
        )
    formatter = logging.Formatter(LINE, "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    handler.addFilter(Sparing())
    threading.excepthook = thread_ended
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
