"""Where a process's log lines go: one file per process that rotates, warnings to stderr as well when asked.

Refuses to know what is logged.
"""

from __future__ import annotations

import logging
import logging.handlers
import sys
import time
from pathlib import Path

LOG_BYTES_MAX = 10 * 1024 * 1024
LOG_FILES_KEPT = 3
LINE = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"
# libraries that report every reconnect at INFO
QUIET = ("aiokafka", "faust", "mode", "kafka", "py4j", "asyncio")


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
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
