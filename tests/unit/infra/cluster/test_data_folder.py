import fcntl
import json
import os
import threading
from pathlib import Path

import pytest

from infra.cluster import data_folder
from infra.cluster.data_folder import DataFolder
from infra.problems import Problem
from infra.processes import children


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    made = DataFolder(tmp_path / "data")
    made.create("cluster", {"replicas": 3}, "1")
    return made


def test_a_folder_that_is_not_there_or_empty_has_no_identity(tmp_path: Path) -> None:
    assert DataFolder(tmp_path / "none").identity() is None
    assert DataFolder(tmp_path).identity() is None
    with pytest.raises(Problem, match="no cluster in .*regent up"):
        DataFolder(tmp_path).require()


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("dear")
    with pytest.raises(Problem, match="holds other files"):
        DataFolder(tmp_path).identity()


@pytest.mark.parametrize("made", [("config",), ("config", "logs", "requests", "data")])
def test_a_start_that_was_killed_before_it_named_the_folder_leaves_an_empty_one(
    tmp_path: Path, made: tuple[str, ...]
) -> None:
    (tmp_path / "starting.17.out").write_text("it began")
    for name in made:
        (tmp_path / name).mkdir()
    (tmp_path / "regent.json.17.part").write_text("{")
    assert DataFolder(tmp_path).identity() is None
    (tmp_path / "config" / "thesis.txt").write_text("dear")
    with pytest.raises(Problem, match="holds other files"):
        DataFolder(tmp_path).identity()


def test_a_removal_that_is_cut_off_leaves_the_name_of_the_folder(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def killed(path: Path, ignore_errors: bool) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(data_folder.shutil, "rmtree", killed)
        with pytest.raises(Killed):
            folder.remove()
    assert (folder.identity() or {})["purpose"] == "cluster"
    folder.remove()
    assert not folder.root.exists()


def test_what_somebody_still_writes_keeps_the_folder_its_own(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.root / "data" / "log").mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(data_folder.shutil, "rmtree", lambda path, ignore_errors: None)
        with pytest.raises(Problem, match="cannot be removed"):
            folder.remove()
    assert folder.identity() is not None


def test_a_folder_of_another_version_is_refused_with_both_versions(folder: DataFolder) -> None:
    (folder.root / "regent.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(Problem, match="another version: 99, this release has 1"):
        folder.require()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 1}'])
def test_a_torn_identity_is_refused(folder: DataFolder, text: str) -> None:
    (folder.root / "regent.json").write_text(text)
    with pytest.raises(Problem):
        folder.require()


def test_somebody_who_only_looks_does_not_keep_a_cluster_from_starting(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_folder, "LOOK_S", 60.0)
    looking = os.open(folder.root / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(looking, fcntl.LOCK_SH)
    threading.Timer(0.1, os.close, (looking,)).start()
    os.close(folder.lock())


def test_only_one_supervisor_holds_the_lock_and_its_pid_is_named(folder: DataFolder) -> None:
    assert not folder.is_running()
    handle = folder.lock()
    assert folder.is_running()
    with pytest.raises(
        Problem,
        match=(f"in use by a running cluster \\(supervisor pid {os.getpid()}\\).*regent down"),
    ):
        folder.lock()
    os.close(handle)
    assert not folder.is_running()


def test_leftovers_are_processes_that_live_under_the_same_stamp(folder: DataFolder) -> None:
    own = {"name": "me", "pid": os.getpid(), "stamp": children.start_stamp(os.getpid())}
    reused = {"name": "other", "pid": os.getpid(), "stamp": "0"}
    folder.write_cluster({"processes": [own, reused, {"name": "gone", "pid": None}]})
    assert [one["name"] for one in folder.leftovers()] == ["me"]
    handle = folder.lock()
    assert folder.leftovers() == []
    os.close(handle)


def test_a_request_is_answered_once(folder: DataFolder) -> None:
    handle = folder.lock()
    answers: list[dict[str, object]] = []
    asking = threading.Thread(target=lambda: answers.append(folder.ask({"action": "x"}, 30)))
    asking.start()
    while not (waiting := folder.pending()):
        pass
    assert [request for _, request in waiting] == [{"action": "x"}]
    folder.answer(waiting[0][0], {"done": True})
    asking.join()
    assert answers == [{"done": True}] and folder.pending() == []
    os.close(handle)


def test_what_an_earlier_supervisor_did_not_hear_is_asked_of_no_other_one(
    folder: DataFolder,
) -> None:
    data_folder.write_json(folder.root / "requests" / "1.request", {"action": "down"})
    handle = folder.lock()
    assert folder.pending() == []
    os.close(handle)


def test_asking_a_cluster_that_does_not_run_says_so(folder: DataFolder) -> None:
    with pytest.raises(Problem, match="does not answer"):
        folder.ask({"action": "x"}, 1)
    assert folder.pending() == []
    with pytest.raises(Problem, match="is not running.*regent up"):
        folder.running_cluster()


def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("dear")
    with pytest.raises(Problem, match="is not a folder"):
        DataFolder(tmp_path / "file").identity()
