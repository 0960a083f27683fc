"""One line of the doctor's report. Refuses to know what is checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """`text` says what is, `way_out` what to do about it (empty when all is well)."""

    area: str
    verdict: str
    text: str
    way_out: str = ""


def render(findings: Sequence[Finding]) -> list[str]:
    """The report as lines: verdict, area, what is, and the way out below."""
    width = max((len(one.area) for one in findings), default=0)
    lines = []
    for one in findings:
        lines.append(f"{one.verdict:<4}  {one.area:<{width}}  {one.text}")
        if one.way_out:
            lines.append(f"      {'':<{width}}  → {one.way_out}")
    return lines


def verdict_of(findings: Sequence[Finding]) -> str:
    """The worst of all."""
    found = {one.verdict for one in findings}
    return FAIL if FAIL in found else WARN if WARN in found else OK
