"""A local cluster through the command line's own verbs, as a person starts, hits and stops it.

Everything it ever ran is ended by `end`, also after a failed test; the processes are known by pid
and start stamp. Should the test itself be killed, a watchdog ends the supervisor, and with it all
that it runs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from infra.cluster.data_folder import DataFolder
from infra.cluster.running import DemoCluster, SetView
from infra.processes import children
from infra.processes.watchdog_link import WatchdogLink

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "infra")
# no healthy run needs as long; a run on a busy machine may need a good part of it
VERB_LIMIT_S = 240.0
DEMO_LIMIT_S = 900
WAIT_S = 90.0
POLL_S = 0.05
UNHURRIED = {"send_queue_wait_ms": 60_000, "page_cache_busy_ms": 60_000}


def unhurried_places(home: Path, **kinds: object) -> tuple[str, ...]:
    """Flags of `regent up` by which no send is refused because the machine let it wait for a
    moment. `kinds`: what else `--places` says.
    """
    path = home / "places.json"
    path.write_text(json.dumps({"broker": {"config": UNHURRIED}, **kinds}))
    return ("--places", str(path))


def regent(
    *words: str,
    limit_s: float = VERB_LIMIT_S,
    environ: dict[str, str] | None = None,
    prefix: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run one verb to its end; `prefix`: words before the command, which say where it runs."""
    return subprocess.run(
        [*prefix, *COMMAND, *words],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def run_demo(folder: Path, *flags: str) -> tuple[int, dict[str, Any], str]:
    """A demo in that folder to its end: its exit code, its report, its progress."""
    done = regent("demo", *flags, "--json", "--dir", str(folder), limit_s=DEMO_LIMIT_S)
    return done.returncode, json.loads(done.stdout), done.stderr


def wait_until(
    condition: Callable[[], bool], what: str, limit_s: float = WAIT_S, poll_s: float = POLL_S
) -> None:
    """Wait for a condition; fails after a time no healthy run needs."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {limit_s:.0f} s until {what}"
        time.sleep(poll_s)


class LocalCluster:
    """One data folder and what runs in it. `flags` are those of `regent up`."""

    def __init__(self, root: Path, *flags: str) -> None:
        self.folder = DataFolder(root)
        self.view = DemoCluster(self.folder, self._remember)
        self._flags = flags
        self._seen: set[tuple[int, str]] = set()
        self._watchdog = WatchdogLink()
        self._guarded: int | None = None

    def up(self) -> str:
        """Start it and return when everything answers; gives what was printed."""
        done = regent("up", "--dir", str(self.folder.root), "--detach", "--no-land", *self._flags)
        self._remember()
        assert done.returncode == 0, f"regent up: {done.stdout}{done.stderr}{self.last_words()}"
        self._unguard()
        self._guarded = self.supervisor_pid
        self._watchdog.start()
        self._watchdog.add(self._guarded)
        return done.stdout

    def down(self) -> None:
        """Stop it in order."""
        self._remember()
        done = regent("down", "--dir", str(self.folder.root))
        assert done.returncode == 0, f"regent down: {done.stdout}{done.stderr}"
        # the verb returns when the folder is free, a moment before the supervisor itself is gone
        wait_until(lambda: not self.living(), "nothing lives that 'regent down' has stopped")
        self._unguard()

    def end(self) -> None:
        """End whatever is left, the hard way; also what an interrupted `up` was about to start.
        Then nobody writes into the folder.
        """
        self._remember()
        end_starting(self.folder.root)
        wait_until(self._kill_living, "nothing lives that was killed")
        self._unguard()

    def _kill_living(self) -> bool:
        """True once there is nothing left to kill."""
        living = self.living()
        for pid in living:
            children.kill_group(pid, signal.SIGCONT)
            children.kill_group(pid)
            # a group whose first process has ended is not found by it
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not living

    def _unguard(self) -> None:
        """The supervisor has ended: its number may come again for somebody else."""
        if self._guarded is not None:
            self._watchdog.drop(self._guarded)
            self._watchdog.close()
        self._guarded = None

    # -- processes ---------------------------------------------------------------------------------

    @property
    def name_servers(self) -> list[str]:
        return list((self.folder.cluster() or {})["name_servers"])

    @property
    def bootstrap(self) -> str:
        return str((self.folder.cluster() or {})["kafka"]["bootstrap.servers"])

    @property
    def supervisor_pid(self) -> int:
        return int((self.folder.cluster() or {})["supervisor"]["pid"])

    def processes(self, kind: str | None = None) -> list[dict[str, Any]]:
        found = (self.folder.cluster() or {}).get("processes", [])
        return [one for one in found if kind is None or one["kind"] == kind]

    def process(self, name: str) -> dict[str, Any]:
        return next(one for one in self.processes() if one["name"] == name)

    def kill(self, name: str) -> int:
        """`kill -9` one process; gives its pid."""
        return self.strike(name, signal.SIGKILL)

    def strike(self, name: str, blow: signal.Signals) -> int:
        """Send one process a signal; gives its pid."""
        return self.kill_all([name], blow)[name]

    def kill_all(
        self, names: Sequence[str], blow: signal.Signals = signal.SIGKILL
    ) -> dict[str, int]:
        """`kill -9` of these, as near to one instant as can be; the pids of those that lived, by
        name.
        """
        self._remember()
        pids = {
            one["name"]: int(one["pid"])
            for one in self.processes()
            if one["name"] in names and one["pid"] is not None
        }
        for pid in pids.values():
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(pid, blow)
        return pids

    def kill_supervisor(self) -> set[int]:
        """`kill -9` the supervisor; gives every process that ran below it, spares and watchdog
        included.
        """
        self._remember()
        below = descendants(self.supervisor_pid)
        os.kill(self.supervisor_pid, signal.SIGKILL)
        return below

    def restarted(self, name: str, old_pid: int) -> bool:
        """The supervisor has started it again and it is ready."""
        one = self.process(name)
        return one["state"] == "ready" and one["pid"] not in (None, old_pid)

    def living(self) -> list[int]:
        """Processes of this cluster that live."""
        return [
            pid
            for pid, stamp in self._seen
            if children.is_alive(pid) and children.start_stamp(pid) == stamp
        ]

    def _remember(self) -> None:
        found = self.folder.cluster()
        if found is None:
            return
        known = [found["supervisor"], *found["processes"]]
        self._seen |= {(int(one["pid"]), str(one["stamp"])) for one in known if one.get("pid")}
        supervisor = int(found["supervisor"]["pid"])
        # else its number may be somebody else's by now
        if children.start_stamp(supervisor) == found["supervisor"]["stamp"]:
            self._seen |= {(pid, children.start_stamp(pid)) for pid in descendants(supervisor)}

    # -- the set -----------------------------------------------------------------------------------

    def set_view(self, what: str, condition: Callable[[SetView], bool]) -> SetView:
        """The set as the active controller has it, once it meets the condition."""
        found: list[SetView] = []

        def met() -> bool:
            view = self.view.view()
            if view is not None and condition(view):
                found.append(view)
            return bool(found)

        try:
            wait_until(met, what)
        except AssertionError as error:
            raise AssertionError(
                f"{error}; last seen {self.view.last_view}\n{self.last_words()}"
            ) from None
        return found[0]

    def whole(self) -> SetView:
        """The set once it has a master and every member is in sync."""
        return self.set_view(
            "every replica is in sync",
            lambda view: view.is_whole and len(view.members) == len(self.processes("broker")),
        )

    def last_words(self) -> str:
        """The end of every log file, for the text of a failure."""
        logs = sorted(self.folder.logs.glob("*.*")) if self.folder.logs.exists() else []
        return "\n".join(
            (f"{path.name} | {line}") for path in logs for line in children.last_lines(path, 4)
        )


def starting(root: Path) -> list[int]:
    """Processes that run `regent up` on this folder, whether or not its files know of them yet
    (Linux).
    """
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"up" in words and os.fsencode(root) in words:
                found.append(int(entry.name))
    return found


def end_starting(root: Path) -> None:
    """Kill whatever `regent up` on this folder has begun; returns when it is gone: it might still
    write there.
    """
    killed: set[int] = set()

    def gone() -> bool:
        found = {one for pid in starting(root) for one in (pid, *descendants(pid))}
        for pid in found:
            children.kill_group(pid)
        killed.update(found)
        return not found and not any(map(children.is_alive, killed))

    wait_until(gone, f"nothing is left of a start in {root}")


def descendants(pid: int) -> set[int]:
    """Every living process that was started by `pid` or by one of its children (Linux)."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(
                    (entry / "stat").read_text(errors="replace").rsplit(")", 1)[-1].split()[1]
                )
            except (OSError, IndexError):
                continue  # it has just ended
    below: set[int] = set()
    while True:
        more = {
            child for child, parent in parents.items() if parent == pid or parent in below
        } - below
        if not more:
            return below
        below |= more
