"""The whole path as a stranger sees it: `regent demo --json` on real Kafka, brokers, Spark and
Delta.
"""

from pathlib import Path

import pytest

from infra.cli import down
from infra.cluster.data_folder import DataFolder
from tests.support.local_cluster import DEMO_LIMIT_S, run_demo


@pytest.mark.processes
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.timeout(DEMO_LIMIT_S + 60)
def test_a_set_outlives_its_masters_and_history_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    code, report, progress = run_demo(folder)
    told = f"{report.get('problems')}\n{progress[-4000:]}"
    assert report["problems"] == [] and code == 0, told
    messages, steps = report["messages"], {one["kind"]: one for one in report["steps"]}
    assert (
        messages["acknowledged"] > 5_000
        and messages["lost"] == messages["corrupt"] == messages["out_of_order"] == 0
    ), told
    assert report["replicas"]["equal"] and len(report["replicas"]["replicas"]) == 4
    masters = [one for one in report["steps"] if one["kind"] == "master"]
    assert [one["epoch_after"] - one["epoch_before"] for one in masters] == [1, 1]
    assert all(one["outage"] and one["phases"] for one in masters)
    assert steps["controller"]["term_after"] > steps["controller"]["term_before"]
    assert all(one["ok"] for one in report["history"]["expected"])
    asked = {one["command"].split()[1]: one for one in report["history"]["asked"]}
    assert asked.keys() == {"explain", "history", "state", "verify"} and not any(
        one["code"] for one in asked.values()
    )
    assert "verified" in asked["verify"]["text"] and "refused" in asked["history"]["text"]
    assert not DataFolder(folder).is_running() and DataFolder(folder).leftovers() == []
    with pytest.raises(Exception, match="is not running|does not answer"):
        down.stop_cluster(DataFolder(folder))
