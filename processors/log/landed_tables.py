"""What landed of the command log, asked at a controller's start (design S11): a log that is
shorter lost decisions.

Responsible for the question's process and its limit of time. Whoever cannot answer, or is slow,
keeps no controller from starting: the tables are a copy. Refuses to know tables: the lakehouse
answers, in a process of its own.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import time

from events.topics import COMMANDS_TOPIC
from processors.log.health import RESTORE

_log = logging.getLogger("regent.controller.start")

PROGRAM = "lakehouse.tables.landed_end"
WAIT_S = 10.0
"""From the beginning of the start; folding the log goes on meanwhile."""
UNKNOWN = -1
SAID_CHARS_MAX = 300


class LandedTables:
    """One question, put at once; `offset` collects the answer."""

    def __init__(self, tables: str, cluster_id: str, wait_s: float = WAIT_S) -> None:
        """`tables`: folder or URI of the landed tables; empty: there are none."""
        self._tables = tables
        self._until = time.monotonic() + wait_s
        self._asked: subprocess.Popen[str] | None = None
        if tables:
            self._asked = self._ask(cluster_id)

    def _ask(self, cluster_id: str) -> subprocess.Popen[str] | None:
        words = [sys.executable, "-m", PROGRAM, self._tables, cluster_id]
        try:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            _log.warning("the tables in %s cannot be asked: %s", self._tables, error)
            return None

    def offset(self) -> int:
        """The last command that landed; -1 when none has, or when that was not learnt in time."""
        asked, self._asked = self._asked, None
        if asked is None:
            return UNKNOWN
        try:
            said, why = asked.communicate(timeout=max(0.0, self._until - time.monotonic()))
            if asked.returncode == 0:
                return int(said)
        except subprocess.TimeoutExpired:
            asked.kill()
            asked.communicate()
            why = "no answer in time"
        except ValueError:
            why = f"an answer that is no offset: {said[:40]!r}"
        _log.warning(
            "whether the log is as long as the tables in %s is not known: %s",
            self._tables,
            why.strip()[-SAID_CHARS_MAX:],
        )
        return UNKNOWN

    def close(self) -> None:
        """Nobody waits for the answer any more."""
        self._until = 0.0
        if self._asked is not None:
            self._asked.kill()
            self._asked.communicate()
            self._asked = None


def shorter_than_tables(end: int, landed: int, tables: str) -> str:
    """The text for a log that ends, at offset `end`, before what landed."""
    return (
        f"{COMMANDS_TOPIC} ends at offset {end}, but its records up to offset {landed} have landed "
        f"in {tables}: it was cut or made anew; {RESTORE}"
    )
