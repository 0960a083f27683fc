"""The data folder of one local cluster: its version, its lock, its plan, and what the supervisor
says of itself.

    regent.json    format, release, cluster id, purpose, options: written once
    lock           held by the running supervisor; the file carries its pid
    cluster.json   state, steps and processes with pid and addresses: replaced whole by the
    supervisor
    requests/      one file per request to the supervisor, answered beside it
    config/ logs/  one file per process
    data/NAME/     what a process keeps

Refuses to know how processes are started or what they do.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.problems import Problem
from infra.processes import children

FORMAT = 1
VERSION_FILE = "regent.json"
REQUEST_POLL_S = 0.02
STARTING = "starting.*"
"""What a supervisor is told and says before it has made the folder's parts."""
NOT_OURS = ("lost+found",)
"""What a new file system brings along: a folder with nothing else is empty."""
PARTS = ("config", "logs", "requests", "data")
"""Made before regent.json says whose they are: a start that is killed between leaves them empty."""
ROOM_BYTES_MIN = 256 << 20
"""Below this nothing starts: Kafka and the brokers need it for their first files."""
LOOK_S = 0.5
"""A look whether a cluster runs (`is_running`) holds the lock for a moment, on a busy machine for a
longer one.
"""


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Paths and files below one folder. Opening checks nothing; `require` does."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def tables(self) -> Path:
        return self.root / "data" / "tables"

    @property
    def landing(self) -> Path:
        """Where the landing job keeps its status."""
        return self.data_of("land")

    @property
    def anchors(self) -> Path:
        """The landing job's anchors: outside of the tables."""
        return self.landing / "anchors.jsonl"

    def data_of(self, name: str) -> Path:
        return self.root / "data" / name

    def config_of(self, name: str) -> Path:
        return self.config / f"{name}.toml"

    def log_of(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def output_of(self, name: str) -> Path:
        """What the process wrote to stdout and stderr: as a rule only why it died."""
        return self.logs / f"{name}.out"

    def starting_output(self, pid: int) -> Path:
        """What a supervisor writes until its logs have a place. Inside of the folder: that may be a
        file system of its own.
        """
        return self.root / STARTING.replace("*", f"{pid}.out")

    def starting_places(self, pid: int) -> Path:
        """What the process `pid` gives a supervisor as `--places`."""
        return self.root / STARTING.replace("*", f"{pid}.json")

    def require_room(self) -> None:
        """Problem when nothing can be written here, or too little. The folder need not be there."""
        place = self.root
        while not place.exists():
            place = place.parent
        if not os.access(place, os.W_OK | os.X_OK):
            raise Problem(
                f"{place} cannot be written by this user, or is mounted read-only",
                "Use another --dir, or give the right to write.",
            )
        free = shutil.disk_usage(place).free
        if free < ROOM_BYTES_MIN:
            raise Problem(
                f"the disk of {place} has {free >> 20} MiB free, a cluster starts with "
                f"{ROOM_BYTES_MIN >> 20} MiB",
                "Make room, or use another --dir.",
            )

    # -- version -----------------------------------------------------------------------------------

    def identity(self) -> dict[str, Any] | None:
        """The content of regent.json, None when the folder is not there or empty. Problem when it
        is not ours.
        """
        way_out = "Use another --dir, or remove the folder if it may go."
        if self.root.exists() and not self.root.is_dir():
            raise Problem(f"{self.root} is not a folder", "Use another --dir.")
        if not self.root.exists() or self._is_empty():
            return None
        path = self.root / VERSION_FILE
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise Problem(f"{self.root} holds other files and no {VERSION_FILE}", way_out) from None
        except (OSError, ValueError) as error:
            raise Problem(f"{path} cannot be read: {error}", way_out) from error
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            version = found.get("format") if isinstance(found, dict) else "?"
            raise Problem(
                f"data folder {self.root} is of another version: {version}, this release has "
                f"{FORMAT}",
                way_out,
            )
        if not (
            isinstance(found.get("cluster_id"), str) and isinstance(found.get("options"), dict)
        ):
            raise Problem(f"{path} is not whole: it has no cluster_id or no options", way_out)
        return found

    def _is_empty(self) -> bool:
        return all(map(_is_nothing, self.root.iterdir()))

    def create(self, purpose: str, options: Mapping[str, Any], release: str) -> dict[str, Any]:
        """Make the folder and its regent.json."""
        for name in PARTS:
            (self.root / name).mkdir(parents=True, exist_ok=True)
        identity = {
            "format": FORMAT,
            "release": release,
            "cluster_id": f"regent-{uuid.uuid4().hex[:12]}",
            "purpose": purpose,
            "created_at_ms": time.time_ns() // 1_000_000,
            "options": dict(options),
        }
        write_json(self.root / VERSION_FILE, identity)
        return identity

    def require(self) -> dict[str, Any]:
        """The identity of an existing folder, or a Problem that says how to get one."""
        identity = self.identity()
        if identity is None:
            raise Problem(
                f"no cluster in {self.root}",
                "Start one with 'regent up', or name its folder with --dir.",
                2,
            )
        return identity

    def remove(self) -> None:
        """Remove the folder and all in it. What says whose it is goes last: a removal that is cut
        off is finished by the next one. Problem when something stays.
        """
        for path in self._all_but_identity():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with suppress(OSError):
                    path.unlink()
        if left := self._all_but_identity():
            raise Problem(
                f"{left[0]} cannot be removed", "End what writes there, or use another --dir."
            )
        shutil.rmtree(self.root, ignore_errors=True)

    def _all_but_identity(self) -> list[Path]:
        if not self.root.exists():
            return []
        return [path for path in self.root.iterdir() if path.name not in (VERSION_FILE, *NOT_OURS)]

    # -- lock --------------------------------------------------------------------------------------

    def lock(self) -> int:
        """Take the supervisor's lock; gives the open file. Problem when a cluster runs here."""
        handle = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        if not _locked(handle):
            holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(handle)
            raise Problem(
                f"data folder {self.root} is in use by a running cluster (supervisor pid {holder})",
                f"'regent down --dir {self.root}' stops it; or use another --dir.",
            )
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        self._forget_requests()
        return handle

    def _forget_requests(self) -> None:
        """Drop what an earlier supervisor was asked and did not hear: whoever asked was killed with
        it, or was told that it does not answer.
        """
        for path in (self.root / "requests").glob("*"):
            path.unlink(missing_ok=True)

    def is_running(self) -> bool:
        """A supervisor holds the lock."""
        try:
            handle = os.open(self.root / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(handle)
        return False

    @contextmanager
    def only_one(self, name: str, what: str) -> Iterator[None]:
        """Nobody else does `what` here meanwhile; Problem when somebody does."""
        handle = os.open(self.root / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            if not _locked(handle):
                holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "unknown"
                raise Problem(
                    f"{what} is under way in {self.root} already (pid {holder})",
                    "Wait until it has ended, or end it with Ctrl-C.",
                )
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(handle)

    # -- cluster.json ------------------------------------------------------------------------------

    def cluster(self) -> dict[str, Any] | None:
        """The supervisor's last word, None when there is none."""
        try:
            found = json.loads((self.root / "cluster.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) else None

    def write_cluster(self, value: Mapping[str, Any]) -> None:
        """Replace cluster.json at once."""
        write_json(self.root / "cluster.json", value)

    def running_cluster(self) -> dict[str, Any]:
        """cluster.json of a cluster that runs, else a Problem."""
        self.require()
        found = self.cluster()
        if found is None or not self.is_running():
            raise Problem(
                f"the cluster in {self.root} is not running",
                f"Start it: 'regent up --dir {self.root}'.",
            )
        return found

    def leftovers(self) -> list[dict[str, Any]]:
        """Processes of an earlier supervisor that still live although it does not."""
        found = self.cluster()
        if found is None or self.is_running():
            return []
        return [
            one
            for one in found.get("processes", [])
            if one.get("pid")
            and children.is_alive(one["pid"])
            and one.get("stamp") == children.start_stamp(one["pid"])
        ]

    # -- requests ----------------------------------------------------------------------------------

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Put a request to the running supervisor and wait for the answer. Problem when it refuses
        or is silent.
        """
        name = uuid.uuid4().hex
        question = self.root / "requests" / f"{name}.request"
        answer = self.root / "requests" / f"{name}.answer"
        write_json(question, request)
        deadline = time.monotonic() + timeout_s
        while not answer.exists():
            if time.monotonic() > deadline or not self.is_running():
                question.unlink(missing_ok=True)
                raise Problem(
                    f"the supervisor of {self.root} does not answer",
                    "See logs/supervisor.out there.",
                )
            time.sleep(REQUEST_POLL_S)
        found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        answer.unlink(missing_ok=True)
        if found.get("problem"):
            raise Problem(found["problem"], "")
        return found

    def pending(self) -> list[tuple[Path, dict[str, Any]]]:
        """Requests that wait, oldest first; a torn one is dropped."""
        waiting = []
        for path in sorted(
            (self.root / "requests").glob("*.request"), key=lambda p: p.stat().st_mtime_ns
        ):
            try:
                waiting.append((path, json.loads(path.read_text(encoding="utf-8"))))
            except (OSError, ValueError):
                path.unlink(missing_ok=True)
        return waiting

    def answer(self, question: Path, value: Mapping[str, Any]) -> None:
        """Answer a request; the question goes away first so that it is served once."""
        question.unlink(missing_ok=True)
        write_json(question.with_suffix(".answer"), value)


def _is_nothing(path: Path) -> bool:
    """Of what lies in a folder without an identity: nobody misses it."""
    if path.name in PARTS:
        return path.is_dir() and not any(path.iterdir())
    return path.name in NOT_OURS or path.match(STARTING) or path.match(f"{VERSION_FILE}.*.part")


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(
        json.dumps(value, indent=1, sort_keys=False, default=str) + "\n", encoding="utf-8"
    )
    part.replace(path)


def _locked(handle: int) -> bool:
    """Take the lock for oneself; False when somebody keeps it."""
    until = time.monotonic() + LOOK_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > until:
                return False
        time.sleep(REQUEST_POLL_S)
