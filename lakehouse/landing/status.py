"""What the landing job says of itself, in one small file.

Responsible for writing it whole or not at all, for reading it, and for waiting until it shows
that given records have landed. Refuses to know Spark and Kafka.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lakehouse.errors import NotLanded

STATUS_FILE = "status.json"
SILENT_MS_MAX, STARTS_MS_MAX = 60_000, 600_000
"""A job that lands writes its status every few seconds; one that starts waits for Spark, or for the
log.
"""
POLL_MS = 50


@dataclass(frozen=True, slots=True)
class LandingStatus:
    """State of the landing job; offsets are the next ones to land, keys are `topic-partition`."""

    ready: bool = False
    pid: int = 0
    stage: str = "starting"
    landed: dict[str, int] = field(default_factory=dict)
    """Landed in bronze and, for outcomes, in silver/decisions."""
    detailed: dict[str, int] = field(default_factory=dict)
    """Landed in all other silver tables too."""
    batches: int = 0
    rows: int = 0
    last_batch_ms: int = 0
    updated_at_ms: int = 0
    error: str | None = None
    lag_records: dict[str, int] = field(default_factory=dict)
    """Records of the log that have not landed in bronze, when it was asked last."""
    lag_ms: dict[str, int] = field(default_factory=dict)
    """For how long the oldest of them has been in the log."""
    lost_records: dict[str, int] = field(default_factory=dict)
    """Records that were gone from the log before they landed, and are noted."""
    alarms: int | None = None
    """Alarms of the check that stand; None before its first round."""
    troubles: dict[str, str] = field(default_factory=dict)
    """Activities beside landing whose last round failed, and why."""
    metrics: str | None = None
    """Where Prometheus finds the metrics, host:port."""


@dataclass(frozen=True, slots=True)
class Standstill:
    """Why nothing lands, and what to do about it; a sentence each."""

    text: str
    way_out: str
    is_certain: bool = True
    """False: the job is still starting, for longer than one needs."""


def standstill(found: LandingStatus, *, lives: bool, now_ms: int) -> Standstill | None:
    """What one status says at `now_ms` of the wall clock; `lives`: its process does. None while the
    job does what it should.
    """
    name, silent_ms = f"the landing job (pid {found.pid})", now_ms - found.updated_at_ms
    if found.error is not None:
        return Standstill(
            f"the landing job failed: {found.error}", "Put that right, and start it again."
        )
    if not lives:
        return Standstill(
            f"{name} does not run; its last stage: {found.stage}",
            "Start it again: it goes on where it was.",
        )
    if found.ready and silent_ms > SILENT_MS_MAX:
        return Standstill(
            f"{name} has said nothing for {silent_ms / 1000:.0f} s",
            "It stands still, or another process has its number: end it, and start it again.",
        )
    if not found.ready and silent_ms > STARTS_MS_MAX:
        return Standstill(
            f"{name} is at '{found.stage}' for {silent_ms / 1000:.0f} s",
            "What it waits for:",
            is_certain=False,
        )
    return None


class StatusFile:
    """Writer of the status; safe to call from the threads of several queries."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / STATUS_FILE
        self._lock = threading.Lock()
        self._status = LandingStatus(pid=os.getpid())
        self.on_batch: Callable[[str, int, int], None] = lambda which, rows, taken_ms: None
        """Gets each batch: its query, its rows, how many ms it took."""

    @property
    def status(self) -> LandingStatus:
        """The last status that was written."""
        return self._status

    def update(self, **changes: Any) -> None:
        """Change some fields and replace the file at once."""
        with self._lock:
            self._status = replace(
                self._status, updated_at_ms=time.time_ns() // 1_000_000, **changes
            )
            self._write()

    def troubled(self, activity: str, why: str | None) -> None:
        """An activity beside landing has failed, or None: it has not."""
        with self._lock:
            known = {name: text for name, text in self._status.troubles.items() if name != activity}
            changed = known if why is None else {**known, activity: why}
        if changed != self._status.troubles:
            self.update(troubles=changed)

    def batch_done(self, which: str, next_offsets: Mapping[str, int], rows: int, ms: int) -> None:
        """Note a batch: `which` is `landed` or `detailed`."""
        self.on_batch(which, rows, ms)
        with self._lock:
            status = self._status
            known = dict(getattr(status, which))
            known.update(next_offsets)
            counted: dict[str, Any] = (
                {}
                if which != "landed"
                else {
                    "batches": status.batches + 1,
                    "rows": status.rows + rows,
                    "last_batch_ms": ms,
                }
            )
            self._status = replace(
                status, updated_at_ms=time.time_ns() // 1_000_000, **(counted | {which: known})
            )
            self._write()

    def _write(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self._status), sort_keys=True), encoding="utf-8")
        part.replace(self._path)


def read_status(directory: Path) -> LandingStatus | None:
    """The landing job's last word, None if there is none. ValueError: these are no such words."""
    try:
        values = json.loads((directory / STATUS_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if not isinstance(values, dict):
        raise ValueError(f"{STATUS_FILE} holds no status")
    known = LandingStatus.__dataclass_fields__
    return LandingStatus(**{name: value for name, value in values.items() if name in known})


def missing_offsets(
    status: LandingStatus | None, ends: Mapping[str, int], *, details: bool = True
) -> dict[str, tuple[int, int]]:
    """Partitions that are not landed up to `ends` (exclusive): name -> (landed, wanted)."""
    landed: dict[str, int] = {}
    if status is not None:
        landed = {name: status.landed.get(name, 0) for name in ends}
        if details:
            landed = {name: min(at, status.detailed.get(name, 0)) for name, at in landed.items()}
    return {
        name: (landed.get(name, 0), end) for name, end in ends.items() if landed.get(name, 0) < end
    }


def wait_for_landed(
    directory: Path, ends: Mapping[str, int], timeout_ms: int, *, details: bool = True
) -> LandingStatus:
    """Wait until every partition is landed up to its end offset (exclusive).

    Raises `NotLanded` at the timeout, or at once when the job has stopped with an error.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        status = read_status(directory)
        missing = missing_offsets(status, ends, details=details)
        if status is not None and not missing:
            return status
        if status is not None and status.error:
            raise NotLanded(f"the landing job has stopped: {status.error}")
        if time.monotonic() >= deadline:
            text = ", ".join(f"{name} {at} of {end}" for name, (at, end) in missing.items())
            raise NotLanded(f"not landed within {timeout_ms} ms: {text or 'no status file'}")
        time.sleep(POLL_MS / 1000)
