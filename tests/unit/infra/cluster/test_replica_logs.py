from pathlib import Path

from infra.cluster import replica_logs


def write(directory: Path, *files: bytes, start: int = 0) -> Path:
    directory.mkdir()
    for data in files:
        (directory / f"{start:020d}").write_bytes(data)
        start += len(data)
    return directory


def test_logs_that_agree_up_to_the_end_are_equal_whatever_follows(tmp_path: Path) -> None:
    logs = {
        "a": write(tmp_path / "a", b"0123", b"4567"),
        "b": write(tmp_path / "b", b"0123", b"45XX"),
    }
    found = replica_logs.compare(logs, 6)
    assert found.equal and (found.start, found.end) == (0, 6)


def test_the_first_difference_is_named_by_its_offset_across_files(tmp_path: Path) -> None:
    logs = {
        "a": write(tmp_path / "a", b"0123", b"4567"),
        "b": write(tmp_path / "b", b"0123", b"45XX"),
    }
    found = replica_logs.compare(logs, 8)
    assert not found.equal and found.first_difference == 6


def test_a_log_that_is_too_short_differs_where_it_ends(tmp_path: Path) -> None:
    logs = {"a": write(tmp_path / "a", b"0123"), "b": write(tmp_path / "b", b"0123", b"4567")}
    assert replica_logs.compare(logs, 8).first_difference == 4


def test_a_replica_that_started_later_is_compared_from_where_it_begins(tmp_path: Path) -> None:
    logs = {
        "a": write(tmp_path / "a", b"0123", b"4567"),
        "b": write(tmp_path / "b", b"4567", start=4),
    }
    found = replica_logs.compare(logs, 8)
    assert found.equal and found.start == 4


def test_files_that_are_no_log_files_are_passed_over(tmp_path: Path) -> None:
    log = write(tmp_path / "a", b"0123")
    (log / "notes.txt").write_bytes(b"x")
    assert replica_logs.compare({"a": log}, 4).equal
