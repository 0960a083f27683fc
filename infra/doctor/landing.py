"""Whether the landing job lands: its status file, and its process.

Responsible for: what is a finding, and the way out. Refuses to know: how landing works.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from infra.doctor.findings import FAIL, OK, WARN, Finding
from infra.processes import children
from lakehouse.landing.status import LandingStatus, read_status

AREA = "landing"
LAG_MS_MAX = 60_000
"""Records that waited longer than this are told."""


@dataclass(frozen=True, slots=True)
class LandingPlace:
    """Where a job leaves its status, and the command that starts it."""

    work_dir: Path
    start: str


def check(place: LandingPlace | None) -> list[Finding]:
    """None: no landing was asked for."""
    if place is None:
        return []
    try:
        found = read_status(place.work_dir)
    except ValueError as error:
        return [Finding(AREA, FAIL, f"its status cannot be read: {error}", place.start)]
    if found is None:
        return [Finding(AREA, WARN, f"no job has landed from {place.work_dir} yet", place.start)]
    return told_by(found, place.start, lives=children.is_alive(found.pid))


def told_by(found: LandingStatus, start: str, *, lives: bool) -> list[Finding]:
    """What one status says; `lives`: its process does."""
    if found.error is not None:
        return [Finding(AREA, FAIL, f"the landing job failed: {found.error}", start)]
    if not lives:
        text = f"the landing job (pid {found.pid}) does not run; its last stage: {found.stage}"
        return [Finding(AREA, FAIL, text, start)]
    findings = [
        Finding(AREA, WARN, f"{activity} fails: {why}", "It is tried again; the job's log has it.")
        for activity, why in found.troubles.items()
    ]
    if (lag_ms := max(found.lag_ms.values(), default=0)) > LAG_MS_MAX:
        text = f"records have waited {lag_ms / 1000:.0f} s to land ({found.stage})"
        findings.append(Finding(AREA, WARN, text, "'regent status' shows the lag; see its log."))
    if found.alarms:
        text = f"{found.alarms} alarm(s) stand in the tables"
        findings.append(Finding(AREA, FAIL, text, "regent lake check"))
    if not findings:
        stage = "lands" if found.ready else found.stage
        findings.append(Finding(AREA, OK, f"the landing job (pid {found.pid}) {stage}"))
    return findings
