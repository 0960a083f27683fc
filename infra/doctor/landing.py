"""Whether the landing job lands: its status file, and its process.

Responsible for: what is a finding, and the way out. Refuses to know: how landing works.
"""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from infra.doctor.commands import Commands
from infra.doctor.findings import Finding, fail, warn, well
from infra.processes import children
from lakehouse.landing.status import LandingStatus, read_status, standstill

AREA = "landing"
LAG_MS_MAX = 60_000
"""Records that waited longer than this are told."""
PROCESS = "land"
"""The name under which its configuration is known."""


@dataclass(frozen=True, slots=True)
class LandingPlace:
    """Where a job leaves its status, and its log file where one is known."""

    work_dir: Path
    log: Path | None = None


def check(place: LandingPlace | None, commands: Commands) -> list[Finding]:
    """None: no landing was asked for."""
    if place is None:
        return []
    start = commands.revive(PROCESS)
    try:
        found = read_status(place.work_dir)
    except ValueError as error:
        text = f"the status in {place.work_dir} cannot be read: {error}"
        return [fail(AREA, text, "The job writes it anew when it starts.", start)]
    if found is None:
        text = f"no job has landed from {place.work_dir} yet"
        return [warn(AREA, text, "Start it.", start)]
    now_ms = time.time_ns() // 1_000_000
    return told_by(found, commands, place.log, lives=children.is_alive(found.pid), now_ms=now_ms)


def told_by(
    found: LandingStatus, commands: Commands, log: Path | None = None, *, lives: bool, now_ms: int
) -> list[Finding]:
    """What one status says at `now_ms` of the wall clock; `lives`: its process does."""
    look = _look(found, commands, log)
    if (stands := standstill(found, lives=lives, now_ms=now_ms)) is not None:
        if stands.is_certain:
            return [fail(AREA, stands.text, stands.way_out, commands.revive(PROCESS))]
        return [warn(AREA, stands.text, stands.way_out, look)]
    findings = [
        warn(AREA, f"{activity} fails: {why}", "It is tried again; the job says more.", look)
        for activity, why in found.troubles.items()
    ]
    if (lag_ms := max(found.lag_ms.values(), default=0)) > LAG_MS_MAX:
        text = f"records have waited {lag_ms / 1000:.0f} s to land ({found.stage})"
        way_out = "More cores or memory (spark_cores, driver_memory) land faster. How it goes on:"
        findings.append(warn(AREA, text, way_out, look))
    if found.alarms:
        text = f"{found.alarms} alarm(s) stand in the tables"
        findings.append(fail(AREA, text, "They are named by:", commands.history("lake check")))
    if not findings:
        stage = "lands" if found.ready else found.stage
        findings.append(well(AREA, f"the landing job (pid {found.pid}) {stage}"))
    return findings


def _look(found: LandingStatus, commands: Commands, log: Path | None) -> str:
    """Its metrics, its log, or who leads where neither is known."""
    if found.metrics:
        return f"curl -s http://{found.metrics}/metrics"
    return f"tail -n 40 {shlex.quote(str(log))}" if log else commands.look()
