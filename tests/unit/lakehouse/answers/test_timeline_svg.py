import re
import xml.etree.ElementTree as ET
from itertools import combinations
from math import dist
from typing import Any

import pytest

from lakehouse.answers import explain, picture_png
from lakehouse.answers.picture_shapes import (
    BAR,
    DARK,
    EITHER,
    LEFT,
    LIGHT,
    NARROWEST_PX,
    RIGHT,
    TOP,
    WIDTH,
    name_of,
    set_class,
)
from lakehouse.answers.replica_roles import CATCHING_UP, DOWN, IN_SET, MASTER
from lakehouse.answers.timeline import NO_MASTER
from lakehouse.answers.timeline_failovers import LINES_MAX, LONGEST, NEWEST, ROWS_MAX
from lakehouse.answers.timeline_svg import TICKS_MAX, timeline_svg

HOUR = 3_600_000
BEGAN = 1_767_225_600_000
SVG = "{http://www.w3.org/2000/svg}"


def model(**other: Any) -> dict[str, Any]:
    stretches = [{"from_ms": BEGAN, "to_ms": BEGAN + HOUR, "role": MASTER, "epoch": 1, "why": ""}]
    found = {
        "broker_name": "broker-a",
        "from_ms": BEGAN,
        "to_ms": BEGAN + HOUR,
        "replicas": [{"broker_id": 1, "address": "h1:10911", "stretches": stretches}],
        "sync_state_sets": [],
        "elections": [],
        "gaps": [],
        "failovers": [],
    }
    return {**found, **other}


def election(at_ms: int, epoch: int | None = 2, cause: str = "silent") -> dict[str, Any]:
    return {
        "at_ms": at_ms,
        "offset": 7,
        "accepted": epoch is not None,
        "refusal": None if epoch else "MASTER_NOT_AVAILABLE",
        "winner": 2 if epoch else None,
        "master_epoch": epoch,
        "cause": cause,
        "reason": "",
        "labels": [],
    }


def shapes(text: str, kind: str) -> list[ET.Element]:
    """Those that have the class, whatever else they have."""
    return [one for one in ET.fromstring(text).iter() if kind in (one.get("class") or "").split()]


def of_kind(text: str, kind: str, tag: str) -> list[ET.Element]:
    return [one for one in shapes(text, kind) if one.tag == f"{SVG}{tag}"]


