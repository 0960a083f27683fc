import os
from pathlib import Path

import pytest

from infra.cluster import view
from lakehouse.landing.status import SILENT_MS_MAX, STATUS_FILE, StatusFile


def controller(role: str, term: int, applied: int = 1) -> dict[str, object]:
    sets = {
        "broker-a": {
            "members": [{"address": "h:1", "confirm_offset": 1, "max_offset": 1}],
            "term": term,
        }
    }
    return {
        "kind": "controller",
        "address": f"c:{term}",
        "status": {"role": role, "term": term, "applied_offset": applied, "sets": sets},
    }


def test_of_two_that_say_they_lead_the_higher_term_is_believed() -> None:
    found = view.active_controller(
        [controller("active", 3), controller("active", 4), controller("standby", 5)]
    )
    assert found is not None and found["term"] == 4


def test_without_a_leader_the_controller_that_is_furthest_is_shown() -> None:
    sets = view.sets_of([controller("standby", 3, applied=9), controller("standby", 4, applied=5)])
    assert sets["broker-a"]["term"] == 3


def test_a_brokers_own_offsets_are_newer_than_its_last_heartbeat() -> None:
    broker = {"kind": "broker", "address": "h:1", "status": {"log_end": 7, "confirm_offset": 6}}
    member = view.sets_of([controller("active", 1), broker])["broker-a"]["members"][0]
    assert (member["end_offset"], member["confirm_offset"]) == (7, 6)


def test_nobody_who_answers_means_no_sets() -> None:
    assert view.sets_of([{"kind": "controller", "status": None}]) == {}
    assert view.role_of("controller", None) == {}


def test_a_cluster_without_a_landing_job_has_no_lag() -> None:
    assert view.landing({"processes": []}) is None


def test_a_log_that_does_not_answer_gives_no_ends() -> None:
    assert view.log_ends({"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": "200"}) == {}


def test_controllers_without_the_log_are_named_and_that_nothing_is_decided() -> None:
    led = {"role": "active", "ready": True, "log_answers": True}
    lost = {"role": "active", "ready": False, "log_answers": False}
    waits = {"role": "standby", "ready": False, "log_answers": True}

    def problems(*told: dict[str, object] | None) -> list[str]:
        processes = [
            {"kind": "controller", "name": f"c{number}", "status": one}
            for number, one in enumerate(told, 1)
        ]
        return view.problems_of(processes, "k:9092")

    assert problems(led, waits) == [] and problems() == []
    (cut_off,) = problems(led, lost)
    assert cut_off.startswith("c2 neither reads nor writes the log") and "k:9092" in cut_off
    both, undecided = problems(lost, lost)
    assert both.startswith("c1, c2 neither") and undecided.startswith("NOTHING CAN BE DECIDED")
    assert problems(None, waits) == [undecided]


def landing_of(folder: Path, pid: int | None) -> dict[str, object]:
    found = view.landing(
        {
            "processes": [{"kind": "land", "pid": pid}],
            "landing_dir": str(folder),
            "kafka": {"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": "200"},
        }
    )
    assert found is not None
    return found


def test_a_landing_job_that_stands_still_is_a_problem_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert landing_of(tmp_path, None)["standstill"] is None, "none ever ran"
    status = StatusFile(tmp_path)
    status.update(ready=True, stage="landing", lost_records={"a-0": 2, "a-1": 3})
    found = landing_of(tmp_path, os.getpid())
    assert (found["standstill"], found["lost_records"]) == (None, 5)
    later = status.status.updated_at_ms + SILENT_MS_MAX + 1_000
    with monkeypatch.context() as patch:
        patch.setattr(view.time, "time_ns", lambda: later * 1_000_000)
        assert "has said nothing for 61 s" in str(landing_of(tmp_path, os.getpid())["standstill"])
    status.update(pid=2**22 + 1)
    assert "does not run" in str(landing_of(tmp_path, None)["standstill"])
    assert landing_of(tmp_path, os.getpid())["standstill"] is None, "its successor starts"


def test_a_status_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / STATUS_FILE).write_text("{")
    found = view.landing_standstill(tmp_path)
    assert found is not None and "cannot be read" in found.text
