"""The demo of a set that replicates by majority, as a stranger sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cluster.data_folder import DataFolder
from infra.demo.majority_report import KINDS
from tests.support.local_cluster import DEMO_LIMIT_S, run_demo


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.timeout(DEMO_LIMIT_S + 60)
def test_nothing_acknowledged_is_lost_and_the_logs_are_one(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    code, report, progress = run_demo(folder, "--replication", "majority")
    told = f"{report.get('problems')}\n{progress[-4000:]}"
    assert report["problems"] == [] and code == 0, told
    assert tuple(one["kind"] for one in report["steps"]) == KINDS
    assert report["messages"]["lost"] == 0 < report["messages"]["acknowledged"], told
    assert report["logs"]["first_difference"] is None and report["logs"]["entries"] > 0, told
    assert not DataFolder(folder).is_running() and DataFolder(folder).leftovers() == []
