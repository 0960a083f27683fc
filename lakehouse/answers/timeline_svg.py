"""The timeline of a broker set as a picture: plain SVG text, readable by any browser, without
a script.

Responsible for pixels, colours and what is said when the pointer rests on something. What is
shorter than a pixel is drawn two pixels wide, so that no gap vanishes in a long history; failovers
are drawn again below, each on its own scale.
Refuses to know what any of it means (`timeline`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any
from xml.sax.saxutils import escape

from lakehouse import wording
from lakehouse.answers.timeline import (
    IN_SET,
    MASTER,
    NO_MASTER,
    NO_MESSAGE,
    OUT_OF_SET,
    UNREGISTERED,
)

WIDTH, LEFT, RIGHT = 1200, 190, 30
LANE, BAR, TOP = 28, 18, 70
NARROWEST_PX = 2.0
LABEL_PX = 6.6
"""Width of a character of the labels."""
CLOSE_UPS_MAX = 8
TICKS_MAX = 9
COLOURS = {
    MASTER: "#2f6f4f",
    IN_SET: "#8fc1a3",
    OUT_OF_SET: "#d9b36c",
    UNREGISTERED: "#c9c9c9",
    NO_MASTER: "#c0392b",
    NO_MESSAGE: "#e67e22",
    "elected": "#1f4e9c",
    "refused": "#c0392b",
}
SET_COLOURS = ("#b9cde8", "#dce6f4")
PHASE_COLOURS = ("#7c9fd1", "#b9cde8")
STEPS_MS = (
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    15_000,
    30_000,
    60_000,
    120_000,
    300_000,
    600_000,
    900_000,
    1_800_000,
    3_600_000,
    7_200_000,
    21_600_000,
    43_200_000,
    86_400_000,
    172_800_000,
    604_800_000,
    2_592_000_000,
)

Row = Mapping[str, Any]
Place = Callable[[int], float]


def timeline_svg(model: Row) -> str:
    """The picture of a model of `timeline.timeline_model` or `timeline.window`."""
    place = _scale(model["from_ms"], model["to_ms"], LEFT, WIDTH - RIGHT)
    lanes: list[tuple[str, list[str]]] = [
        (f"{one['broker_id']}  {one['address']}", _role_bars(one, place))
        for one in model["replicas"]
    ]
    lanes.append(("SyncStateSet", _set_bars(model["sync_state_sets"], place)))
    lanes.append(("elections", _election_marks(model["elections"], place)))
    lanes.append(("gaps", _gap_bars(model["gaps"], place)))
    parts = [_heading(model)]
    bottom = TOP + LANE * len(lanes)
    parts += _axis(model["from_ms"], model["to_ms"], place, bottom)
    for number, (name, shapes) in enumerate(lanes):
        parts += _lane(name, shapes, TOP + LANE * number)
    parts += _legend(bottom + 44)
    height = bottom + 66
    shown = [one for one in model["failovers"] if one["phases"]][-CLOSE_UPS_MAX:]
    for one in shown:
        parts += _close_up(one, height)
        height += 64
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height + 10}" '
        f'viewBox="0 0 {WIDTH} {height + 10}" font-family="system-ui, sans-serif" font-size="12">'
    )
    return "\n".join(
        [head, f'<rect width="{WIDTH}" height="{height + 10}" fill="white"/>', *parts, "</svg>", ""]
    )


def _scale(from_ms: int, to_ms: int, left: float, right: float) -> Place:
    length = max(1, to_ms - from_ms)
    return lambda at_ms: (
        left + (right - left) * (min(max(at_ms, from_ms), to_ms) - from_ms) / length
    )


def _heading(model: Row) -> str:
    span = f"{wording.moment(model['from_ms'])} to {wording.moment(model['to_ms'])} UTC"
    return _text(
        16, 26, f"Broker set {model['broker_name']}", 'font-size="18" font-weight="600"'
    ) + _text(16, 46, span, 'fill="#555"')


def _lane(name: str, shapes: Iterable[str], top: float) -> list[str]:
    longest = int((LEFT - 24) / LABEL_PX)
    shown = name if len(name) <= longest else f"{name[: longest - 1]}…"
    line = (
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{top + LANE}" y2="{top + LANE}" '
        'stroke="#eee"/>'
    )
    return [line, f'<g transform="translate(0 {top:.0f})">{_text(16, 19, shown)}', *shapes, "</g>"]


def _role_bars(replica: Row, place: Place) -> list[str]:
    bars = []
    for one in replica["stretches"]:
        said = f"{replica['broker_id']}: {one['role']}, epoch {one['epoch']}\n{_when(one)}"
        bars.append(_bar(one, place, COLOURS[one["role"]], said, one["role"]))
    return bars


def _set_bars(sets: Sequence[Row], place: Place) -> list[str]:
    bars = []
    for number, one in enumerate(sets):
        members = wording.members(one["members"])
        said = f"SyncStateSet {members} epoch {one['epoch']}, {one['reason']}\n{_when(one)}"
        bars.append(_bar(one, place, SET_COLOURS[number % 2], said, "set"))
        if place(one["to_ms"]) - place(one["from_ms"]) > LABEL_PX * len(members) + 8:
            bars.append(_text(place(one["from_ms"]) + 4, 18, members, 'pointer-events="none"'))
    return bars


def _election_marks(elections: Sequence[Row], place: Place) -> list[str]:
    """A mark for each; those of one pixel share it, and the epochs stand where there is room up to
    the next.
    """
    by_pixel: dict[int, list[Row]] = {}
    for one in elections:
        by_pixel.setdefault(round(place(one["at_ms"])), []).append(one)
    marks, places = [], [*sorted(by_pixel), WIDTH]
    for x, following in pairwise(places):
        found = by_pixel[x]
        won = [one for one in found if one["winner"] is not None]
        colour = COLOURS["elected" if won else "refused"]
        said = "\n".join(_election_said(one) for one in found[:10]) + (
            (f"\nand {len(found) - 10} more") if len(found) > 10 else ""
        )
        marks.append(
            f'<path class="election" d="M{x} 6l5 9h-10z" fill="{colour}">{_title(said)}</path>'
        )
        label = str(won[-1]["master_epoch"]) if won else ""
        if label and x + 12 + LABEL_PX * len(label) <= following:
            marks.append(_text(x + 6, 15, label, f'fill="{colour}" font-size="10"'))
    return marks


def _election_said(one: Row) -> str:
    result = (
        (f"refused: {one['refusal']}")
        if one["winner"] is None
        else f"epoch {one['master_epoch']}: master {one['winner']}"
    )
    return (
        f"{wording.moment(one['at_ms'])} {result} ({one['cause'] or 'no cause given'}), offset "
        f"{one['offset']}"
    )


def _gap_bars(gaps: Sequence[Row], place: Place) -> list[str]:
    # Those without a master are certain, so they are drawn over the others.
    ordered = sorted(gaps, key=lambda gap: gap["kind"] == NO_MASTER)
    return [
        _bar(
            one,
            place,
            COLOURS[one["kind"]],
            f"{one['kind']} for {wording.duration(one['to_ms'] - one['from_ms'])}\n{_when(one)}",
            "gap",
        )
        for one in ordered
    ]


def _close_up(failover: Row, top: float) -> list[str]:
    phases = failover["phases"]
    began_ms, ended_ms = phases[0]["at_ms"], phases[-1]["at_ms"]
    place = _scale(began_ms, ended_ms, LEFT, WIDTH - RIGHT)
    title = (
        f"epoch {failover['old_epoch']} → {failover['new_epoch']}, master {failover['old_master']} "
        f"→ {failover['new_master']} ({failover['cause'] or 'no cause given'}), "
        f"{wording.moment(began_ms)} UTC, {wording.duration(ended_ms - began_ms)}"
    )
    parts = [
        f'<g class="close-up" transform="translate(0 {top:.0f})">',
        _text(16, 14, title, 'font-weight="600"'),
    ]
    steps = [(before, one) for before, one in pairwise(phases) if before["at_ms"] < one["at_ms"]]
    for number, (before, one) in enumerate(steps):
        said = f"{before['phase']} → {one['phase']}: {one['took_ms']} ms"
        span = {"from_ms": before["at_ms"], "to_ms": one["at_ms"]}
        parts.append(_bar(span, place, PHASE_COLOURS[number % 2], said, "phase", top=22))
    return [*parts, *_phase_labels(phases, place), "</g>"]


def _phase_labels(phases: Sequence[Row], place: Place) -> list[str]:
    """The last one, at the right end, and of the others those that fit before it."""
    labels = [
        (place(one["at_ms"]), f"{one['phase']} +{one['at_ms'] - phases[0]['at_ms']}")
        for one in phases
    ]
    last = labels.pop()[1]
    last_x = WIDTH - RIGHT - LABEL_PX * len(last)
    parts, free_from = [_text(WIDTH - RIGHT, 54, last, 'font-size="10" text-anchor="end"')], 0.0
    for x, label in labels:
        end = x + LABEL_PX * len(label) + 4
        if x >= free_from and end <= last_x:
            parts.append(_text(x, 54, label, 'font-size="10"'))
            free_from = end
    return parts


def _axis(from_ms: int, to_ms: int, place: Place, bottom: float) -> list[str]:
    length = to_ms - from_ms
    step = next(
        (step for step in STEPS_MS if length / step <= TICKS_MAX),
        STEPS_MS[-1] * (1 + length // (STEPS_MS[-1] * TICKS_MAX)),
    )
    parts, at_ms = [], -(-from_ms // step) * step
    while at_ms <= to_ms:
        x = place(at_ms)
        parts.append(
            f'<line class="tick" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 8}" y2="{bottom + 4}" '
            'stroke="#ddd"/>'
        )
        anchor = "middle" if x < WIDTH - 2 * RIGHT else "end"
        parts.append(
            _text(
                x,
                bottom + 18,
                _tick_label(at_ms, step),
                f'text-anchor="{anchor}" fill="#555" font-size="11"',
            )
        )
        at_ms += step
    return parts


def _tick_label(at_ms: int, step_ms: int) -> str:
    day, _, clock = wording.moment(at_ms).partition(" ")
    if step_ms >= 86_400_000:
        return day
    if step_ms >= 60_000:
        return f"{day[5:]} {clock[:5]}"
    return clock[:8] if step_ms >= 1_000 else clock[3:]


def _legend(top: float) -> list[str]:
    parts, x = [], float(LEFT)
    for name, colour in COLOURS.items():
        parts.append(f'<rect x="{x:.0f}" y="{top - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(x + 16, top, name, 'font-size="11"'))
        x += 28 + LABEL_PX * len(name)
    return parts


def _bar(stretch: Row, place: Place, colour: str, said: str, kind: str, *, top: float = 5) -> str:
    x = place(stretch["from_ms"])
    width = max(NARROWEST_PX, place(stretch["to_ms"]) - x)
    name = kind.replace(" ", "-")
    return (
        f'<rect class="{name}" x="{x:.1f}" y="{top:.0f}" width="{width:.1f}" height="{BAR}" '
        f'fill="{colour}">{_title(said)}</rect>'
    )


def _when(stretch: Row) -> str:
    return f"{wording.moment(stretch['from_ms'])} to {wording.moment(stretch['to_ms'])} UTC"


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>"


def _text(x: float, y: float, text: str, style: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.0f}"{" " if style else ""}{style}>{escape(text)}</text>'
