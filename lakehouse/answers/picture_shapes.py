"""What the pictures are drawn with: text, bars, colours for light and for dark.

Responsible for the style sheet and for shapes; each shape has a class, the style sheet gives it its
colour. Refuses to know what is drawn.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

from lakehouse import wording
from lakehouse.answers.replica_roles import (
    ACTING,
    CATCHING_UP,
    DOWN,
    IN_SET,
    MASTER,
    OUT_OF_SET,
    UNREGISTERED,
)
from lakehouse.answers.timeline import NO_MASTER, NO_MESSAGE

WIDTH, LEFT, RIGHT = 1200, 190, 30
TOP, BAR, FOOT = 5, 18, 6
"""Of a lane: where its bars begin, how high they are, and how high the marks at its foot."""
NARROWEST_PX = 2.0
LABEL_PX, SMALL_PX = 6.6, 5.4
"""Width of a character of the labels, and of those in `SMALL`."""
SMALL = 'font-size="10"'
LEGEND_LEFT, LEGEND_PX = 16, 6.2
SET_LIGHTNESS = ((0.66, 0.77, 0.87, 0.91), (0.36, 0.29, 0.22, 0.17))
"""Of a set of one, two, three and more members, for light and for dark: what is few stands out."""
SET_SATURATION = (0.55, 0.5)
SET_HUE_STEP = 77
"""Degrees between a set and the next: those of up to four replicas differ at sight."""
LIGHT, DARK, EITHER = "light", "dark", "either"
ELECTED, REFUSED = "elected", "refused"
SILENCE = "silence before detection"
UNKNOWN_PHASE = "another phase"
COLOURS: Mapping[str, tuple[str, str]] = {
    MASTER: ("#1f6f54", "#45b08a"),
    ACTING: ("#8a6fc0", "#a58be0"),
    IN_SET: ("#a3d4bd", "#28604c"),
    CATCHING_UP: ("#6fa8e0", "#3f7fc4"),
    OUT_OF_SET: ("#e9c58f", "#866637"),
    DOWN: ("#4a4f57", "#b4bac2"),
    UNREGISTERED: ("#e3e6e9", "#2c3238"),
    NO_MASTER: ("#c8352b", "#ff6b5e"),
    NO_MESSAGE: ("#ea9a4e", "#d98a3d"),
    SILENCE: ("#ea9a4e", "#d98a3d"),
    ELECTED: ("#1f4e9c", "#7fb0ff"),
    REFUSED: ("#c8352b", "#ff6b5e"),
}
PHASES: Mapping[str, tuple[str, str]] = {
    "probed": ("#c98ab4", "#b573a0"),
    "received": ("#9a86c9", "#8672bb"),
    "appended": ("#5b7fd6", "#5b7fd6"),
    "applied": ("#4f9fd0", "#3f8fc0"),
    "answered": ("#8fa3b3", "#75899a"),
    "notified": ("#a9bdb0", "#83998b"),
    "epoch durable": ("#35ada0", "#2a968a"),
    "master role taken": ("#74b84c", "#639f40"),
    "first message acknowledged": ("#d4b02f", "#b8961f"),
    UNKNOWN_PHASE: ("#b0a6a0", "#7d756f"),
}
"""What a stretch of a failover waits for."""
OVER = 'paint-order="stroke" stroke-width="4" font-size="10"'
"""Small words that lie over lines, with room around them."""
SHEET = (
    (
        ".paper{fill:#ffffff}.ink{fill:#1b1f24}.dim{fill:#59626d}.grid{stroke:#e4e7ea}"
        ".zero{stroke:#1b1f24}.label{fill:#14171a}.over{stroke:#ffffff}"
    ),
    (
        ".paper{fill:#14171a}.ink{fill:#e8eaed}.dim{fill:#a3abb5}.grid{stroke:#2b3036}"
        ".zero{stroke:#e8eaed}.label{fill:#14171a}.over{stroke:#14171a}"
    ),
)

Row = Mapping[str, Any]
Place = Callable[[float], float]
Said = Callable[[Row], str]
Classes = Callable[[Row], str]


def picture(parts: Iterable[str], height: float, sets: Iterable[Sequence[int]], scheme: str) -> str:
    """The whole of it: what it is drawn with, the paper and the parts."""
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}" '
                f'viewBox="0 0 {WIDTH} {height:.0f}" font-family="system-ui, sans-serif" '
                'font-size="12">'
            ),
            style(sets, scheme),
            f'<rect class="paper" width="{WIDTH}" height="{height:.0f}"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def style(sets: Iterable[Sequence[int]], scheme: str) -> str:
    """The colours of `LIGHT` or `DARK`, or (`EITHER`) those of light, and of dark where a reader
    prefers it.
    """
    known = {**COLOURS, **{f"until {name}": pair for name, pair in PHASES.items()}}
    named = {name_of(name): pair for name, pair in known.items()}
    named.update({set_class(one): _set_colours(one) for one in sets})
    light, dark = (
        SHEET[which] + "".join(f".{name}{{fill:{pair[which]}}}" for name, pair in named.items())
        for which in (0, 1)
    )
    if scheme == EITHER:
        return f"<style>{light}\n@media (prefers-color-scheme: dark){{{dark}}}</style>"
    return f"<style>{dark if scheme == DARK else light}</style>"


def name_of(kind: str) -> str:
    """A kind as the name of a class."""
    return re.sub(r"[^a-z0-9]+", "-", kind.lower()).strip("-")


def phase_class(phase: str) -> str:
    """The class of what waits for a phase."""
    return name_of(f"until {phase if phase in PHASES else UNKNOWN_PHASE}")


def set_class(members: Sequence[int]) -> str:
    """The class of a SyncStateSet; the same members always have the same."""
    return "members-" + "-".join(map(str, sorted(members)))


def _set_colours(members: Sequence[int]) -> tuple[str, str]:
    """Colours that follow from the members alone."""
    chosen = set(members)
    mask = sum(1 << ((one - 1) % 61) for one in chosen)
    hue = mask * SET_HUE_STEP % 360 / 360
    light, dark = (
        _hex(colorsys.hls_to_rgb(hue, steps[max(0, min(len(chosen), len(steps)) - 1)], much))
        for steps, much in zip(SET_LIGHTNESS, SET_SATURATION, strict=True)
    )
    return light, dark


def _hex(parts: Iterable[float]) -> str:
    return "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def scale(from_ms: float, to_ms: float, left: float, right: float) -> Place:
    """Where a moment stands between two ends, evenly."""
    length = max(1, to_ms - from_ms)
    return lambda at_ms: (
        left + (right - left) * (min(max(at_ms, from_ms), to_ms) - from_ms) / length
    )


def bars(
    stretches: Iterable[Row], place: Place, classes_of: Classes, said: Said
) -> Iterator[tuple[str, Row, str]]:
    """Classes, stretch and bar. What is shorter than a pixel is `NARROWEST_PX` wide; of such ones
    that have a class and a pixel in common the longest stands for all, so that a picture has a size
    however long history is.
    """
    found = [(classes_of(one), one) for one in stretches]
    together: dict[tuple[str, int], list[int]] = {}
    for number, (classes, one) in enumerate(found):
        if _is_narrow(one, place):
            together.setdefault((classes, round(place(one["from_ms"]))), []).append(number)
    others = {
        max(same, key=lambda number: _lasted(found[number][1])): len(same) - 1
        for same in together.values()
    }
    for number, (classes, one) in enumerate(found):
        if number not in others and _is_narrow(one, place):
            continue
        more = f"\nand {others[number]} more within this pixel" if others.get(number) else ""
        x = place(one["from_ms"])
        width = max(NARROWEST_PX, place(one["to_ms"]) - x)
        yield classes, one, rect(x, TOP, width, BAR, classes, said(one) + more)


def lane_bars(
    stretches: Iterable[Row],
    place: Place,
    classes_of: Classes,
    said: Said,
    above: Sequence[str] = (),
) -> list[str]:
    """Stretches that follow one another. Narrow ones would vanish below their neighbours: of all
    classes but the one that takes most of the time they are marked at the foot of the lane as well,
    those of the rarest class above the others, and those of `above` in their order above all.
    """
    lasted: dict[str, float] = {}
    stretches = list(stretches)
    for one in stretches:
        classes = classes_of(one)
        lasted[classes] = lasted.get(classes, 0) + _lasted(one)
    by_time = sorted(lasted, key=lambda one: -lasted[one])[1:]
    drawn = list(bars(stretches, place, classes_of, said))
    parts = [shape for _, _, shape in drawn]
    for classes in (*(one for one in by_time if one not in above), *above):
        parts += [
            rect(
                place(one["from_ms"]),
                TOP + BAR - FOOT,
                NARROWEST_PX,
                FOOT,
                f"mark {kind}",
                said(one),
            )
            for kind, one, _ in drawn
            if kind == classes in by_time and _is_narrow(one, place)
        ]
    return parts


def _lasted(stretch: Row) -> float:
    return float(stretch["to_ms"] - stretch["from_ms"])


def _is_narrow(stretch: Row, place: Place) -> bool:
    return place(stretch["to_ms"]) - place(stretch["from_ms"]) <= NARROWEST_PX


def rect(x: float, y: float, width: float, height: float, classes: str, said: str = "") -> str:
    """A rectangle, and what is said when the pointer rests on it."""
    begin = (
        f'<rect class="{classes}" x="{x:.1f}" y="{y:.2f}" width="{width:.1f}" height="{height:.2f}"'
    )
    return f"{begin}>{title(said)}</rect>" if said else f"{begin}/>"


def rule(x: float, top: float, bottom: float, classes: str) -> str:
    """A line from above to below."""
    return f'<line class="{classes}" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.0f}" y2="{bottom:.0f}"/>'


def text(x: float, y: float, said: str, classes: str = "ink", style: str = "") -> str:
    """Words."""
    return (
        f'<text class="{classes}" x="{x:.1f}" y="{y:.1f}"{" " if style else ""}{style}>'
        f"{escape(said)}</text>"
    )


def title(said: str) -> str:
    """What is said when the pointer rests on a shape."""
    return f"<title>{escape(said)}</title>"


def shortened(said: str, width: float, px: float = LABEL_PX) -> str:
    """As much of it as there is room for, at so many pixels a character."""
    most = int(width / px)
    return said if len(said) <= most else f"{said[: most - 1]}…"


def legend(top: float, names: Iterable[tuple[str, str]]) -> tuple[list[str], float]:
    """Each class with its name, in lines; and where the next line would stand."""
    parts, x = [], float(LEGEND_LEFT)
    for classes, name in names:
        if x + 17 + LEGEND_PX * len(name) > WIDTH - LEGEND_LEFT:
            x, top = float(LEGEND_LEFT), top + 20
        parts.append(rect(x, top - 10, 12, 12, classes))
        parts.append(text(x + 17, top, name, "ink", 'font-size="11"'))
        x += 34 + LEGEND_PX * len(name)
    return parts, top + 20


def when(stretch: Row) -> str:
    """From when to when."""
    return f"{wording.moment(stretch['from_ms'])} to {wording.moment(stretch['to_ms'])} UTC"
