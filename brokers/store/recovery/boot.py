"""What this start of the broker is: its incarnation, and whether the last one may have lost written
bytes.

Responsible for: the incarnation id, the boot id of the machine, the run marker on disk (design S5).
Refuses to know: what an unclean start means for the SyncStateSet; the controller decides that.

A mere `kill -9` is clean: what was written stays in the page cache. Unclean is a start after which
written bytes may be missing: the machine booted in between without a flushed exit before, or an I/O
error was noted.

A Java broker may have used the folder since; it keeps no run marker, and ours then speaks of a run
that was not the last. Its `abort` file and what it wrote into the checkpoint tell.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from brokers.store.files.durable import ABORT_NAME, replace_file
from brokers.store.recovery.checkpoint import content_mark

MARKER_NAME = "runMarker"
HELD_NAME = "heldPosition"
MARKER_BYTES_MAX = 4096
# Written only by a process whose marker was durable before: alone, they were put back after the
# disk was lost (S15).
EARLIER_LIFE_NAMES = (
    "brokerIdentity",
    "epochFileCheckpoint",
    "epochFileCheckpoint.bak",
    "epochFileCheckpointSeen",
    HELD_NAME,
)
STAT_PATH = Path("/proc/stat")
BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Boot:
    """One start of a broker process; `reason` says why it counts as clean or not.

    `same_boot`: the machine did not restart since the last run, so what was written is there even
    without a flush. `trusted_end`: offset above which the log may be torn, of an unclean start;
    None: not known (yet). `log_end`: where the log ended when the last run of ours ended in order;
    None: it did not, or did not say.
    """

    incarnation: str
    boot_id: str
    clean: bool
    reason: str
    same_boot: bool
    trusted_end: int | None = None
    log_end: int | None = None


@dataclass(frozen=True, slots=True)
class Traces:
    """What a folder shows of its last user. `abort`: it did not end in order; `abort_this_boot`: it
    began after the machine did. `checkpoint`: content mark of the checkpoint, 0 without one.
    `earlier_life`: a file of one is there that is only written after the run marker.
    """

    abort: bool = False
    abort_this_boot: bool = False
    checkpoint: int = 0
    earlier_life: bool = False


def machine_boot_id(path: Path = BOOT_ID_PATH) -> str:
    """The boot id of the running kernel; empty where the system does not tell."""
    try:
        return path.read_text("ascii").strip()
    except OSError:
        return ""


def machine_boot_s(path: Path = STAT_PATH) -> float | None:
    """When the running kernel started (s since 1970), None where the system does not tell."""
    try:
        lines = path.read_text("ascii").splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), None)
    except (OSError, ValueError):
        return None


def judge(
    marker: dict[str, object] | None, boot_id: str, store_has_data: bool, traces: Traces = Traces()
) -> tuple[bool, str]:
    """Whether written bytes survived since the last run, from its marker and traces: (clean,
    reason).
    """
    if marker is None:
        if not store_has_data and not traces.earlier_life:
            return True, "first_start"
        if traces.checkpoint:
            return _by_traces(traces)
        return False, "no_marker" if store_has_data else "identity_without_marker"
    if marker.get("io_error"):
        return False, "io_error"
    flushed, same_boot = (
        marker.get("flushed_exit") is True,
        bool(boot_id) and marker.get("boot_id") == boot_id,
    )
    if flushed and not _used_since(marker, traces):
        return True, "flushed_exit"
    if same_boot:
        return True, "same_boot"
    return _by_traces(traces) if flushed else (False, "other_boot")


def _used_since(marker: dict[str, object], traces: Traces) -> bool:
    """Whether another broker opened the store after the orderly end that the marker records."""
    return traces.abort or marker.get("checkpoint", traces.checkpoint) != traces.checkpoint


def _by_traces(traces: Traces) -> tuple[bool, str]:
    if not traces.abort:
        return True, "foreign_flushed_exit"
    return (True, "foreign_same_boot") if traces.abort_this_boot else (False, "foreign_other_boot")


class BootMarker:
    """The run marker file of one store folder."""

    def __init__(self, store_dir: Path) -> None:
        self.path = store_dir / MARKER_NAME
        self._content: dict[str, object] = {}

    def examine(self, store_has_data: bool, boot_id: str | None = None) -> Boot:
        """Judge the last run; changes nothing yet, since the folder may turn out to be in use."""
        boot_id = machine_boot_id() if boot_id is None else boot_id
        marker = self._read()
        clean, reason = judge(marker, boot_id, store_has_data, self._traces())
        same_boot = bool(boot_id) and marker is not None and marker.get("boot_id") == boot_id
        trusted, log_end = (
            (None, None) if marker is None else (_trusted(marker), marker.get("log_end"))
        )
        return Boot(
            uuid.uuid4().hex,
            boot_id,
            clean,
            reason,
            same_boot or reason == "foreign_same_boot",
            None if clean else trusted,
            log_end if type(log_end) is int and reason == "flushed_exit" else None,
        )

    def _traces(self) -> Traces:
        store_dir, started = self.path.parent, machine_boot_s()
        lived = any((store_dir / name).exists() for name in EARLIER_LIFE_NAMES)
        try:
            begun = (store_dir / ABORT_NAME).stat().st_mtime
        except FileNotFoundError:
            return Traces(checkpoint=content_mark(store_dir), earlier_life=lived)
        this_boot = started is not None and started < begun <= time.time()
        return Traces(True, this_boot, content_mark(store_dir), lived)

    def begin(self, boot: Boot) -> None:
        """Mark this run as running; before anything else is written."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # An unclean state stays on record until the replica has caught up: another kill must not
        # wash it off.
        self._content = {
            "boot_id": boot.boot_id,
            "incarnation": boot.incarnation,
            "flushed_exit": False,
            "io_error": not boot.clean,
            "trusted_end": boot.trusted_end,
        }
        self._write()

    def caught_up(self) -> None:
        """The replica holds again all that its master confirmed; earlier losses are made good."""
        if self._content.get("io_error"):
            self._content["io_error"] = False
            self._content["trusted_end"] = None
            self._write()

    def io_error(self) -> None:
        """A disk operation failed: the next start is unclean whatever follows."""
        self._content["io_error"] = True
        try:
            self._write()
        except OSError:
            # A disk that takes no bytes may still let go of some: a marker that cannot be read
            # counts as unclean too.
            with contextlib.suppress(OSError):
                os.truncate(self.path, 0)

    def flushed_exit(self, log_end: int | None = None) -> None:
        """Everything is on disk; the last thing a clean stop does."""
        self._content |= {
            "flushed_exit": True,
            "checkpoint": content_mark(self.path.parent),
            "log_end": log_end,
        }
        self._write()

    def _read(self) -> dict[str, object] | None:
        try:
            data = self.path.read_bytes()[:MARKER_BYTES_MAX]
        except FileNotFoundError:
            return None
        try:
            content = json.loads(data)
        except ValueError:
            return {"io_error": True}
        return content if isinstance(content, dict) else {"io_error": True}

    def _write(self) -> None:
        replace_file(self.path, json.dumps(self._content, sort_keys=True).encode("ascii"))


def _trusted(marker: dict[str, object]) -> int | None:
    """What an earlier start could trust of the log, as long as it has not caught up since."""
    value = marker.get("trusted_end") if marker.get("io_error") else None
    return value if type(value) is int and value >= 0 else None
