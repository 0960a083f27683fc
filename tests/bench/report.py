"""The report: a table for people, one document for programs. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from tests.bench.figure import Figure

WIDTH = 118
HEADS = ("figure", "measured", "peer in the same run", "ratio", "floor", "goal", "")


def number(value: float | None) -> str:
    """Three significant places, thousands apart."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value == int(value) and abs(value) >= 10 else f"{value:.3g}"


def _ratio(ratio: float | None) -> str:
    if ratio is None:
        return "-"
    return f"{ratio * 100:.0f} %" if ratio < 2 else f"{ratio:.3g} x"


def verdict(figure: Figure) -> str:
    """What stands behind the floor and the goal, in one word or two."""
    if figure.value is None:
        return "NOT MEASURED" if figure.required else "not measured"
    if figure.holds is False:
        return "FLOOR BROKEN" if figure.required else "below floor"
    if figure.reached:
        return "goal reached"
    return "holds" if figure.holds else ""


def _cells(figure: Figure) -> tuple[str, ...]:
    peer = (
        (f"{figure.peer}: {number(figure.peer_value)} {figure.unit}")
        if figure.peer_value is not None
        else figure.peer or "-"
    )
    measured = f"{number(figure.value)} {figure.unit}" if figure.value is not None else "-"
    floor = figure.floor.text(figure.unit) if figure.floor else "-"
    goal = figure.goal.text(figure.unit) if figure.goal else "-"
    return (
        figure.what,
        measured,
        peer,
        _ratio(figure.ratio),
        floor + (" *" if figure.required else ""),
        goal,
        verdict(figure),
    )


def line(figure: Figure) -> str:
    """One figure for the progress lines: what a run that is ended early has found so far."""
    return "  " + "; ".join(cell for cell in _cells(figure) if cell != "-" and cell)


def table(figures: Sequence[Figure]) -> str:
    """All figures, one line each, the notes below."""
    rows = [HEADS, *(_cells(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADS))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    notes = [
        textwrap.fill(
            f"{figure.row}, {figure.what}: {figure.note}", WIDTH, subsequent_indent="    "
        )
        for figure in figures
        if figure.note
    ]
    return "\n".join([*lines, "", "* required: a broken one fails the benchmark", "", *notes])


def document(
    figures: Sequence[Figure], machine: dict[str, Any], seconds: float, code: int
) -> dict[str, Any]:
    """The JSON report."""
    return {
        "machine": machine,
        "seconds": round(seconds, 1),
        "exit_code": code,
        "figures": [figure.document() for figure in figures],
    }
