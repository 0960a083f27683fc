"""Bugs planted into the product where it meets the disk: opening a store, syncs, a full disk,
damaged messages.

As test_planted_bugs: each is found within a few worlds, and the world is whole without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from brokers.replica import put_rules
from brokers.replica.core import ReplicaCore
from brokers.store.log import integrity
from brokers.store.log.group_commit import Flushed, FlushQueue
from brokers.store.recovery import boot, recovery
from brokers.store.recovery import plan as recovery_plan
from tests.simulation.cluster import Shape
from tests.simulation.mixes import Mix
from tests.simulation.test_planted_bugs import POWER, Patch, Planted, find

DAMAGE = Mix({"bit_flip": 3, "kill_master": 1, "kill_broker": 1}, every_ms=(300, 1_200), odd=False)
FULL = Mix({"disk_full": 3, "kill_broker": 1}, every_ms=(300, 1_200), odd=False)
SLOW = Mix({"slow_disk": 3, "kill_master": 1}, every_ms=(300, 1_200), odd=False)
TORN = Mix(
    {"power_within_write": 4, "lose_power": 2, "kill_master": 1}, every_ms=(200, 900), odd=False
)
WITHIN = Mix({"kill_inside": 1}, every_ms=(40, 200), odd=False)
BUSY = Shape(controllers=1, brokers=4, clients=6)
SYNC = Shape(sync_flush=True)


def power_loss_taken_for_a_kill(patch: Patch) -> None:
    judge = boot.judge

    def trusting(*args: Any) -> tuple[bool, str]:
        clean, why = judge(*args)
        return (True, "same_boot") if why == "other_boot" else (clean, why)

    patch.setattr(boot, "judge", trusting)


def recovery_believes_what_was_only_written(patch: Patch) -> None:
    plan = recovery_plan.plan

    def believing(files: Any, file_bytes: int, known: Any) -> Any:
        end = files[-1].start + file_bytes
        return plan(files, file_bytes, replace(known, same_boot=True, flushed_offset=end))

    patch.setattr(recovery, "plan", believing)


def log_that_became_short_is_trusted(patch: Patch) -> None:
    """Damage ends the log at a start, as where nothing sound follows it, and nobody asks how far it
    went.
    """
    patch.setattr(recovery, "behind_damage", lambda *_: None)
    patch.setattr(recovery_plan, "missing_bytes", lambda known, flushed_offset, end: 0)


def zeros_are_taken_for_a_text_that_was_not_copied(patch: Patch) -> None:
    patch.setattr(recovery_plan.Plan, "written_end", 1 << 62)


def damaged_message_is_served(patch: Patch) -> None:
    patch.setattr(integrity, "problem", lambda data, place: "")


def slave_goes_on_over_a_full_disk(patch: Patch) -> None:
    patch.setattr(ReplicaCore, "storage_full", lambda self, reason, end_offset, now_ms: [])


def answered_before_the_sync(patch: Patch) -> None:
    def hasty(self: FlushQueue[Any], end_offset: int, waiter: Any) -> None:
        self._release(waiter, Flushed.DURABLE)

    patch.setattr(FlushQueue, "add", hasty)


def late_sync_taken_for_success(patch: Patch) -> None:
    combine = put_rules.combine
    patch.setattr(
        put_rules, "combine", lambda replication, flush: combine(replication, Flushed.DURABLE)
    )


PLANTED: Mapping[str, Planted] = {
    bug.plant.__name__: bug
    for bug in (
        Planted(power_loss_taken_for_a_kill, POWER, 10),
        Planted(recovery_believes_what_was_only_written, TORN, 20),
        Planted(log_that_became_short_is_trusted, DAMAGE, 10),
        Planted(zeros_are_taken_for_a_text_that_was_not_copied, WITHIN, 30, BUSY),
        Planted(damaged_message_is_served, DAMAGE, 5),
        Planted(slave_goes_on_over_a_full_disk, FULL, 10),
        Planted(answered_before_the_sync, SLOW, 5, SYNC),
        Planted(late_sync_taken_for_success, SLOW, 20, SYNC),
    )
}


@pytest.mark.simulation
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_of_the_disk_is_found(name: str, request: pytest.FixtureRequest) -> None:
    find(PLANTED[name], request)
