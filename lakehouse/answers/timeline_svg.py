"""The timeline of a broker set as a picture: plain SVG text, readable by any browser, without
a script.

Responsible for the lanes and their axis; failovers are drawn below them (`timeline_failovers`).
What is shorter than a pixel is drawn two pixels wide, and marked at the foot of its lane, so that
nothing vanishes in a long history.
Refuses to know what any of it means (`timeline`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from lakehouse import wording
from lakehouse.answers.picture_shapes import (
    EITHER,
    ELECTED,
    LABEL_PX,
    LEFT,
    REFUSED,
    RIGHT,
    WIDTH,
    Place,
    Row,
    bars,
    lane_bars,
    legend,
    name_of,
    picture,
    rule,
    scale,
    set_class,
    shortened,
    text,
    title,
    when,
)
from lakehouse.answers.replica_roles import CATCHING_UP, DOWN, MASTER, ROLES
from lakehouse.answers.timeline import NO_MASTER, NO_MESSAGE
from lakehouse.answers.timeline_failovers import failover_parts, summary

LANE, LANES_TOP = 28, 96
TICKS_MAX = 9
SETS_MAX = 16
"""SyncStateSets that are named beside their colours: those that held for the longest time."""
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


def timeline_svg(model: Row, scheme: str = EITHER) -> str:
    """The picture of a model of `timeline.timeline_model` or `timeline.window`, in the colours of
    light, dark, or either as its reader prefers.
    """
    place = scale(model["from_ms"], model["to_ms"], LEFT, WIDTH - RIGHT)
    lanes: list[tuple[str, list[str]]] = [
        (f"{one['broker_id']}  {one['address']}", _role_bars(one, place))
        for one in model["replicas"]
    ]
    lanes.append(("SyncStateSet", _set_bars(model["sync_state_sets"], place)))
    lanes.append(("elections", _election_marks(model["elections"], place)))
    lanes.append(("gaps", _gap_bars(model["gaps"], place)))
    bottom = LANES_TOP + LANE * len(lanes)
    parts = [*_heading(model), *_axis(model["from_ms"], model["to_ms"], place, bottom)]
    for number, (name, shapes) in enumerate(lanes):
        parts += _lane(name, shapes, LANES_TOP + LANE * number)
    named, height = legend(bottom + 44, ((name_of(one), one) for one in _kinds(model)))
    members = _sets_by_time(model["sync_state_sets"])
    known = [(set_class(one), wording.members(one)) for one in members[:SETS_MAX]]
    sets, height = legend(height, known)
    below, height = failover_parts(model["failovers"], height + 22)
    return picture([*parts, *named, *sets, *below], height + 10, members, scheme)


def _heading(model: Row) -> list[str]:
    span = f"{wording.moment(model['from_ms'])} to {wording.moment(model['to_ms'])} UTC"
    found = model["failovers"]
    return [
        text(16, 30, f"Broker set {model['broker_name']}", "ink",
             'font-size="20" font-weight="600"'),
        text(16, 50, span, "dim"),
        text(16, 70, summary(found) if found else _without(model), "ink", 'font-size="13"'),
    ]  # fmt: skip


def _without(model: Row) -> str:
    """Of a group that replicates by majority its terms; none of its changes is a failover here."""
    leaders = [one["leader_id"] for one in model.get("terms", ()) if one["leader_id"]]
    return f"{len(leaders)} terms with a leader" if leaders else "no failover"


def _lane(name: str, shapes: Iterable[str], top: float) -> list[str]:
    shown = shortened(name, LEFT - 24)
    line = (
        f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{top + LANE}" y2="{top + LANE}"/>'
    )
    return [line, f'<g transform="translate(0 {top:.0f})">{text(16, 19, shown)}', *shapes, "</g>"]


def _kinds(model: Row) -> list[str]:
    """What the lanes are made of, as far as it is in them."""
    roles = {one["role"] for replica in model["replicas"] for one in replica["stretches"]}
    gaps = {one["kind"] for one in model["gaps"]}
    results = {_result(one) for one in model["elections"]}
    known = ((ROLES, roles), ((NO_MASTER, NO_MESSAGE), gaps), ((ELECTED, REFUSED), results))
    return [one for names, found in known for one in names if one in found]


def _sets_by_time(sets: Iterable[Row]) -> list[tuple[int, ...]]:
    """The different ones, first those that held for the longest time."""
    lasted: dict[tuple[int, ...], int] = {}
    for one in sets:
        members = tuple(sorted(one["members"]))
        lasted[members] = lasted.get(members, 0) + one["to_ms"] - one["from_ms"]
    return sorted(lasted, key=lambda one: -lasted[one])


def _role_bars(replica: Row, place: Place) -> list[str]:
    """Where all are narrow, masterships lie above the others. Among the marks what was down lies
    above: a moment of catching up comes after each.
    """

    def said(one: Row) -> str:
        why = f" ({one['why']})" if one["why"] else ""
        epoch = "" if one["epoch"] is None else f", epoch {one['epoch']}"
        role = f"{replica['broker_id']}: {one['role']}{why}{epoch}"
        return f"{role}\n{when(one)}"

    ordered = sorted(replica["stretches"], key=lambda one: one["role"] == MASTER)
    above = [_role_classes(role) for role in (CATCHING_UP, DOWN)]
    return lane_bars(ordered, place, lambda one: _role_classes(one["role"]), said, above)


def _role_classes(role: str) -> str:
    return f"role {name_of(role)}"


def _set_bars(sets: Sequence[Row], place: Place) -> list[str]:
    parts = lane_bars(sets, place, lambda one: f"set {set_class(one['members'])}", _set_said)
    for one in sets:
        members = wording.members(one["members"])
        if place(one["to_ms"]) - place(one["from_ms"]) > LABEL_PX * len(members) + 8:
            x = place(one["from_ms"]) + 4
            parts.append(text(x, 18, members, "ink", 'pointer-events="none"'))
    return parts


def _set_said(one: Row) -> str:
    members = wording.members(one["members"])
    return f"SyncStateSet {members} epoch {one['epoch']}, {one['reason']}\n{when(one)}"


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
        colour = ELECTED if won else REFUSED
        said = "\n".join(_election_said(one) for one in found[:10]) + (
            (f"\nand {len(found) - 10} more") if len(found) > 10 else ""
        )
        marks.append(f'<path class="election {colour}" d="M{x} 6l5 9h-10z">{title(said)}</path>')
        label = str(won[-1]["master_epoch"]) if won else ""
        if label and x + 12 + LABEL_PX * len(label) <= following:
            marks.append(text(x + 6, 15, label, colour, 'font-size="10"'))
    return marks


def _result(one: Row) -> str:
    return REFUSED if one["winner"] is None else ELECTED


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
    drawn = bars(ordered, place, lambda one: f"gap {name_of(one['kind'])}", _gap_said)
    return [shape for _, _, shape in drawn]


def _gap_said(one: Row) -> str:
    lasted = wording.duration(one["to_ms"] - one["from_ms"])
    return f"{one['kind']} for {lasted}\n{when(one)}"


def _axis(from_ms: int, to_ms: int, place: Place, bottom: float) -> list[str]:
    length = to_ms - from_ms
    step = next(
        (step for step in STEPS_MS if length / step <= TICKS_MAX),
        STEPS_MS[-1] * (1 + length // (STEPS_MS[-1] * TICKS_MAX)),
    )
    parts, at_ms = [], -(-from_ms // step) * step
    while at_ms <= to_ms:
        x = place(at_ms)
        anchor = "middle" if x < WIDTH - 2 * RIGHT else "end"
        parts.append(rule(x, LANES_TOP - 8, bottom + 4, "grid tick"))
        parts.append(
            text(
                x,
                bottom + 18,
                _tick_label(at_ms, step),
                "dim",
                f'text-anchor="{anchor}" font-size="11"',
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
