"""What this start of the broker is: its incarnation, and whether the last one may have lost written bytes.

Responsible for: the incarnation id, the boot id of the machine, the run marker on disk (design S5).
Refuses to know: what an unclean start means for the SyncStateSet; the controller decides that.

A mere `kill -9` is clean: what was written stays in the page cache. Unclean is a start after which written bytes may
be missing: the machine booted in between without a flushed exit before, or an I/O error was noted.
"""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path

from brokers.log.checkpoint import replace_file

MARKER_NAME = "runMarker"
MARKER_BYTES_MAX = 4096
BOOT_ID_PATH = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Boot:
    """One start of a broker process; `reason` says why it counts as clean or not.

    `same_boot`: the machine did not restart since the last run, so what was written is there even without a flush.
    `trusted_end`: offset above which the log may be torn, of an unclean start; None: not known (yet).
    """

    incarnation: str
    boot_id: str
    clean: bool
    reason: str
    same_boot: bool
    trusted_end: int | None = None


def machine_boot_id(path: Path = BOOT_ID_PATH) -> str:
    """The boot id of the running kernel; empty where the system does not tell."""
    try:
        return path.read_text("ascii").strip()
    except OSError:
        return ""


def judge(marker: dict[str, object] | None, boot_id: str, store_has_data: bool) -> tuple[bool, str]:
    """Whether written bytes survived since the last run, from its marker: (clean, reason)."""
    if marker is None:
        return (False, "no_marker") if store_has_data else (True, "first_start")
    if marker.get("io_error"):
        return False, "io_error"
    if marker.get("flushed_exit") is True:
        return True, "flushed_exit"
    if boot_id and marker.get("boot_id") == boot_id:
        return True, "same_boot"
    return False, "other_boot"


class BootMarker:
    """The run marker file of one store folder."""

    def __init__(self, store_dir: Path) -> None:
        self.path = store_dir / MARKER_NAME
        self._content: dict[str, object] = {}

    def examine(self, store_has_data: bool, boot_id: str | None = None) -> Boot:
        """Judge the last run; changes nothing yet, since the folder may turn out to be in use."""
        boot_id = machine_boot_id() if boot_id is None else boot_id
        marker = self._read()
        clean, reason = judge(marker, boot_id, store_has_data)
        same_boot = bool(boot_id) and marker is not None and marker.get("boot_id") == boot_id
        return Boot(uuid.uuid4().hex, boot_id, clean, reason, same_boot, None if clean else _offset(marker))

    def begin(self, boot: Boot) -> None:
        """Mark this run as running; before anything else is written."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # An unclean state stays on record until the replica has caught up: another kill must not wash it off.
        self._content = {
            "boot_id": boot.boot_id, "incarnation": boot.incarnation, "flushed_exit": False, "io_error": not boot.clean,
            "trusted_end": boot.trusted_end,
        }  # fmt: skip
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
            # A disk that takes no bytes may still let go of some: a marker that cannot be read counts as unclean too.
            with contextlib.suppress(OSError):
                os.truncate(self.path, 0)

    def flushed_exit(self) -> None:
        """Everything is on disk; the last thing a clean stop does."""
        self._content["flushed_exit"] = True
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


def _offset(marker: dict[str, object] | None) -> int | None:
    """What an earlier start could trust of the log, as long as it has not caught up since."""
    value = None if marker is None or not marker.get("io_error") else marker.get("trusted_end")
    return value if type(value) is int and value >= 0 else None
