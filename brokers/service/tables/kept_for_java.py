"""Places of the services that deliver later: ours for delay levels, else kept for Java's timer and
pop services (PROTOCOL 2.11, 3.9, 4.14).

Responsible for: which master's answer is taken over, and what is given on, so that a Java broker
that leads later goes on where the last Java master was. Refuses to know: when a message is due, who
is master, files.

A table that holds nothing says nothing: it never takes the place of one that does. An older one is
harmless, it makes some messages be delivered twice; none at all would deliver everything again, or
nothing.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from brokers.remoting import fastjson
from brokers.remoting.codes import RequestCode
from brokers.service.tables.data_version import DataVersion
from brokers.store.files.durable import replace_file
from brokers.store.files.errors import LogError
from brokers.store.files.json_files import (
    DELAY_OFFSET_FILE,
    ORDERED_POPS_FILE,
    REQUEST_MODE_FILE,
    TIMER_METRICS_FILE,
    JsonFile,
)

TIMER_CHECK_POINT_FILE_BYTES = 4096
TIMER_PRECISION_MS = 1_000
# lastReadTimeMs, lastTimerLogFlushPos, lastTimerQueueOffset, masterTimerQueueOffset, then the
# version
_CHECK_POINT = struct.Struct(">7q")
_VERSION_EPOCH, _VERSION_TIME = 4, 5


class KeptDocument:
    """A JSON object with a table under `key`, taken over as a whole. `value` is replaced, never
    changed.
    """

    def __init__(self, key: str, *, versioned: bool = True) -> None:
        self._key = key
        self.value: dict[str, object] = {
            key: {},
            **({"dataVersion": DataVersion().to_wire()} if versioned else {}),
        }

    def checked(self, document: object) -> dict[str, object]:
        """The document; `ValueError` when it is no such one."""
        if not isinstance(document, dict) or not isinstance(document.get(self._key), Mapping):
            raise ValueError(f"no {self._key}")
        try:
            fastjson.dumps(document)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        return document

    def adopt(self, body: bytes) -> None:
        """`ValueError` when it is no such document."""
        document = self.checked(fastjson.loads(body, fastjson.TABLE_BYTES_MAX))
        if document[self._key] and document != self.value:
            self.value = document

    def body(self, _oldest_ms: int) -> bytes:
        return fastjson.dumps(self.value)

    @property
    def table(self) -> Mapping[str, object]:
        """What it holds under its key."""
        table = self.value[self._key]
        assert isinstance(table, Mapping)
        return table

    @property
    def version(self) -> DataVersion:
        """The version that goes with it."""
        return DataVersion.from_wire(self.value.get("dataVersion"))

    def take(self, table: Mapping[str, object], version: DataVersion) -> None:
        """This table with that version from now on."""
        self.value = {**self.value, self._key: dict(table), "dataVersion": version.to_wire()}

    def put(self, table: Mapping[str, object], wall_ms: int | None) -> None:
        """This broker's own table from now on; with a time its version moves."""
        if wall_ms is None and "dataVersion" not in self.value:
            self.value = {**self.value, self._key: dict(table)}
            return
        version = DataVersion.from_wire(self.value.get("dataVersion"))
        moved = version if wall_ms is None else version.changed(wall_ms)
        self.value = {**self.value, self._key: dict(table), "dataVersion": moved.to_wire()}


