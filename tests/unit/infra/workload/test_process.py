from pathlib import Path

import pytest

from infra.workload import process


def test_the_status_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    assert process.read_status(path) == {}
    process.write_status(path, {"a": 1})
    assert process.read_status(path) == {"a": 1} and list(tmp_path.iterdir()) == [path]
    path.write_text("{")
    assert process.read_status(path) == {}


def test_the_flags_need_a_name_server_and_a_place_for_records() -> None:
    with pytest.raises(SystemExit):
        process.parser("x").parse_args([])
    parsed = process.parser("x").parse_args(["--name-server", "h:1", "--out", "o", "--status", "s"])
    assert parsed.name_server == ["h:1"] and parsed.timeout_ms == 500
