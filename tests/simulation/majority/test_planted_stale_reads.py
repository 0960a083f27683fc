"""Holes that nothing but the order in real time shows: every entry is where it should be, and
somebody is told less of the log than was told before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from brokers.majority.quorum.core import QuorumCore
from brokers.majority.quorum.leadership import Leadership
from brokers.majority.quorum.reads import Reads
from brokers.majority.wire.codes import Code
from tests.simulation.majority.group import Shape
from tests.simulation.majority.mixes import Mix
from tests.simulation.majority.run import run_world
from tests.simulation.world import InvariantBroken, World

SEEDS_MAX = 40
Patch = pytest.MonkeyPatch
REPLACED = Mix({"usurp": 6, "transfer": 2, "kill_leader": 1, "start": 2, "slow_disk": 2})


def a_read_asks_nobody(patch: Patch) -> None:
    patch.setattr(Reads, "answered", lambda self, confirmed: self.all())


def one_member_is_enough(patch: Patch) -> None:
    def wrong(self: Reads, confirmed: Any) -> Any:
        return self.all() if self and max(confirmed, default=0) > self.oldest_mark else []

    patch.setattr(Reads, "answered", wrong)


def answers_of_before_the_question_count(patch: Patch) -> None:
    read = Leadership.read

    def wrong(self: Leadership, token: object, now_ms: int) -> None:
        sent, self.pulse.sent = self.pulse.sent, 0
        read(self, token, now_ms)
        self.pulse.sent = sent

    patch.setattr(Leadership, "read", wrong)


def a_new_leader_reads_before_its_first_entry_is_committed(patch: Patch) -> None:
    refusal = QuorumCore.read_refusal
    patch.setattr(
        QuorumCore,
        "read_refusal",
        lambda self: None if (code := refusal(self)) is Code.LEADER_NOT_READY else code,
    )
    patch.setattr(
        "tests.simulation.majority.replica.Replica.leads",
        property(lambda self: self.core is not None and self.core._leadership is not None),
    )


PLANTS: Mapping[str, tuple[Callable[[Patch], None], int]] = {
    "a read asks nobody": (a_read_asks_nobody, 3),
    "one member is enough": (one_member_is_enough, 5),
    "answers of before the question count": (answers_of_before_the_question_count, 3),
    "read before the first entry": (a_new_leader_reads_before_its_first_entry_is_committed, 3),
}
"""What is planted, and of how many members the group is in which it shows."""


@pytest.mark.simulation
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_stale_read_is_found_by_its_time(name: str, monkeypatch: Patch) -> None:
    plant, members = PLANTS[name]
    plant(monkeypatch)
    for seed in range(1, SEEDS_MAX + 1):
        try:
            run_world(World(seed), REPLACED, Shape(members, clients=4, readers=6))
        except InvariantBroken as found:
            assert str(found).startswith("stale read"), f"seed {seed}: {found}"
            return
    pytest.fail(f"{name} was not found in {SEEDS_MAX} worlds")