class TimerCheckPoint:
    """How far the masters have delivered timer messages. The positions in a broker's own timer log
    stay its own.
    """

    def __init__(self) -> None:
        self.value: tuple[int, ...] = (0,) * 7

    def adopt(self, body: bytes) -> None:
        """What a Java slave takes: the time read up to, the master's place in the timer queue, the
        version. `ValueError`.
        """
        if len(body) != _CHECK_POINT.size:
            raise ValueError(f"{len(body)} bytes are no timer check point")
        fields = _CHECK_POINT.unpack(body)
        taken = (fields[0], *self.value[1:3], *fields[3:])
        if fields[_VERSION_TIME] > 0 and taken != self.value:
            self.value = taken

    @property
    def read_ms(self) -> int:
        """Slots in front of it are delivered; 0: nobody ever did."""
        return max(0, self.value[0])

    @property
    def log_flushed(self) -> int:
        """End of this broker's own timer log, in bytes, when it was flushed last."""
        return max(0, self.value[1])

    @property
    def own_offset(self) -> int:
        """Of the timer queue: what is in front of it is in this broker's own wheel."""
        return max(0, self.value[2])

    @property
    def offset(self) -> int:
        """The same of the master's, for good."""
        return max(0, self.value[3])

    def put(self, fields: tuple[int, int, int, int], epoch: int, wall_ms: int) -> None:
        """This broker's own places from now on, in the order of the file; its version moves."""
        if fields != self.value[:4]:
            self.value = (*fields, epoch, wall_ms, self.value[6] + 1)

    def put_files(self, log_flushed: int, own_offset: int) -> None:
        """How far a slave's own wheel is."""
        if (log_flushed, own_offset) != self.value[1:3]:
            self.value = (self.value[0], log_flushed, own_offset, *self.value[3:])

    def body(self, oldest_ms: int) -> bytes:
        """56 bytes. Where nobody ever delivered, everything since the log's oldest message is still
        to be read.
        """
        read_ms = self.value[0] or oldest_ms // TIMER_PRECISION_MS * TIMER_PRECISION_MS
        return _CHECK_POINT.pack(read_ms, *self.value[1:])

    def to_file(self) -> bytes:
        """File `timercheck`."""
        return _CHECK_POINT.pack(*self.value).ljust(TIMER_CHECK_POINT_FILE_BYTES, b"\0")

    def from_file(self, data: bytes) -> None:
        """`ValueError` when it is too short."""
        if len(data) < _CHECK_POINT.size:
            raise ValueError(f"{len(data)} bytes are no timer check point")
        self.value = _CHECK_POINT.unpack_from(data)


TIMER_CHECK_POINT_FILE = "timercheck"


def forget_timer_epoch(store_dir: Path) -> None:
    """The set changed over: places of an epoch would look newer than all that follows without
    controllers, and older than what the next ones say. OSError; a damaged file stays as it is.
    """
    path, table = store_dir / "config" / TIMER_CHECK_POINT_FILE, TimerCheckPoint()
    try:
        table.from_file(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return
    if table.value[_VERSION_EPOCH]:
        table.value = (*table.value[:_VERSION_EPOCH], 0, *table.value[_VERSION_EPOCH + 1 :])
        replace_file(path, table.to_file())


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
            RequestCode.REGENT_ORDERED_POPS: self._document(
                folder / ORDERED_POPS_FILE, KeptDocument("table", versioned=False)
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

    def adopt(self, code: int, body: bytes) -> None:
        """A master's answer; `ValueError` when it is no such table."""
        self._tables[code].adopt(body)

    def body(self, code: int, oldest_ms: int) -> bytes:
        """The answer to a slave. `oldest_ms`: store time of the log's first message, or now."""
        return self._tables[code].body(oldest_ms)

    def table(self, code: int) -> Mapping[str, object]:
        """What the document of this code holds."""
        document = self._tables[code]
        assert isinstance(document, KeptDocument)
        return document.table

    @property
    def delays(self) -> KeptDocument:
        """How far delay levels are delivered."""
        document = self._tables[RequestCode.GET_ALL_DELAY_OFFSET]
        assert isinstance(document, KeptDocument)
        return document

    def put(self, code: int, table: Mapping[str, object], wall_ms: int | None) -> None:
        """A service of this broker keeps its own places here; with a time the version moves."""
        document = self._tables[code]
        assert isinstance(document, KeptDocument)
        document.put(table, wall_ms)

    @property
    def timer_check_point(self) -> TimerCheckPoint:
        """How far timed messages are delivered."""
        table = self._tables[RequestCode.GET_TIMER_CHECK_POINT]
        assert isinstance(table, TimerCheckPoint)
        return table

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
