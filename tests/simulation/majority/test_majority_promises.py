"""The judge of groups that replicate by majority: which order of one client's appends is promised
(PROTOCOL 10.2).
"""

from __future__ import annotations

import pytest

from tests.simulation.majority.group import Group, Shape
from tests.simulation.world import InvariantBroken, World

pytestmark = pytest.mark.simulation


def judged_order(given_up: list[list[bytes]], *bodies: bytes) -> None:
    """A log with these; `given_up`: while they were on their way."""
    promises = Group(World(1), Shape()).promises
    for together in given_up:
        promises.sends(together)
        promises.gives_up(together)
    promises.chosen = {at: (at, 1, body) for at, body in enumerate(bodies)}
    promises.final()


def test_what_a_client_gave_up_may_come_in_behind_what_it_sent_later() -> None:
    judged_order([[b"c1-2:", b"c1-3:"]], b"c1-1:", b"c1-4:", b"c1-2:", b"c1-3:", b"c1-5:")


@pytest.mark.parametrize(
    "log",
    [
        pytest.param((b"c1-3:", b"c1-1:", b"c1-2:"), id="one that was heard of"),
        pytest.param((b"c1-1:", b"c1-4:", b"c1-3:", b"c1-2:"), id="the batch itself"),
        pytest.param((b"c1-1:", b"c1-2:", b"c1-4:", b"c1-2:"), id="a second time"),
        pytest.param((b"c1-1:", b"c1-2:", b"c1-5:", b"c1-4:"), id="others behind it"),
    ],
)
def test_nothing_else_is_out_of_order(log: tuple[bytes, ...]) -> None:
    with pytest.raises(InvariantBroken, match="^order: "):
        judged_order([[b"c1-2:", b"c1-3:"]], *log)


def test_what_a_member_had_looked_at_when_it_was_given_up_keeps_its_place() -> None:
    promises = Group(World(1), Shape()).promises
    promises.sends([b"c1-1:"])
    promises.takes([b"c1-1:"])
    promises.gives_up([b"c1-1:"])
    promises.chosen = {0: (0, 1, b"c1-2:"), 1: (1, 1, b"c1-1:")}
    with pytest.raises(InvariantBroken, match="^order: "):
        promises.final()
