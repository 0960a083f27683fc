"""Anchors hold a lake to what it was called, offset by offset."""

from __future__ import annotations

import json
from dataclasses import replace as with_other
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from lakehouse.proof.anchors import (
    Anchor,
    NoAnchor,
    contradicting,
    converted,
    cuts,
    digests_held,
    held,
    missing,
    out_of_order,
    parsed,
    parsed_lines,
    taken_away,
    uncovered,
)
from lakehouse.proof.names import BLOCK_RECORDS, BlockName, Chain, first_link

PLACE = ("regent.commands", 0)
BEGIN = {PLACE: first_link("c", *PLACE)}
ENDS = (1_000, 2_000, 2_400, 3_000, 3_100)
NAMES = {end: BlockName(bytes([end // 100]) * 32, b"") for end in ENDS}


def anchored(**other: Any) -> list[Anchor]:
    chain = Chain(BEGIN[PLACE])
    return [
        Anchor(
            cluster_id="c",
            topic=PLACE[0],
            partition=0,
            offset=end - 1,
            link=chain.to(end, NAMES).hex(),
            digest="ab" * 32,
            at_ms=1_767_225_600_000,
            **other,
        )
        for end in ENDS
    ]


def ranges(names: dict[int, BlockName]) -> list[tuple[int, int]]:
    return [(one.first, one.last) for one in held(anchored(), {PLACE: names}, BEGIN)]


def test_an_anchor_is_one_line_and_comes_back() -> None:
    first, *_ = anchored()
    assert parsed(first.line()) == first and "\n" not in first.line()
    assert (first.end, first.is_whole, anchored()[2].is_whole) == (BLOCK_RECORDS, True, False)
    assert cuts(anchored()) == {PLACE: set(ENDS)}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[1]",
        '{"offset": 1}',
        "no",
        replace(anchored()[0], anchor=2).line(),
        anchored()[0].line().replace("digest", "digeſt"),
    ],
)
def test_what_is_no_anchor_is_refused(line: str) -> None:
    with pytest.raises(NoAnchor):
        parsed(line)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("offset", "NaN"),
        ("offset", "-1"),
        ("offset", "0.5"),
        ("offset", str(2**63)),
        ("partition", "-1"),
        ("partition", "null"),
        ("at_ms", "Infinity"),
        ("at_ms", "-1"),
        ("at_ms", str(10**15)),
        ("link", '"no hash"'),
        ("link", f'"{"AB" * 32}"'),
        ("digest", '""'),
        ("topic", "7"),
        ("topic", '"t","kopic":"t"'),
        ("topic", "[" * 5_000),
    ],
)
def test_a_line_with_a_value_that_no_anchor_has_is_none(name: str, value: str) -> None:
    first = anchored()[0]
    own = json.dumps(getattr(first, name))
    line = first.line().replace(f'"{name}":{own}', f'"{name}":{value}')
    assert line != first.line()
    with pytest.raises(NoAnchor):
        parsed(line)
    with pytest.raises(NoAnchor):
        converted(asdict(first) | {name: float("nan")})


def test_anchors_that_are_gone_from_the_middle_are_told() -> None:
    first, second, part, third, end = anchored()
    assert list(missing([first, second, part, third, end])) == []
    assert list(missing([second, third, second])) == [], "lines of old may be kept elsewhere"
    far = replace(first, offset=7_999)
    one, four = missing([far, first, part, third])
    assert "commands-0 are missing, 1 between those of offset 999 and 2999: lines were" in one
    assert "are missing, 4 between those of offset 2999 and 7999: " in four


def test_anchors_that_change_places_are_told_and_those_that_are_told_again_not() -> None:
    first, second, part, third, end = anchored()
    assert list(out_of_order([first, second, third, second, third, end])) == []
    assert list(out_of_order([first, replace(first, topic="other"), second])) == []
    [told] = out_of_order([first, third, second, part, end])
    assert "regent.commands-0 do not stand in the order in which they are told" in told


def test_what_lies_behind_the_last_anchor_is_told() -> None:
    assert list(uncovered(anchored(), {PLACE: 4_099})) == []
    behind, other = uncovered(anchored(), {PLACE: 4_100, ("regent.outcomes", 0): 7})
    assert behind.startswith("1000 records of regent.commands-0 lie behind its last anchor")
    assert "no anchor is of regent.outcomes-0" in other


def test_lines_that_are_none_are_told_but_for_a_last_one_that_was_cut() -> None:
    lines = [one.line() for one in anchored()]
    found, told = parsed_lines("\n".join([lines[0], "junk", "", lines[1], lines[2][:20]]))
    assert found == anchored()[:2]
    [one] = told
    assert one.startswith("line 2 of the anchors is none")


def test_a_lake_that_is_what_it_was_holds() -> None:
    assert ranges(NAMES) == []


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ((1_000,), [(0, 999)]),
        ((2_000,), [(1_000, 1_999)]),
        ((2_400, 3_000), [(2_000, 2_399), (2_400, 2_999)]),
        ((3_000,), [(2_400, 2_999)]),
        ((3_100,), [(3_000, 3_099)]),
        ((1_000, 3_100), [(0, 999), (3_000, 3_099)]),
    ],
)
def test_what_differs_is_named_from_the_last_anchor_that_holds(
    at: tuple[int, ...], expected: list[tuple[int, int]]
) -> None:
    other = NAMES | {end: with_other(NAMES[end], log=b"x" * 32) for end in at}
    assert ranges(other) == expected
    [first, *_] = held(anchored(), {PLACE: other}, BEGIN)
    assert "bronze/records, regent.commands-0 offsets" in first.text()
    assert "not what was anchored (2026-01-01 00:00:00.000 UTC)" in first.text()


def test_an_end_that_was_anchored_and_is_gone_is_named() -> None:
    assert list(taken_away(anchored(), {PLACE: 3_100})) == []
    [told] = taken_away(anchored(), {PLACE: 2_500})
    assert (told.first, told.last) == (2_500, 3_099)
    [gone] = taken_away(anchored(), {})
    assert (gone.first, gone.last) == (0, 3_099)


def test_digests_are_held_against_those_that_are_published() -> None:
    published = {999: "ab" * 32, 1_999: "cd" * 32}
    [told] = digests_held(anchored(), published)
    assert (told.table, told.first) == ("silver/decisions", 1_999)
    assert "its digest is cdcd" in told.said


def test_anchors_that_contradict_each_other_are_named() -> None:
    one, two, *_ = anchored()
    assert list(contradicting([one, two, one, replace(one, digest=None)])) == []
    for other in (replace(one, link="00"), replace(one, digest="00")):
        [told] = contradicting([one, two, other])
        assert told.first == 999 and "anchored twice and not the same" in told.said