def test_what_lasts_half_the_time_is_half_as_wide() -> None:
    gap = {"from_ms": BEGAN + HOUR // 4, "to_ms": BEGAN + 3 * HOUR // 4, "kind": NO_MASTER}
    text = timeline_svg(model(gaps=[gap]))
    whole = WIDTH - LEFT - RIGHT
    [bar], [role] = shapes(text, "gap"), shapes(text, "role")
    assert float(role.get("width", 0)) == whole
    assert abs(float(bar.get("width", 0)) - whole / 2) < 0.2
    assert abs(float(bar.get("x", 0)) - (LEFT + whole / 4)) < 0.2
    assert "no master for 1800.0 s" in (bar.findtext(f"{SVG}title") or "")


def test_a_gap_of_a_millisecond_in_a_year_is_still_seen() -> None:
    gap = {"from_ms": BEGAN + HOUR, "to_ms": BEGAN + HOUR + 1, "kind": NO_MASTER}
    [bar] = shapes(timeline_svg(model(gaps=[gap], to_ms=BEGAN + 8766 * HOUR)), "gap")
    assert float(bar.get("width", 0)) == NARROWEST_PX


def stretches(*found: tuple[str, int]) -> list[dict[str, Any]]:
    """One after the other: role, and how long, ms."""
    made, at_ms = [], BEGAN
    for role, took_ms in found:
        to_ms = at_ms + took_ms
        made.append({"from_ms": at_ms, "to_ms": to_ms, "role": role, "epoch": 1, "why": ""})
        at_ms = to_ms
    return made


def test_who_was_down_for_a_moment_in_a_year_is_still_seen() -> None:
    """What is drawn later lies above: no neighbour hides it, also not the moment of catching up."""
    half = 4_383 * HOUR
    found = stretches((IN_SET, half), (DOWN, 9_000), (CATCHING_UP, 800), (IN_SET, half))
    lane = {"broker_id": 2, "address": "h2:10911", "stretches": found}
    text = timeline_svg(model(replicas=[lane], to_ms=BEGAN + 2 * half))
    x = LEFT + (WIDTH - LEFT - RIGHT) / 2 + 0.5
    foot = TOP + BAR - 1
    over = [
        one
        for one in shapes(text, "role")
        if left_of(one) <= x <= right_of(one)
        and float(one.get("y", 0)) <= foot <= float(one.get("y", 0)) + float(one.get("height", 0))
    ]
    assert "down" in (over[-1].get("class") or "").split()


def test_a_picture_of_a_very_long_history_is_no_larger_than_its_pixels_ask_for() -> None:
    found = stretches(*[(IN_SET, 60_000), (DOWN, 2_000), (CATCHING_UP, 1_000)] * 10_000)
    end_ms = found[-1]["to_ms"]
    lane = {"broker_id": 2, "address": "h2:10911", "stretches": found}
    gaps = [{"from_ms": one["from_ms"], "to_ms": one["to_ms"], "kind": NO_MASTER} for one in found]
    text = timeline_svg(model(replicas=[lane], gaps=gaps, to_ms=end_ms))
    pixels, bars_and_marks = WIDTH - LEFT - RIGHT + 1, 2
    assert 0 < len(shapes(text, "role")) <= 3 * bars_and_marks * pixels
    assert 0 < len(shapes(text, "gap")) <= pixels
    assert "more within this pixel" in text


def as_seen(colour: str) -> tuple[float, float, float]:
    """CIE L*a*b*, in which equal distances look equal."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts
    )
    x, y, z = (
        one ** (1 / 3) if one > 0.008856 else 7.787 * one + 16 / 116
        for one in (
            (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047,
            0.2126 * red + 0.7152 * green + 0.0722 * blue,
            (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883,
        )
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


AT_SIGHT = 10.0
"""Two colours that lie side by side look alike from about 2 downwards."""


@pytest.mark.parametrize("scheme", [LIGHT, DARK])
def test_any_two_sets_of_up_to_four_replicas_differ_at_sight(scheme: str) -> None:
    members = [one for count in range(1, 5) for one in combinations((1, 2, 3, 4), count)]
    sets = [
        {"from_ms": BEGAN + i, "to_ms": BEGAN + i + 1, "members": one, "epoch": i, "reason": ""}
        for i, one in enumerate(members)
    ]
    text = timeline_svg(model(sync_state_sets=sets), scheme)
    colours = {}
    for one in members:
        [colour] = re.findall(rf"\.{set_class(one)}{{fill:(#[0-9a-f]+)}}", text)
        colours[one] = as_seen(colour)
    near = min(combinations(colours, 2), key=lambda two: dist(colours[two[0]], colours[two[1]]))
    assert dist(colours[near[0]], colours[near[1]]) > AT_SIGHT, near


def test_sets_too_narrow_for_a_name_are_named_beside_their_colour() -> None:
    sets = [
        {"from_ms": BEGAN, "to_ms": BEGAN + HOUR, "members": (1, 2, 3), "epoch": 1, "reason": "r"},
        {"from_ms": BEGAN + HOUR, "to_ms": BEGAN + HOUR + 1, "members": (1, 3), "epoch": 2,
         "reason": "r"},
    ]  # fmt: skip
    found = ET.fromstring(timeline_svg(model(sync_state_sets=sets))).iter(f"{SVG}text")
    assert [one.text for one in found].count("{1,3}") == 1


def test_only_what_is_drawn_is_explained() -> None:
    text = timeline_svg(model())
    assert ">master<" in text and ">down<" not in text and ">refused<" not in text


def test_elections_at_one_moment_share_a_mark_that_names_each() -> None:
    found = [election(BEGAN + HOUR // 2 + i, 2 + i) for i in range(20)]
    [mark] = shapes(timeline_svg(model(elections=found)), "election")
    said = mark.findtext(f"{SVG}title") or ""
    assert "epoch 2: master 2" in said and "and 10 more" in said
    refused = shapes(
        timeline_svg(model(elections=[election(BEGAN, None), election(BEGAN + HOUR)])), "election"
    )
    assert len({one.get("class") for one in refused}) == 2


def failover(
    at_ms: int = BEGAN, silence_ms: int = 500, took_ms: int = 40, **other: Any
) -> dict[str, Any]:
    phases = [
        {"phase": "detected", "at_ms": at_ms, "took_ms": 0},
        {"phase": "applied", "at_ms": at_ms + took_ms, "took_ms": took_ms},
    ]
    found = {
        "at_ms": at_ms,
        "old_epoch": 1,
        "new_epoch": 2,
        "old_master": 1,
        "new_master": 2,
        "cause": "silent",
        "last_message_ms": at_ms - silence_ms,
        "first_acknowledged_ms": at_ms + took_ms,
        "unavailable_ms": silence_ms + took_ms,
        "phases": phases,
    }
    return {**found, **other}


def left_of(shape: ET.Element) -> float:
    return float(shape.get("x", 0))


def right_of(shape: ET.Element) -> float:
    return left_of(shape) + float(shape.get("width", 0))


def test_all_failovers_have_one_scale_around_their_detection() -> None:
    """Ten times as long is as much longer, wherever it stands."""
    found = [failover(took_ms=took, silence_ms=took) for took in (99, 999, 9_999)]
    text = timeline_svg(model(failovers=found))
    silences, phases = of_kind(text, "silence", "rect"), of_kind(text, "phase", "rect")
    assert len(silences) == len(phases) == 3
    detected = {round(right_of(one)) for one in silences} | {round(left_of(one)) for one in phases}
    assert max(detected) - min(detected) <= 1, "in one line"
    for ends in ([right_of(one) for one in phases], [-left_of(one) for one in silences]):
        assert abs((ends[2] - ends[1]) - (ends[1] - ends[0])) < 0.3
    assert "silence 999 ms" in text and "applied +999 ms" in text


def test_what_is_short_after_something_long_is_told_below() -> None:
    """On the scale it is narrower than a pixel, and a file has no pointer."""
    names = ("detected", "received", "epoch durable", "first message acknowledged")
    phases = [
        {"phase": name, "at_ms": BEGAN + at, "took_ms": 0}
        for name, at in zip(names, (0, 28_000, 28_009, 28_144), strict=True)
    ]
    [told] = of_kind(timeline_svg(model(failovers=[failover(phases=phases)])), "over", "text")
    assert told.text == (
        "silence 500 ms · received 28.0 s · epoch durable 9 ms · first message acknowledged 135 ms"
    )


def test_every_phase_that_is_known_has_its_colour_and_is_explained_where_it_took_time() -> None:
    known = [*explain.PHASES, "epoch durable", "master role taken", "first message acknowledged"]
    phases = [
        {"phase": name, "at_ms": BEGAN + 10 * i, "took_ms": 10} for i, name in enumerate(known)
    ]
    at_once = {"phase": "of a later release", "at_ms": phases[-1]["at_ms"], "took_ms": 0}
    text = timeline_svg(model(failovers=[failover(phases=[*phases, at_once])]))
    drawn = [(one.get("class") or "").split()[-1] for one in of_kind(text, "phase", "rect")]
    assert drawn == [name_of(f"until {name}") for name in known[1:]]
    assert all(f">until {name}<" in text for name in known[1:])
    assert "until another phase" not in text


def test_a_stamp_of_a_clock_that_is_behind_moves_no_detection() -> None:
    """The broker's clock is 30 ms behind the controller's: its phase comes before the detection."""
    found = failover()
    early = {"phase": "epoch durable", "at_ms": BEGAN - 30, "took_ms": 0}
    text = timeline_svg(model(failovers=[{**found, "phases": [early, *found["phases"]]}]))
    [silence], [phase] = of_kind(text, "silence", "rect"), of_kind(text, "phase", "rect")
    assert abs(right_of(silence) - left_of(phase)) < 0.3
    assert "silence 500 ms" in text and "applied 40 ms" in text


def test_what_nobody_reported_is_said_and_draws_no_silence() -> None:
    one = failover(last_message_ms=None, unavailable_ms=None, phases=[])
    text = timeline_svg(model(failovers=[one]))
    assert not of_kind(text, "silence", "rect") and not of_kind(text, "phase", "rect")
    assert "not reported" in text and "brokers did not report what clients waited in 1" in text


@pytest.mark.parametrize("count", [1, ROWS_MAX, ROWS_MAX + 1, 500, 2 * LINES_MAX + 1])
def test_few_failovers_are_a_row_each_and_of_many_the_longest_and_newest_are(count: int) -> None:
    found = [failover(BEGAN + 60_000 * i, took_ms=40 + i % 97) for i in range(count)]
    text = timeline_svg(model(failovers=found, to_ms=BEGAN + 60_000 * count))
    rows, lines = len(shapes(text, "close-up")), len(shapes(text, "line"))
    few = count <= ROWS_MAX
    assert rows == (count if few else LONGEST + NEWEST)
    assert (lines == 0) if few else (0 < lines <= LINES_MAX)
    assert f"{count} failover" in text


def test_among_many_none_that_lasted_long_is_hidden() -> None:
    found = [failover(BEGAN + i, took_ms=40) for i in range(3 * LINES_MAX)]
    found[1_000] = failover(BEGAN + 1_000, took_ms=90_000)
    text = timeline_svg(model(failovers=found))
    ends = [right_of(one) for one in of_kind(text, "phase", "rect")]
    assert sum(end > max(ends) - 1 for end in ends) == 2, "as a line, and as a row"


def test_a_set_has_its_colour_wherever_it_comes_again() -> None:
    sets = [
        {
            "from_ms": BEGAN + i * HOUR // 4,
            "to_ms": BEGAN + (i + 1) * HOUR // 4,
            "members": members,
            "epoch": i,
            "reason": "r",
        }
        for i, members in enumerate([(1, 2, 3), (2, 3), (3, 1, 2), (1, 3)])
    ]
    text = timeline_svg(model(sync_state_sets=sets))
    classes = [one.get("class") for one in of_kind(text, "set", "rect")]
    assert classes[0] == classes[2] and len(set(classes)) == 3
    assert all(f".{set_class(one['members'])}{{fill:#" in text for one in sets)


@pytest.mark.parametrize(("scheme", "paper"), [(LIGHT, "#ffffff"), (DARK, "#14171a")])
def test_a_picture_has_the_colours_that_were_asked_for(scheme: str, paper: str) -> None:
    text = timeline_svg(model(), scheme)
    assert f".paper{{fill:{paper}}}" in text and "@media" not in text
    assert "@media (prefers-color-scheme: dark)" in timeline_svg(model(), EITHER)


def test_every_shape_has_a_colour_in_both_schemes() -> None:
    later = {"phase": "of a later release", "at_ms": BEGAN + 9, "took_ms": 9}
    detected = {"phase": "detected", "at_ms": BEGAN, "took_ms": 0}
    found = [failover(phases=[detected, later])]
    gap = {"from_ms": BEGAN, "to_ms": BEGAN + HOUR, "kind": NO_MASTER}
    for scheme in (LIGHT, DARK):
        text = timeline_svg(model(failovers=found, gaps=[gap]), scheme)
        for one in ET.fromstring(text).iter(f"{SVG}rect"):
            assert f".{(one.get('class') or '').split()[-1]}{{fill:#" in text, one.attrib
    assert name_of(NO_MASTER) == "no-master"


def test_a_picture_can_be_had_as_png() -> None:
    text = timeline_svg(model(failovers=[failover()]), DARK)
    height = float(ET.fromstring(text).get("height", 0))
    found = picture_png.png_of(text)
    assert found[:8] == b"\x89PNG\r\n\x1a\n"
    size = [int.from_bytes(found[at : at + 4], "big") for at in (16, 20)]
    assert size == [picture_png.ZOOM * WIDTH, picture_png.ZOOM * height]
    blank = picture_png.png_of(timeline_svg(model(broker_name="", replicas=[]), DARK))
    assert len(blank) < len(found), "names are drawn, with a font that comes along"


def test_names_are_text_and_never_markup() -> None:
    text = timeline_svg(
        model(broker_name='<script>"&', elections=[election(BEGAN, cause="</title><script/>")])
    )
    root = ET.fromstring(text)
    assert not list(root.iter(f"{SVG}script"))
    assert any('<script>"&' in (one.text or "") for one in root.iter(f"{SVG}text"))


def test_any_length_has_a_few_ticks() -> None:
    for length in (1, 7, 40, 999, 65_000, HOUR, 26 * HOUR, 400 * 24 * HOUR, 50 * 8766 * HOUR):
        ticks = shapes(timeline_svg(model(to_ms=BEGAN + length)), "tick")
        assert len(ticks) <= TICKS_MAX + 1
        assert len(ticks) >= 1
    ET.fromstring(timeline_svg(model(to_ms=BEGAN, replicas=[])))
