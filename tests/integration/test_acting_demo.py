"""The demo of sets without controllers as a stranger sees it: `regent demo --mode acting`."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.cluster.data_folder import DataFolder
from tests.support.local_cluster import DEMO_LIMIT_S, run_demo

DUE_LATER = {"delayed", "timed", "transactions", "pops"}


@pytest.mark.processes
@pytest.mark.long
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(DEMO_LIMIT_S + 60)
def test_a_slave_acts_and_history_tells_it(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    code, report, progress = run_demo(folder, "--mode", "acting")
    told = f"{report.get('problems')}\n{progress[-4000:]}"
    assert report["problems"] == [] and code == 0, told
    assert [one["kind"] for one in report["steps"]] == ["away", "returned", "restarted"]
    found = {one["what"]: one for one in report["applications"]}
    assert found.keys() == {"orders", *DUE_LATER}
    assert not any(one["lost"] or one["early"] for one in found.values()), told
    assert all(found[what]["crossed"] > 0 for what in DUE_LATER), told
    assert all(one["equal"] for one in report["logs"]), told
    assert report["history"]["periods"] and not report["history"]["missing"]
    assert not DataFolder(folder).is_running() and DataFolder(folder).leftovers() == []
