"""What the scenarios of acting masters make of what two name servers say."""

import pytest

from tests.interop.acting_nameserver import JAVAS, OURS, _times
from tests.interop.acting_requests import STEPS, Step, _row, _summary
from tests.interop.scripted_brokers import Side


async def nothing(side: Side) -> None:
    """A step in which nobody does anything."""


def step(differs: str = "") -> Step:
    return Step("2.7", nothing, differs)


@pytest.mark.parametrize(
    ("ours", "javas", "beat_s", "ok"),
    [
        (0.2, 0.1, 0.0, True),
        (2.2, 0.1, 0.0, False),
        (14.9, 10.1, 5.0, True),
        (0.1, 9.0, 0.0, True),
        (90.0, 1.0, None, True),
    ],
)
def test_our_name_server_may_not_be_later(
    ours: float, javas: float, beat_s: float | None, ok: bool
) -> None:
    row = _times("acting route after", {JAVAS: javas, OURS: ours}, beat_s)
    assert row.ok == ok and row.result == f"ours {ours:.2f} s, Java's {javas:.2f} s"


def test_equal_answers_and_what_is_seen_are_good_and_any_difference_is_named() -> None:
    same = {"route of T": [1], "clusters": [2]}
    assert _row(step(), [0, 0], [same, dict(same)]).ok
    row = _row(step(), [0, 1], [same, same | {"clusters": [3]}])
    assert not row.ok and "answer: RocketMQ's 0, ours 1" in row.result
    assert "clusters: RocketMQ's [2], ours [3]" in row.result and "route" not in row.result


def test_a_difference_that_is_meant_has_to_be_there() -> None:
    assert _row(step("why"), [0, 0], [{"a": 1}, {"a": 2}]).ok
    assert not _row(step("why"), [0, 0], [{"a": 1}, {"a": 1}]).ok


def test_the_summary_counts_and_fails_with_any_step() -> None:
    good = _row(step(), [0, 0], [{}, {}])
    meant = _row(step("why"), [0, 1], [{}, {}])
    summary = _summary([good, meant])
    assert summary.ok and "2 steps, 1 equal, 1 differ as meant" in summary.result
    assert not _summary([good, _row(step(), [0, 1], [{}, {}])]).ok


def test_every_step_has_a_name_of_its_own() -> None:
    names = [one.rule for one in STEPS]
    assert len(set(names)) == len(names)
