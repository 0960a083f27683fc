"""The files of what is kept for Java's services: delayOffset.json, messageRequestMode.json,
timermetrics, timercheck.

Responsible for: which table answers which request and is in which file
(`broker-wire-and-storage.md` 2.11, 3.9), and that a file that cannot be read is never taken for an
empty one (S12). Refuses to know: what the tables hold.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from brokers.remoting.codes import RequestCode
from brokers.service.tables.kept_for_java import KeptDocument, TimerCheckPoint
from brokers.store.files.errors import LogError
from brokers.store.files.json_files import (
    DELAY_OFFSET_FILE,
    REQUEST_MODE_FILE,
    TIMER_METRICS_FILE,
    JsonFile,
)
from brokers.store.recovery.checkpoint import replace_file

TIMER_CHECK_POINT_FILE = "timercheck"

Kept = KeptDocument | TimerCheckPoint


class KeptFiles:
    """The kept tables of one broker, by the request that asks for them. LogError when a file is
    damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._writers: dict[Kept, Callable[[], None]] = {}
        self._saved: dict[Kept, object] = {}
        self._lock = threading.Lock()
        self._tables: dict[int, Kept] = {
            RequestCode.GET_ALL_DELAY_OFFSET: self._document(
                folder / DELAY_OFFSET_FILE, KeptDocument("offsetTable")
            ),
            RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: self._document(
                folder / REQUEST_MODE_FILE, KeptDocument("messageRequestModeMap", versioned=False)
            ),
            RequestCode.GET_TIMER_METRICS: self._document(
                folder / TIMER_METRICS_FILE, KeptDocument("timingCount")
            ),
            RequestCode.GET_TIMER_CHECK_POINT: self._check_point(folder / TIMER_CHECK_POINT_FILE),
        }
        self._saved = {table: table.value for table in self._tables.values()}

    def _document(self, path: Path, table: KeptDocument) -> KeptDocument:
        file = JsonFile(path)
        table.value = file.decoded(table.checked) or table.value
        self._writers[table] = lambda: file.save(table.value)
        return table

    def _check_point(self, path: Path) -> TimerCheckPoint:
        table = TimerCheckPoint()
        try:
            table.from_file(path.read_bytes())
        except FileNotFoundError:
            pass
        except ValueError as error:
            raise LogError(f"{path}: {error}; restore the file, or remove it") from None

        def write() -> None:
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, table.to_file())

        self._writers[table] = write
        return table

    @property
    def codes(self) -> tuple[int, ...]:
        return tuple(self._tables)

    def take_over(self, code: int, body: bytes) -> None:
        """A master's answer; `ValueError` when it is no such table."""
        self._tables[code].take_over(body)

    def body(self, code: int, oldest_ms: int) -> bytes:
        """The answer to a slave. `oldest_ms`: store time of the log's first message, or now."""
        return self._tables[code].body(oldest_ms)

    @property
    def unsaved(self) -> bool:
        """Something changed since it was read or written."""
        return any(table.value is not saved for table, saved in self._saved.items())

    def save(self) -> None:
        """Write what changed, on any thread. After an OSError it is still to be written."""
        with self._lock:
            for table, write in self._writers.items():
                value = table.value
                if value is not self._saved[table]:
                    write()  # maybe something newer already: then it is written once more
                    self._saved[table] = value
