"""Special services of a slave: they stop at once, and are over when nothing is under way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from brokers.acting.forms import Kind
from brokers.process.acting.special_services import SpecialServices
from tests.support.brokers import until
from tests.support.client_service import Desk
from tests.support.two_sets import message, two_sets, way


@pytest.fixture
async def desks(tmp_path: Path) -> AsyncIterator[tuple[Desk, Desk]]:
    async with two_sets(tmp_path) as pair:
        yield pair


async def test_what_is_under_way_when_acting_ends_is_told_as_done(desks: tuple[Desk, Desk]) -> None:
    one, other = desks
    other.confirm_at_once = False
    one.act(other)
    services = SpecialServices(one.service)
    services.switch(True)
    outlet = way(one).outlet("s", Kind.LEVEL)
    outlet.append([message(b"late")])
    await until(lambda: other.waits, "the other set has it and waits")
    services.switch(False)
    assert outlet.is_full, "nothing more leaves, also not in this turn of the loop"
    assert not await services.over(50)
    other.confirm()
    assert await services.over(30_000)
    assert outlet.safe_offset == (1 << 62) + 1 and way(one).left == {"delay level": 1}


async def test_who_is_to_act_again_does_not_wait_for_the_end(desks: tuple[Desk, Desk]) -> None:
    one, other = desks
    other.confirm_at_once = False
    one.act(other)
    services = SpecialServices(one.service)
    services.switch(True)
    way(one).outlet("s", Kind.LEVEL).append([message(b"late")])
    await until(lambda: other.waits, "the other set has it and waits")
    services.switch(False)
    services.switch(True)
    assert await services.over(0) and not way(one).escape.holds
    await services.end()
    services.switch(True)
    other.confirm()
    assert way(one).escape.in_hand == 0, "the broker stops"
