"""How far this replica's log was durable and confirmed, kept beside the log (design S15).

Responsible for: the file `heldPosition` in the store's root: newest epoch and offset below which
everything was on this disk, and confirmed: what this id has acknowledged of it binds it. Refuses to
know: what a start below it means.

It follows the checkpoint by `KEEP_EVERY_MS` at most while the log grows, exactly at an orderly end;
what was acknowledged after that only its master and the controllers know. It lies beside identity
and run marker, in a file of its own: whoever puts back or loses log, checkpoint or epochs alone is
noticed. A cut below it lowers it first.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from brokers.store.files.disk_space import full_disk_told
from brokers.store.files.durable import replace_file
from brokers.store.recovery.boot import HELD_NAME

HELD_BYTES_MAX = 256
KEEP_EVERY_MS = 5_000
OFFSET_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Held:
    """Everything below `offset` (bytes) was here; `epoch`: of its last byte, -1 when not known."""

    epoch: int
    offset: int


class HeldPosition:
    """One store's file. Methods may be called on any thread."""

    def __init__(self, store_dir: Path) -> None:
        self._path = store_dir / HELD_NAME
        self._lock = threading.Lock()
        self._held = read_held(self._path)
        self._cuts = 0
        self._due_ms: int | None = None

    @property
    def held(self) -> Held | None:
        """As last written; None: never, or it cannot be read."""
        return self._held

    def keep_job(self, held: Held, now_ms: int) -> Callable[[], None] | None:
        """What writes it down, to be called on any thread (OSError, DiskFull); None when that is
        not due.
        """
        if held == self._held or (self._due_ms is not None and now_ms < self._due_ms):
            return None
        self._due_ms, cuts = now_ms + KEEP_EVERY_MS, self._cuts

        def run() -> None:
            with self._lock, full_disk_told("the held position cannot be written"):
                if cuts == self._cuts:  # else the log was cut meanwhile, perhaps below it
                    self._write(held)

        return run

    def keep(self, held: Held) -> None:
        """At a start and an orderly end: now. OSError."""
        with self._lock:
            if held != self._held:
                self._write(held)

    def cut(self, offset: int) -> None:
        """The log is about to be cut there; durable before the first byte goes. OSError."""
        with self._lock:
            self._cuts += 1
            if self._held is not None and self._held.offset > offset:
                self._write(Held(-1, offset))

    def _write(self, held: Held) -> None:
        replace_file(
            self._path, json.dumps({"epoch": held.epoch, "offset": held.offset}).encode("ascii")
        )
        self._held = held


def forget_epoch(store_dir: Path) -> None:
    """The epochs of this folder are others from now on; how far it held its log stays. OSError."""
    position = HeldPosition(store_dir)
    if position.held is not None:
        position.keep(Held(-1, position.held.offset))


def read_held(path: Path) -> Held | None:
    """None when it is missing or makes no sense: nothing is known then."""
    try:
        with path.open("rb") as file:
            content = json.loads(file.read(HELD_BYTES_MAX))
        epoch, offset = content["epoch"], content["offset"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None
    if (
        type(epoch) is not int
        or type(offset) is not int
        or not 0 <= offset <= OFFSET_MAX
        or epoch < -1
    ):
        return None
    return Held(epoch, offset)
