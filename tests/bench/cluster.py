"""A local cluster under the benchmark, driven by the `regent` command line; questions, blows, and
processes that call it all the time.

Refuses to know which row does what and why.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from infra.cluster.data_folder import DataFolder
from infra.cluster.running import DemoCluster, SetView
from infra.processes import children
from infra.processes import status as process_status
from tests.bench.calls import Call, is_calm
from tests.bench.sender import CallLog
from tests.support.local_cluster import end_starting

ROOT = Path(__file__).resolve().parents[2]
POLL_S = 0.02
WHOLE_WITHIN_S = 90.0
CALM_WITHIN_S = 60.0
CALM_CALLS = 100
CALLER_STOP_S = 25.0
UP_WITHIN_S = 300.0
DOWN_WITHIN_S = 120.0


class BenchFailed(Exception):
    """A row cannot go on; the text is one line."""


class BenchCluster:
    """One cluster in a folder of its own."""

    def __init__(self, root: Path, say: Callable[[str], None]) -> None:
        self.folder = DataFolder(root)
        self.say = say
        self.view_of = DemoCluster(self.folder, lambda: None)

    # -- life --------------------------------------------------------------------------------------

    def up(self, *flags: str) -> None:
        """Start it and return when everything answers. BenchFailed with its last line when it does
        not.
        """
        self._regent("up", "--detach", *flags, limit_s=UP_WITHIN_S)

    def down(self) -> None:
        """Stop it; paused processes too, and what an interrupted `up` was about to start. Never
        raises.
        """
        try:
            self._regent("down", limit_s=DOWN_WITHIN_S)
        except BenchFailed as failed:
            self.say(str(failed))
        try:
            end_starting(self.folder.root)
        except AssertionError as left:
            self.say(str(left))

    def _regent(self, verb: str, *flags: str, limit_s: float) -> None:
        command = [sys.executable, "-m", "infra", verb, "--dir", str(self.folder.root), *flags]
        try:
            # A group of its own: Ctrl-C reaches this process, which then stops the cluster in
            # order.
            done = subprocess.run(
                command,
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=limit_s,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BenchFailed(f"regent {verb} did not return within {limit_s:.0f} s") from None
        if done.returncode:
            lines = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()
            raise BenchFailed(f"regent {verb} failed with {done.returncode}: {lines[-1]}")

    @property
    def name_server(self) -> str:
        return str(self.folder.running_cluster()["name_servers"][0])

    @property
    def controllers(self) -> list[str]:
        return list(self.folder.running_cluster()["controllers"])

    @property
    def kafka(self) -> dict[str, str]:
        return dict(self.folder.running_cluster()["kafka"])

    # -- questions ---------------------------------------------------------------------------------

    def view(self) -> SetView | None:
        """The set as the active controller has it, None while nobody leads."""
        return self.view_of.view()

    def process(self, address: str) -> dict[str, Any]:
        """The process with that advertised address."""
        return self.view_of.process_at(address)

    def processes(self, kind: str) -> list[dict[str, Any]]:
        return self.view_of.processes(kind)

    def master(self) -> tuple[SetView, dict[str, Any]]:
        """The set and its master's process. BenchFailed when there is none."""
        view = self.view()
        if view is None or view.master_address is None:
            raise BenchFailed("the broker set has no master")
        return view, self.process(view.master_address)

    def active_controller(self) -> str:
        """Address of the controller that leads."""
        found: list[str] = []

        def leads() -> bool:
            answers = process_status.ask_all(self.controllers, 500)
            found[:] = [
                address
                for address, status in answers.items()
                if status and status.get("role") == "active"
            ]
            return bool(found)

        self.wait("an active controller", leads, WHOLE_WITHIN_S)
        return found[0]

    def wait(self, what: str, condition: Callable[[], bool], limit_s: float) -> float:
        """Seconds until the condition held. BenchFailed at the limit."""
        return wait(what, condition, limit_s)

    def wait_whole(self) -> SetView:
        """Every replica in the SyncStateSet, under a master, and every process answers again."""
        found: list[SetView] = []

        def whole() -> bool:
            view = self.view()
            found[:] = (
                [view]
                if view and view.master_id is not None and set(view.in_sync) == set(view.members)
                else []
            )
            return bool(found) and all(one["state"] == "ready" for one in self.view_of.processes())

        self.wait("the whole SyncStateSet", whole, WHOLE_WITHIN_S)
        return found[0]

    # -- clients -----------------------------------------------------------------------------------

    @contextmanager
    def sending(self, topic: str, *, rate: float = 500.0) -> Iterator[Caller]:
        """A sending process for the time of the block."""
        with sending(self._home(), self.name_server, topic, rate=rate) as caller:
            yield caller

    @contextmanager
    def asking(self) -> Iterator[list[Caller]]:
        """For every controller a process that asks it for decisions, and another one when it does
        not answer.
        """
        addresses = self.controllers
        with ExitStack() as stack:
            callers = []
            for number in range(len(addresses)):
                order = [*addresses[number:], *addresses[:number]]
                flags = [word for address in order for word in ("--controller", address)]
                callers.append(
                    stack.enter_context(
                        _calling(self._home(), f"asker-{number}", "tests.bench.asker", *flags)
                    )
                )
            yield callers

    def _home(self) -> Path:
        home = self.folder.root / "data" / "bench"
        home.mkdir(parents=True, exist_ok=True)
        return home

    def wait_done(self, pid: int) -> None:
        """Until a killed process is gone."""
        self.wait(f"the end of process {pid}", lambda: not children.is_alive(pid), 10.0)


