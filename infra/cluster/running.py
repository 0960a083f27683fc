"""The running cluster as the demo's steps see it: ask, wait, kill.

Refuses to know which step does what and why.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infra.cluster import view as cluster_view
from infra.cluster.data_folder import DataFolder
from infra.cluster.plan import BROKER_SET
from infra.problems import Problem
from infra.processes import status as process_status

POLL_S = 0.05
ASK_MS = 500


@dataclass(frozen=True, slots=True)
class SetView:
    """The broker set as the active controller has it."""

    master_id: int | None
    master_address: str | None
    master_epoch: int
    in_sync: tuple[int, ...]
    in_sync_epoch: int
    members: tuple[int, ...]
    term: int
    controller: str
    controller_address: str

    @property
    def is_whole(self) -> bool:
        """It has a master, and every replica that has an id is in sync."""
        return self.master_id is not None and sorted(self.in_sync) == sorted(self.members)


class DemoCluster:
    """Questions to and blows at one local cluster."""

    def __init__(self, folder: DataFolder, tick: Callable[[], None]) -> None:
        self.folder = folder
        self._tick = tick
        self._last: SetView | None = None

    def processes(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Processes as the supervisor has them now."""
        found = self.folder.running_cluster()["processes"]
        return [one for one in found if kind is None or one["kind"] == kind]

    def process_at(self, address: str) -> dict[str, Any]:
        """The process with that advertised address; Problem when there is none."""
        for one in self.processes():
            if one["address"] == address:
                return one
        raise Problem(f"no process of this cluster has the address {address}", "")

    def view(self) -> SetView | None:
        """The set now, None while no controller leads or the set is not known."""
        addresses = {one["status_address"]: one for one in self.processes("controller")}
        answers = process_status.ask_all(list(addresses), ASK_MS, sets=BROKER_SET)
        leading = [
            (status["term"], address)
            for address, status in answers.items()
            if status and status.get("role") == "active"
        ]
        if not leading:
            return None
        term, address = max(leading)
        status = answers[address] or {}
        one = status.get("sets", {}).get(BROKER_SET)
        if one is None:
            return None
        self._last = SetView(
            one.get("master"),
            one.get("master_address"),
            one["master_epoch"],
            tuple(one["sync_state_set"]),
            one["sync_state_set_epoch"],
            tuple(member["id"] for member in one["members"]),
            term,
            addresses[address]["name"],
            address,
        )
        return self._last

    @property
    def last_view(self) -> SetView | None:
        """The last answer to `view`, without asking again."""
        return self._last

    def broker_status(self, address: str) -> dict[str, Any] | None:
        """What a broker says of itself."""
        return process_status.ask_once(address, ASK_MS)

    def landed(self) -> dict[str, Any] | None:
        """How far the tables are."""
        return cluster_view.landing(self.folder.running_cluster())

    def kill(self, process: dict[str, Any]) -> float:
        """`kill -9`; gives the wall time in ms."""
        at_ms = time.time() * 1000
        os.kill(process["pid"], signal.SIGKILL)
        return at_ms

    def wait(self, what: str, condition: Callable[[], bool], limit_s: float) -> float:
        """Wait for a condition with the live line running; gives the seconds. Problem at the
        limit.
        """
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > limit_s:
                look = ("regent", "doctor", "--dir", str(self.folder.root))
                raise Problem(
                    f"{what} did not happen within {limit_s:.0f} s",
                    f"{shlex.join(look)!r} says why; the logs are in {self.folder.logs}.",
                )
            self._tick()
            time.sleep(POLL_S)
        return time.monotonic() - began

    def wait_for_view(
        self, what: str, condition: Callable[[SetView], bool], limit_s: float
    ) -> SetView:
        """Wait until the set as the active controller has it meets the condition."""
        found: list[SetView] = []

        def met() -> bool:
            view = self.view()
            if view is not None and condition(view):
                found.append(view)
            return bool(found)

        self.wait(what, met, limit_s)
        return found[0]
