import xml.etree.ElementTree as ET
from typing import Any

from lakehouse.answers.timeline import MASTER, NO_MASTER
from lakehouse.answers.timeline_svg import (
    CLOSE_UPS_MAX,
    LEFT,
    NARROWEST_PX,
    RIGHT,
    TICKS_MAX,
    WIDTH,
    timeline_svg,
)

HOUR = 3_600_000
BEGAN = 1_767_225_600_000
SVG = "{http://www.w3.org/2000/svg}"


def model(**other: Any) -> dict[str, Any]:
    stretches = [{"from_ms": BEGAN, "to_ms": BEGAN + HOUR, "role": MASTER, "epoch": 1}]
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
    return [one for one in ET.fromstring(text).iter() if one.get("class") == kind]


def test_what_lasts_half_the_time_is_half_as_wide() -> None:
    gap = {"from_ms": BEGAN + HOUR // 4, "to_ms": BEGAN + 3 * HOUR // 4, "kind": NO_MASTER}
    text = timeline_svg(model(gaps=[gap]))
    whole = WIDTH - LEFT - RIGHT
    [bar], [role] = shapes(text, "gap"), shapes(text, "master")
    assert float(role.get("width", 0)) == whole
    assert abs(float(bar.get("width", 0)) - whole / 2) < 0.2
    assert abs(float(bar.get("x", 0)) - (LEFT + whole / 4)) < 0.2
    assert "no master for 1800.0 s" in (bar.findtext(f"{SVG}title") or "")


def test_a_gap_of_a_millisecond_in_a_year_is_still_seen() -> None:
    gap = {"from_ms": BEGAN + HOUR, "to_ms": BEGAN + HOUR + 1, "kind": NO_MASTER}
    [bar] = shapes(timeline_svg(model(gaps=[gap], to_ms=BEGAN + 8766 * HOUR)), "gap")
    assert float(bar.get("width", 0)) == NARROWEST_PX


def test_elections_at_one_moment_share_a_mark_that_names_each() -> None:
    found = [election(BEGAN + HOUR // 2 + i, 2 + i) for i in range(20)]
    [mark] = shapes(timeline_svg(model(elections=found)), "election")
    said = mark.findtext(f"{SVG}title") or ""
    assert "epoch 2: master 2" in said and "and 10 more" in said
    refused = shapes(
        timeline_svg(model(elections=[election(BEGAN, None), election(BEGAN + HOUR)])), "election"
    )
    assert len({one.get("fill") for one in refused}) == 2


def test_failovers_are_drawn_again_on_their_own_scale_the_last_of_them() -> None:
    phases = [
        {"phase": "detected", "at_ms": BEGAN, "took_ms": 0},
        {"phase": "applied", "at_ms": BEGAN + 40, "took_ms": 40},
    ]
    one = {
        "at_ms": BEGAN,
        "old_epoch": 1,
        "new_epoch": 2,
        "old_master": 1,
        "new_master": 2,
        "cause": "silent",
        "phases": phases,
    }
    text = timeline_svg(model(failovers=[one, {**one, "phases": []}]))
    [bar] = shapes(text, "phase")
    assert float(bar.get("width", 0)) == WIDTH - LEFT - RIGHT
    assert "applied +40" in text
    assert (
        len(shapes(timeline_svg(model(failovers=[one] * (CLOSE_UPS_MAX + 5))), "close-up"))
        == CLOSE_UPS_MAX
    )


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
