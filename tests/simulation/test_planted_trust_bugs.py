"""Bugs planted where trust after a loss is decided: each was a defect of an earlier release, found
by a review.

As test_planted_bugs: each is found within a few worlds, and the world is whole without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from brokers.ha.sync_set import SyncSet
from brokers.replica.admission import Admission
from brokers.replica.loss_watch import LossWatch
from brokers.store.log.held_time import HeldTime
from brokers.store.log.retention import LogFile
from brokers.store.recovery import boot
from processors.fold import candidates as elect_candidates
from processors.fold import decide_doubt, decide_replicas, decide_sync_set, elect
from processors.fold.refusals import Decision, Refusal
from processors.log import snapshot_proof
from tests.simulation.cluster import Shape
from tests.simulation.mixes import MIXES
from tests.simulation.test_planted_bugs import Patch, Planted, find

THREE = Shape(brokers=3)
FORGERY = replace(MIXES["snapshots"], every_ms=(40, 200))


def elections_forget(patch: Patch) -> None:
    """A1, B1: who was left out holds everything, and nobody asks it."""
    patch.setattr(elect, "_sound_remembered", lambda broker_set, candidates: [])
    patch.setattr(
        elect, "awaited_of", lambda broker_set, candidates, remembers: broker_set.unclean_members
    )
    longest = elect._longest

    def of_the_unclean(eligible: Any, *others: Any) -> Any:
        return longest([one for one in eligible if not one.replica.clean], *others)

    patch.setattr(elect, "_longest", of_the_unclean)


def identity_alone_is_a_first_start(patch: Patch) -> None:
    """A2: an empty log with an old id counts as clean."""
    judge = boot.judge
    patch.setattr(
        boot, "judge", lambda marker, boot_id, has_data, traces: judge(marker, boot_id, has_data)
    )
    patch.setattr(decide_replicas, "_went_back", lambda *args: False)
    patch.setattr(LossWatch, "claims", lambda *args: [])


def a_log_that_went_back_is_trusted(patch: Patch) -> None:
    """A3: an older copy of a store folder counts as what it was."""
    patch.setattr(decide_replicas, "_went_back", lambda *args: False)
    patch.setattr(LossWatch, "claims", lambda *args: [])


def lost_decisions_are_not_doubted(patch: Patch) -> None:
    """A5: a log without its newest decisions is taken for what happened."""
    patch.setattr(
        decide_doubt, "doubt_broker_set", lambda state, command: Decision(Refusal.DOUBT_INVALID)
    )


def replaced_disks_are_waited_for(patch: Patch) -> None:
    """B1: a member that will never come back keeps the set without a master."""
    patch.setattr(elect_candidates, "is_replaced", lambda candidate, candidates: False)


def members_have_to_be_heard(patch: Patch) -> None:
    """B2: one member that controllers do not hear blocks every change of the set."""
    asked = decide_sync_set._unfit_member
    patch.setattr(
        decide_sync_set,
        "_unfit_member",
        lambda wanted, candidates, members_too: asked(wanted, candidates, members_too=True),
    )


def strangers_are_proposed(patch: Patch) -> None:
    """B3: who is linked and not registered is in every proposal, all of which are refused."""
    patch.setattr(SyncSet, "_hold_back", lambda *args, **named: None)
    patch.setattr(Admission, "is_known", lambda *args: True)


def files_age_by_store_times(patch: Patch) -> None:
    """C5: a clock that jumps makes messages old."""

    def oldest(self: HeldTime, starts: Any) -> list[LogFile]:
        newest = max((begun.store_ms for begun in self.begun.values()), default=0)
        return [
            LogFile(
                one, self.ran_ms - newest + self.begun[one].store_ms if one in self.begun else None
            )
            for one in starts
        ]

    patch.setattr(HeldTime, "oldest", oldest)


def snapshots_are_believed(patch: Patch) -> None:
    """C6: a state is taken for the published one because its history has the right digest."""
    patch.setattr(snapshot_proof, "doubt", lambda folder, published: None)


PLANTED: Mapping[str, Planted] = {
    bug.plant.__name__: bug
    for bug in (
        Planted(elections_forget, MIXES["power"], 20, THREE),
        Planted(identity_alone_is_a_first_start, MIXES["identity"], 20, Shape(brokers=2)),
        Planted(a_log_that_went_back_is_trusted, MIXES["copies"], 40, THREE),
        Planted(lost_decisions_are_not_doubted, MIXES["doubted"], 10, THREE),
        Planted(replaced_disks_are_waited_for, MIXES["disks"], 40, THREE),
        Planted(members_have_to_be_heard, MIXES["lasting"], 10, THREE, 50_000),
        Planted(strangers_are_proposed, MIXES["lasting"], 6, Shape(brokers=4), 50_000),
        Planted(files_age_by_store_times, MIXES["crowded"], 20, Shape(retains=True)),
        Planted(snapshots_are_believed, FORGERY, 20, Shape(controllers=2), 20_000),
    )
}


@pytest.mark.simulation
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_of_trust_is_found(name: str, request: pytest.FixtureRequest) -> None:
    find(PLANTED[name], request)
