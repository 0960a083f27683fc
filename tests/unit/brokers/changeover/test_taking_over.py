"""Which mastership takes over what slaves did meanwhile, and whom it waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from brokers.changeover.giving_up import Standing
from brokers.changeover.order import Kind, Lines, Order, Record
from brokers.changeover.taking_over import BRIEF_MS, WAIT_MS, Wanted, is_first, patience_ms, wanted

LEADER, OTHER = "a:1", "b:1"
ORDER = Order("c1", Kind.CONTROLLERS, "c", "s", LEADER, LEADER, 1, 1, ("k:1",), "code", 4)
ADOPTED = Record(ORDER, Lines(0), acts=True)
RELEASED = Record(replace(ORDER, kind=Kind.FIXED), Lines(None, ("k:1",)), acts=True)


@pytest.mark.parametrize(
    ("record", "epochs", "log_end", "first"),
    [
        (None, [(4, 0), (5, 100)], 100, False),
        (replace(ADOPTED, acts=False), [(4, 0), (5, 100)], 100, False),
        (RELEASED, [(4, 0), (5, 100)], 100, False),
        (ADOPTED, [(4, 0), (5, 100)], 100, True),
        (ADOPTED, [(4, 0), (7, 100)], 100, True),
        (ADOPTED, [(4, 0), (5, 100)], 101, False),
        (ADOPTED, [(4, 0), (5, 100), (6, 120)], 120, False),
        (ADOPTED, [(5, 0)], 0, True),
        (ADOPTED, [(5, 0)], 1, False),
    ],
)
def test_the_first_master_is_the_one_behind_whom_nobody_has_written(
    record: Record | None, epochs: list[tuple[int, int]], log_end: int, first: bool
) -> None:
    assert is_first(record, epochs, log_end) is first


@pytest.mark.parametrize(
    ("kind", "acts", "in_order", "what"),
    [
        (Kind.FIXED, True, True, Wanted.HELD_PLACES),
        (Kind.FIXED, True, False, Wanted.HELD_PLACES),
        (Kind.FIXED, False, False, Wanted.NOTHING),
        (Kind.CONTROLLERS, False, False, Wanted.PLACES),
        (Kind.CONTROLLERS, False, True, Wanted.NOTHING),
    ],
)
def test_who_may_have_acted_is_asked(kind: Kind, acts: bool, in_order: bool, what: Wanted) -> None:
    seen = Standing(kind, False, "", "", 0, acts, in_order)
    assert wanted(seen) is what
    assert (wanted(seen, gave_up=True) is what) is (what is not Wanted.PLACES)


def test_who_may_have_acted_is_waited_for_and_nobody_else() -> None:
    in_order = replace(ADOPTED, in_order=True)
    assert patience_ms(OTHER, ADOPTED, ()) == WAIT_MS
    assert patience_ms(LEADER, ADOPTED, ()) == BRIEF_MS, "it had given up, with everything held"
    assert patience_ms(OTHER, in_order, ()) == BRIEF_MS
    left = replace(ORDER, kind=Kind.FIXED, address=OTHER)
    assert patience_ms(OTHER, in_order, (left,)) == patience_ms(OTHER, None, (left,)) == WAIT_MS
    assert patience_ms(LEADER, None, (left,)) == BRIEF_MS
