"""A long control log as tables: what proofs and questions are measured on is a sound history."""

from pathlib import Path

import pytest

from lakehouse.answers.decisions import outcome_counts
from lakehouse.answers.state_at import folder_at
from lakehouse.tables.lake import lake_at
from processors.fold.folder import Folder
from tests.bench.control_log import ControlLog
from tests.bench.laid_lake import CLUSTER_ID, SETS, lay

COMMANDS = 400


@pytest.mark.parametrize("silver", [True, False])
def test_the_tables_hold_the_commands_and_what_became_of_them(tmp_path: Path, silver: bool) -> None:
    laid = lay(tmp_path, COMMANDS, silver)
    log, folder = ControlLog(), Folder()
    log.grow(COMMANDS, SETS)
    folder.apply_many(0, log.records)
    found, _ = folder_at(lake_at(laid.root, CLUSTER_ID))
    assert (found.digest, found.offset, laid.commands) == (folder.digest, COMMANDS - 1, COMMANDS)
    assert outcome_counts(lake_at(laid.root, CLUSTER_ID))["decisions"] == (
        COMMANDS if silver else 0
    )
