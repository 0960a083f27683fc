"""The failovers of a timeline, drawn on one scale: what clients waited, and for what.

Responsible for the logarithmic scale around the moment of detection: the silence before it reaches
to the left, the phases after it to the right. Below a row stands how long each of them took, for
the scale hides what is short after something long, and paper has no pointer. A few failovers are a
row each; of many each is a line, and the longest and newest are drawn again as rows.
Refuses to know the rest of the timeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil, log10

from lakehouse import wording
from lakehouse.answers.failovers import percentile
from lakehouse.answers.picture_shapes import (
    LABEL_PX,
    LEFT,
    OVER,
    PHASES,
    RIGHT,
    SILENCE,
    SMALL,
    SMALL_PX,
    WIDTH,
    Place,
    Row,
    legend,
    name_of,
    phase_class,
    rect,
    rule,
    shortened,
    text,
    title,
)

ROWS_MAX = 12
LONGEST, NEWEST = 8, 4
"""Rows of the close-ups, when there are more failovers than `ROWS_MAX`."""
LINES_MAX = 640
ROW, ROW_BAR = 52, 20
WAITED_PX = 100
"""Room at the right for what clients waited."""
TICKS = (
    (1, "1 ms"),
    (10, "10 ms"),
    (100, "100 ms"),
    (1_000, "1 s"),
    (10_000, "10 s"),
    (60_000, "1 min"),
    (600_000, "10 min"),
    (3_600_000, "1 h"),
    (86_400_000, "1 day"),
)
TICK_ROOM_PX = 44
DETECTED = "detected"
UNREPORTED = "not reported"


def failover_parts(failovers: Sequence[Row], top: float) -> tuple[list[str], float]:
    """The shapes, and where they end."""
    if not failovers:
        return [], top
    place = _around_detection(failovers)
    parts = [
        text(16, top + 4, "Failovers", "ink", 'font-size="16" font-weight="600"'),
        text(
            16,
            top + 23,
            "One logarithmic scale for all, around the moment of detection. Silence reaches from "
            "the last message of the old master; time in which nobody sent is in it.",
            "dim",
            'font-size="11"',
        ),
    ]
    named, top = legend(top + 46, _names(failovers))
    parts += named
    if len(failovers) > ROWS_MAX:
        drawn, top = _lines(failovers, place, top + 4)
        parts += drawn
        parts.append(
            text(
                16,
                top + 14,
                f"The {LONGEST} longest and the {NEWEST} newest of them",
                "ink",
                'font-weight="600"',
            )
        )
        failovers, top = _chosen(failovers), top + 16
    drawn, top = _rows(failovers, place, top + 4)
    return parts + drawn, top


def summary(failovers: Sequence[Row]) -> str:
    """What clients waited, in one sentence."""
    known = [one["unavailable_ms"] for one in failovers if one["unavailable_ms"] is not None]
    count = f"{len(failovers)} failover{'s' if len(failovers) > 1 else ''}"
    missing = len(failovers) - len(known)
    untold = f"; brokers did not report what clients waited in {missing}" if missing else ""
    if not known:
        return count + untold
    if len(known) == 1:
        return f"{count}: clients waited {wording.duration(known[0])}{untold}"
    half, most = (wording.duration(percentile(known, percent)) for percent in (50, 95))
    return (
        f"{count}: clients waited {half} in the median, at most {most} in 95 of 100, "
        f"{wording.duration(max(known))} in the longest{untold}"
    )


def _began(one: Row) -> int:
    """When it was detected; without a stamp of that, its first phase, else the decision."""
    stamps = [phase["at_ms"] for phase in one["phases"]]
    detected = [phase["at_ms"] for phase in one["phases"] if phase["phase"] == DETECTED]
    return int([*detected, *stamps, one["at_ms"]][0])


def _ended(one: Row) -> int:
    return int(one["phases"][-1]["at_ms"] if one["phases"] else one["at_ms"])


def _silence_ms(one: Row) -> int:
    last = one["last_message_ms"]
    return 0 if last is None else max(0, _began(one) - int(last))


def _size(ms: float) -> float:
    return log10(1 + abs(ms))


def _around_detection(failovers: Sequence[Row]) -> Place:
    """Where so many ms after detection stand; negative ones are before it."""
    before = max(_size(10), *(_size(_silence_ms(one)) for one in failovers)) + 0.1
    after = max(_size(10), *(_size(_ended(one) - _began(one)) for one in failovers)) + 0.1
    decade = (WIDTH - RIGHT - WAITED_PX - LEFT) / (before + after)
    zero = LEFT + decade * before
    return lambda ms: zero + (decade * _size(ms) if ms > 0 else -decade * _size(ms))


def _names(failovers: Sequence[Row]) -> list[tuple[str, str]]:
    """The classes that are drawn, with what each of them waits for."""
    drawn = {kind for one in failovers for _, _, _, kind, _ in _stretches(one)}
    names = [(name_of(SILENCE), SILENCE), *((phase_class(one), f"until {one}") for one in PHASES)]
    return [(kind, name) for kind, name in names if kind in drawn]


def _axis(place: Place, top: float, bottom: float) -> list[str]:
    """Ticks on both sides of the detection, where there is room for their names."""
    zero, right = place(0), WIDTH - RIGHT - WAITED_PX
    parts = [
        rule(zero, top, bottom, "zero"),
        text(zero, top - 4, DETECTED, "ink", 'text-anchor="middle" font-size="11"'),
    ]
    for side in (-1, 1):
        free = zero + side * 30
        for ms, name in TICKS:
            x = place(side * ms)
            if not LEFT - 1 <= x <= right + 1:
                break
            parts.append(rule(x, top, bottom, "grid scale"))
            if side * (x - free) >= TICK_ROOM_PX / 2:
                sign = "−" if side < 0 else "+"
                parts.append(
                    text(x, top - 4, sign + name, "dim", 'text-anchor="middle" font-size="11"')
                )
                free = x + side * TICK_ROOM_PX / 2
    return parts


def _rows(failovers: Sequence[Row], place: Place, top: float) -> tuple[list[str], float]:
    top += 16
    bottom = top + ROW * len(failovers) + 4
    parts = _axis(place, top, bottom)
    parts.append(
        text(WIDTH - RIGHT, top - 4, "clients waited", "dim", 'text-anchor="end" font-size="11"')
    )
    for number, one in enumerate(failovers):
        y = top + 6 + ROW * number
        moved = f"epoch {one['old_epoch']} → {one['new_epoch']}"
        who = f"master {one['old_master']} → {one['new_master']}"
        why = (one["cause"] or "no cause given").replace("_", " ")
        parts += [
            f'<g class="close-up">{title(_said(one))}',
            text(16, y + 11, f"{moved}, {who}", "ink", 'font-size="11" font-weight="600"'),
            text(16, y + 25, wording.moment(_began(one))[:19], "dim", SMALL),
            text(16, y + 38, shortened(why, LEFT - 24, SMALL_PX), "dim", SMALL),
            *_pieces(one, place, y + 1, ROW_BAR, named=True),
            text(LEFT, y + 36, _told(one), "dim over", OVER),
            text(
                WIDTH - RIGHT,
                y + 15,
                _waited(one),
                "ink" if one["unavailable_ms"] is not None else "dim",
                'text-anchor="end" font-weight="600"',
            ),
            "</g>",
        ]
    return parts, bottom + 8


def _lines(failovers: Sequence[Row], place: Place, top: float) -> tuple[list[str], float]:
    """A line for each; of more than `LINES_MAX`, one for the longest of as many as share it."""
    share = ceil(len(failovers) / LINES_MAX)
    groups = [failovers[at : at + share] for at in range(0, len(failovers), share)]
    height = max(1.0, min(6.0, LINES_MAX / len(groups)))
    top += 16
    bottom = top + height * len(groups)
    parts = _axis(place, top, bottom)
    free = top
    for number, group in enumerate(groups):
        one, y = max(group, key=_length), top + height * number
        more = f"\nthe longest of {len(group)}" if len(group) > 1 else ""
        parts.append(f'<g class="line">{title(_said(one) + more)}')
        parts += [*_pieces(one, place, y, height, named=False), "</g>"]
        if y >= free and y < bottom - 6:
            said = wording.moment(_began(group[0]))[:16]
            parts.append(text(16, y + 9, said, "dim", SMALL))
            free = y + 60
    each = "each line is one failover" if share == 1 else f"each line: the longest of {share}"
    parts.append(
        text(WIDTH - RIGHT, bottom + 14, f"oldest above, newest below; {each}", "dim",
             'text-anchor="end" font-size="11"')
    )  # fmt: skip
    return parts, bottom + 24


def _pieces(one: Row, place: Place, y: float, height: float, *, named: bool) -> list[str]:
    """The silence and the phases of a failover; those with room for it with their names."""
    parts = []
    for from_ms, to_ms, shape, kind, name in _stretches(one):
        x, width = place(from_ms), place(to_ms) - place(from_ms)
        said = f"{name} {wording.duration(to_ms - from_ms)}" if named else ""
        parts.append(rect(x, y, width, height, f"{shape} {kind}", said))
        if named and LABEL_PX * len(name) + 6 <= width:
            parts.append(text(x + 5, y + 14, name, "label", 'font-size="11" pointer-events="none"'))
    return parts


def _stretches(one: Row) -> Iterator[tuple[int, int, str, str, str]]:
    """From and to, ms after detection; shape, class and name. A phase that another clock stamped
    before the detection reaches up to nowhere.
    """
    began, silence = _began(one), _silence_ms(one)
    if silence:
        yield -silence, 0, "silence", name_of(SILENCE), "silence"
    for before, phase in pairwise(one["phases"]):
        from_ms, to_ms = max(0, before["at_ms"] - began), phase["at_ms"] - began
        if from_ms < to_ms:
            yield from_ms, to_ms, "phase", phase_class(phase["phase"]), phase["phase"]


def _told(one: Row) -> str:
    """How long each stretch took, as much of it as there is room for."""
    told = " · ".join(
        f"{name} {wording.duration(to_ms - from_ms)}"
        for from_ms, to_ms, _, _, name in _stretches(one)
    )
    return shortened(told, WIDTH - RIGHT - WAITED_PX - LEFT, SMALL_PX)


def _length(one: Row) -> int:
    """What clients waited; where nobody told, as much of it as is known."""
    known = one["unavailable_ms"]
    return int(_silence_ms(one) + _ended(one) - _began(one) if known is None else known)


def _chosen(failovers: Sequence[Row]) -> list[Row]:
    """The longest, longest first, then the newest of the others."""
    numbers = sorted(range(len(failovers)), key=lambda i: -_length(failovers[i]))
    longest = numbers[:LONGEST]
    newest = [i for i in reversed(range(len(failovers))) if i not in longest][:NEWEST]
    return [failovers[i] for i in (*longest, *newest)]


def _waited(one: Row) -> str:
    known = one["unavailable_ms"]
    return UNREPORTED if known is None else wording.duration(known)


def _said(one: Row) -> str:
    began = _began(one)
    steps = [f"{p['phase']} +{wording.duration(p['at_ms'] - began)}" for p in one["phases"]]
    return "\n".join(
        [
            (
                f"epoch {one['old_epoch']} → {one['new_epoch']}, master {one['old_master']} → "
                f"{one['new_master']} ({one['cause'] or 'no cause given'})"
            ),
            f"{wording.moment(began)} UTC, clients waited: {_waited(one)}",
            *steps,
        ]
    )
