"""The processes of a local cluster: whether its supervisor runs, and what it has trouble with.

Refuses to know: what the processes do.
"""

from __future__ import annotations

import os
import shlex
import signal
import time
from collections.abc import Mapping
from typing import Any

from infra.cluster.data_folder import DataFolder
from infra.doctor.commands import Commands
from infra.doctor.findings import Finding, fail, warn, well
from infra.processes import children

AREA = "processes"
SUPERVISOR = "supervisor"
RESTARTS_MAX, CALM_AFTER_S = 3, 60.0
"""Started as often, and the last time sooner than this: it will not stay."""
STATES = {
    "starting": "is starting",
    "restarting": "has ended and is started again",
    "holding": "is asked to stop and has not ended",
    "held": "was stopped on request",
    "failed": "did not come up, and is not started again",
    "stopped": "has stopped",
}
"""What the supervisor says of a process that is not ready, in words."""
PASSES = ("starting", "restarting", "holding")


def check(folder: DataFolder | None, commands: Commands) -> list[Finding]:
    """None: this is no local cluster."""
    if folder is None:
        return []
    if not commands.runs:
        return _at_rest(folder, commands)
    found = folder.cluster() or {}
    supervisor = {"name": SUPERVISOR, "state": "ready", **found.get("supervisor", {})}
    known = [supervisor, *found.get("processes", ())]
    findings = [finding for one in known for finding in told_by(one, folder, commands)]
    return findings or [well(AREA, f"{len(known)} processes run")]


def _at_rest(folder: DataFolder, commands: Commands) -> list[Finding]:
    left = [f"{one['name']} (pid {one['pid']})" for one in folder.leftovers()]
    if left:
        text = f"a crash of the supervisor left {', '.join(left)} in {folder.root}"
        return [fail(AREA, text, "End what is left, then start the cluster:", commands.down())]
    text = f"the cluster in {folder.root} does not run, so that nothing else is asked"
    return [fail(AREA, text, "Start it:", commands.look())]


def told_by(one: Mapping[str, Any], folder: DataFolder, commands: Commands) -> list[Finding]:
    """Of one process, as the supervisor knows it."""
    name, state, pid = one["name"], one["state"], one.get("pid")
    log = f"tail -n 20 {shlex.quote(str(folder.output_of(name)))}"
    if state != "ready":
        text = f"{name} {STATES.get(state, state)}"
        if (code := one.get("last_exit")) is not None:
            text += f"; it {_ended(code)} the last time"
        if state in PASSES:
            return [warn(AREA, text, "That passes by itself, or its last words say why not:", log)]
        if state == "held":
            return [warn(AREA, text, "Start all anew:", commands.anew())]
        return [fail(AREA, text, "Its last words:", log)]
    if pid is not None and children.state_of(pid) in children.STOPPED_STATES:
        text = f"{name} (pid {pid}) was stopped by a signal and does nothing"
        return [fail(AREA, text, "Let it go on:", f"kill -CONT {pid}")]
    restarts = one.get("restarts", 0)
    if pid is not None and restarts >= RESTARTS_MAX and age_s(one) < CALM_AFTER_S:
        text = (
            f"{name} was started again {restarts} times, the last time {age_s(one):.0f} s ago; it "
            f"{_ended(one.get('last_exit') or 0)} before"
        )
        return [fail(AREA, text, "Its last words:", log)]
    return []


def _ended(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with {code}"


def age_s(one: Mapping[str, Any]) -> float:
    """How long a process runs, by its start stamp (Linux); for ever where that is not known."""
    try:
        since_boot_s = int(one["stamp"]) / os.sysconf("SC_CLK_TCK")
    except (KeyError, TypeError, ValueError):
        return float("inf")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot_s
