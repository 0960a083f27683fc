"""The control log that the fold is measured with."""

from __future__ import annotations

from events.codec import decode
from events.commands import COMMANDS
from processors.fold.folder import Folder
from tests.bench.control_log import ControlLog


def test_it_is_deterministic_and_folds_without_a_hole() -> None:
    log, again = ControlLog(), ControlLog()
    log.grow(400, 8)
    again.grow(400, 8)
    assert log.records == again.records
    folder = Folder()
    outcomes = [folder.apply(offset, data).outcome for offset, data in enumerate(log.records)]
    assert 0.6 < sum(outcome.accepted for outcome in outcomes) / len(outcomes) < 0.95
    assert len(folder.state.sets) == 8


def test_it_holds_the_usual_kinds() -> None:
    log = ControlLog()
    log.grow(400, 8)
    kinds = {type(decode(data)).__name__ for data in log.records}
    usual = {
        "ClusterFormed",
        "ClaimLeadership",
        "ApplyBrokerId",
        "RegisterBroker",
        "AlterSyncStateSet",
        "ElectMaster",
    }
    assert kinds == usual
    assert kinds <= {kind.__name__ for kind in COMMANDS}
