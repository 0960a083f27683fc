"""Work that goes on in turns of the loop."""

from __future__ import annotations

from brokers.service.role.turns import Turns
from tests.support.brokers import until


async def test_work_goes_on_in_the_next_turn_and_waits_for_its_own() -> None:
    turns, done = Turns(), []
    turns.soon(lambda: done.append("at once"))
    assert not done
    await until(lambda: bool(done), "it may")
    looks = [False, False, True]
    turns.may_deliver = lambda: looks.pop(0)
    turns.soon(lambda: done.append("later"))
    await until(lambda: len(looks) == 2, "it was asked for")
    assert done == ["at once"]
    await until(lambda: done == ["at once", "later"], "its turn has come")
    assert not looks
