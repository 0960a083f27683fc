"""One line of the doctor's report. Refuses to know what is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """`text` says what is and where, `way_out` what to do about it, `command` a line of shell that
    does it or shows more; both are empty when all is well.
    """

    area: str
    verdict: str
    text: str
    way_out: str = ""
    command: str = ""


def well(area: str, text: str) -> Finding:
    """Nothing is to be done."""
    return Finding(area, OK, text)


def warn(area: str, text: str, way_out: str, command: str) -> Finding:
    """It works, and will not for ever."""
    return Finding(area, WARN, text, way_out, command)


def fail(area: str, text: str, way_out: str, command: str) -> Finding:
    """Something does not work."""
    return Finding(area, FAIL, text, way_out, command)


def render(findings: Sequence[Finding]) -> list[str]:
    """The report as lines: verdict, area, what is, below it the way out and the command, which has
    its line for itself.
    """
    width = max((len(one.area) for one in findings), default=0)
    lines = []
    for one in findings:
        lines.append(f"{one.verdict:<4}  {one.area:<{width}}  {one.text}")
        if one.way_out:
            lines.append(f"      {'':<{width}}  → {one.way_out}")
        if one.command:
            lines.append(f"      {'':<{width}}    {one.command}")
    return lines


def verdict_of(findings: Sequence[Finding]) -> str:
    """The worst of all."""
    found = {one.verdict for one in findings}
    return FAIL if FAIL in found else WARN if WARN in found else OK
