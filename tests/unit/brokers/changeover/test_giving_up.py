"""When a master may give up, and when another replica may follow (PROTOCOL 7.8)."""

from __future__ import annotations

import pytest

from brokers.changeover.giving_up import Quiet, Standing, lack, leader_allows, refusal
from brokers.changeover.order import Kind, Order

ADOPT = Order("c", Kind.CONTROLLERS, "r", "a", "h:1", "h:9", 2, 2, ("k:1",), "h:1;x", 1)
RELEASE = Order("c", Kind.FIXED, "r", "a", "h:1", "h:9", 1, 2)
F, C = Kind.FIXED, Kind.CONTROLLERS


@pytest.mark.parametrize(
    ("look", "hindrance"),
    [
        (Quiet(100, 100, (100, 100), 2, 0), None),
        (Quiet(100, 100, (), 0, 0), None),
        (Quiet(100, 100, (100, 100), 2, 1), "under way"),
        (Quiet(100, 100, (100, 99), 2, 0), "1 of 2"),
        (Quiet(100, 100, (100,), 2, 0), "1 of 2"),
        (Quiet(100, 100, (100, -1), 2, 0), "1 of 2"),
        (Quiet(100, 90, (100, 100), 2, 0), "10 bytes"),
        (Quiet(0, 0, (-1,), 1, 0), "0 of 1"),
        (Quiet(100, 100, (100, 100), 1, 0), "2 replicas are linked"),
        (Quiet(100, 100, (100, -1), 1, 0), None),
    ],
    ids=[
        "all have all",
        "alone",
        "a send is not answered",
        "one is behind",
        "one is not linked",
        "one has not reported",
        "not acknowledged",
        "an empty log, and nobody reported",
        "one that no order names, for no name server named it",
        "a link that nobody has spoken on",
    ],
)
def test_a_master_gives_up_when_everybody_has_everything(
    look: Quiet, hindrance: str | None
) -> None:
    assert (look.hindrance is None) if hindrance is None else hindrance in str(look.hindrance)


def test_each_says_itself_that_it_has_everything() -> None:
    """Two links of one slave would count as two replicas."""
    has, lacks = Standing(F, False, "", "", 100), Standing(F, False, "", "", 99)
    assert lack(100, {"h:1": has, "h:2": has}) is None
    assert "h:2" in str(lack(100, {"h:1": has, "h:2": lacks}))


@pytest.mark.parametrize(
    ("order", "leader", "allowed"),
    [
        (ADOPT, Standing(C, False, "c", ""), True),
        (ADOPT, Standing(C, True, "c", ""), True),
        (ADOPT, Standing(F, True, "", "c"), False),
        (ADOPT, Standing(C, True, "other", ""), False),
        (ADOPT, Standing(F, True, "", ""), False),
        (RELEASE, Standing(C, True, "", "c"), True),
        (RELEASE, Standing(F, True, "c", ""), True),
        (RELEASE, Standing(C, True, "", ""), False),
        (RELEASE, Standing(C, True, "", "other"), False),
        (RELEASE, Standing(F, True, "other", ""), False),
    ],
    ids=[
        "adopt: it gave up",
        "adopt: it gave up, and was elected since",
        "adopt: it only holds",
        "adopt: it gave up for another one",
        "adopt: it serves",
        "release: it holds",
        "release: it has changed over",
        "release: it serves",
        "release: it holds for another one",
        "release: fixed by another one",
    ],
)
def test_nobody_follows_before_the_master_gave_up_or_holds(
    order: Order, leader: Standing, allowed: bool
) -> None:
    assert (leader_allows(order, leader) is None) is allowed


@pytest.mark.parametrize(
    ("order", "own", "may"),
    [
        (ADOPT, Standing(F, False, "", ""), True),
        (RELEASE, Standing(C, False, "", ""), True),
        (ADOPT, Standing(C, False, "c", ""), True),
        (RELEASE, Standing(C, True, "", ""), False),
        (ADOPT, Standing(C, True, "other", ""), False),
    ],
    ids=[
        "a slave joins",
        "a member leaves",
        "followed already",
        "elected meanwhile",
        "leads by another changeover",
    ],
)
def test_who_leads_takes_no_order_of_another(order: Order, own: Standing, may: bool) -> None:
    assert (refusal(order, own) is None) is may