def wait(what: str, condition: Callable[[], bool], limit_s: float) -> float:
    """Seconds until the condition held. BenchFailed at the limit."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > limit_s:
            raise BenchFailed(f"{what} did not happen within {limit_s:.0f} s")
        time.sleep(POLL_S)
    return time.monotonic() - began


@contextmanager
def sending(home: Path, name_server: str, topic: str, *, rate: float = 500.0) -> Iterator[Caller]:
    """A process with our own client that sends, for the time of the block; its files are in
    `home`.
    """
    flags = [
        "--name-server",
        name_server,
        "--rate",
        str(rate),
        "--status",
        str(home / f"{topic}.json"),
    ]
    with _calling(home, topic, "tests.bench.sender", "--topic", topic, *flags) as caller:
        yield caller


@contextmanager
def _calling(home: Path, name: str, module: str, *flags: str) -> Iterator[Caller]:
    # A name may come again in another row: each block has a file of its own.
    ledger = home / f"{name}-{len(list(home.glob('*.calls')))}.calls"
    one = Caller(name, ledger, [sys.executable, "-m", module, "--out", str(ledger), *flags])
    try:
        one.wait_calm()
        yield one
    finally:
        one.stop()


class Caller:
    """A process that calls all the time, and what it has seen so far."""

    def __init__(self, name: str, ledger: Path, command: list[str]) -> None:
        self.name = name
        self.ledger = ledger
        self._log = CallLog(ledger)
        self._output = ledger.with_suffix(".out")
        self._child = children.spawn(command, self._output, cwd=ROOT)

    def calls(self) -> list[Call]:
        """Calls that have ended. BenchFailed when the process has."""
        if self._child.poll() is not None:
            tail = " | ".join(children.last_lines(self._output, 3))
            raise BenchFailed(f"{self.name} ended with {self._child.returncode}: {tail}")
        return self._log.calls()

    def wait_calm(self, count: int = CALM_CALLS) -> None:
        """`count` calls from now on succeed one after the other."""
        start = len(self.calls())
        wait(
            f"a calm stretch of {self.name}",
            lambda: len(self.calls()) >= start + count and is_calm(self.calls(), count),
            CALM_WITHIN_S,
        )

    def wait_success_after(self, at_ns: int, limit_s: float) -> None:
        """A call that was begun after that moment succeeds."""
        wait(
            f"a success of {self.name}",
            lambda: any(c.ok and c.invoked_ns > at_ns for c in reversed(self.calls()[-2000:])),
            limit_s,
        )

    def stop(self) -> None:
        """End the process; what is under way is finished first."""
        if self._child.poll() is None:
            children.stop(self._child, CALLER_STOP_S)


def kill(pid: int) -> int:
    """`kill -9`; gives the monotonic time in ns just before."""
    at = time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    return at


@contextmanager
def paused(pid: int) -> Iterator[int]:
    """SIGSTOP for the time of the block; gives the monotonic time in ns just before."""
    at = time.monotonic_ns()
    os.kill(pid, signal.SIGSTOP)
    try:
        yield at
    finally:
        with suppress(ProcessLookupError):  # its supervisor ended what stood still
            os.kill(pid, signal.SIGCONT)
