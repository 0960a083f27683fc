"""How a move of broker sets between controllers is shown: checks, steps, one line per set.

Refuses to know which way the move goes.
"""

from __future__ import annotations

from collections.abc import Sequence

from infra.migration.plan import Check, Step


def check_lines(checks: Sequence[Check], everything: bool) -> list[str]:
    """Each check that does not hold with its way out; with `everything` also those that do."""
    lines = []
    for one in checks:
        if one.ok:
            lines += [f"  ok       {one.what}"] if everything else []
            continue
        lines.append(f"  {'REFUSED ' if one.fatal else 'mind    '} {one.what}")
        lines.append(f"           {one.way_out}")
    return lines


def step_lines(steps: Sequence[Step], done: int) -> list[str]:
    """The steps as a numbered list; the first `done` of them are behind us."""
    lines = ["steps:"]
    for number, one in enumerate(steps, 1):
        lines.append(f"  {number}. {'(done) ' if number <= done else ''}{one.title}")
        lines += [f"       {command}" for command in one.commands if number > done]
        if one.expect and number > done:
            lines.append(f"     expect: {one.expect}")
    return lines
