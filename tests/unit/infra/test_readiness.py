import json
from pathlib import Path

from infra import readiness
from infra.cluster_plan import ClusterPlan, ProcessSpec

PLAN = ClusterPlan((), {"bootstrap.servers": "127.0.0.1:1"}, (), (), 0)


def test_a_landing_job_is_ready_when_its_own_status_says_so(tmp_path: Path) -> None:
    spec = ProcessSpec("land", "land", {"tables_dir": str(tmp_path)}, ())
    assert not readiness.is_ready(spec, PLAN, 7)
    (tmp_path / "status.json").write_text(json.dumps({"ready": True, "pid": 6}))
    assert not readiness.is_ready(spec, PLAN, 7), "that was its predecessor"
    (tmp_path / "status.json").write_text(json.dumps({"ready": True, "pid": 7}))
    assert readiness.is_ready(spec, PLAN, 7)


def test_a_process_that_does_not_answer_is_not_ready() -> None:
    assert not readiness.is_ready(ProcessSpec("n", "namesrv", {}, (), "127.0.0.1:1"), PLAN, 1)
