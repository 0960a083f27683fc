import hashlib
from pathlib import Path

import pytest

from infra import environment


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "HOME", tmp_path)


def test_a_step_runs_once_and_again_when_what_it_is_made_from_changes() -> None:
    ran: list[int] = []
    assert environment.step("s", "1", lambda: ran.append(1), "text")
    assert not environment.step("s", "1", lambda: ran.append(2), "text")
    assert environment.step("s", "2", lambda: ran.append(3), "text")
    assert ran == [1, 3]


def test_a_step_that_failed_runs_again() -> None:
    def fail() -> None:
        raise environment.SetupFailed("no network")

    with pytest.raises(environment.SetupFailed):
        environment.step("s", "1", fail, "text")
    assert environment.step("s", "1", lambda: None, "text")


def test_the_stamp_changes_with_the_bytes_of_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("a")
    before = environment.stamp_value(path)
    path.write_text("b")
    assert environment.stamp_value(path) != before


def test_every_locked_package_has_a_hash() -> None:
    for name in ("requirements.lock", "requirements-build.lock", "requirements-jre.lock"):
        text = (environment.ROOT / name).read_text(encoding="utf-8")
        blocks = [
            block
            for block in text.split("\n")
            if "==" in block and not block.startswith((" ", "#"))
        ]
        assert blocks and all(block.rstrip().endswith("\\") for block in blocks), name
        assert text.count("--hash=sha256:") >= len(blocks)


def test_what_is_asked_for_by_hand_is_what_is_locked() -> None:
    wanted = [
        line
        for line in (environment.ROOT / "requirements.in").read_text().splitlines()
        if "==" in line
    ]
    lock = (environment.ROOT / "requirements.lock").read_text()
    assert wanted and not [line for line in wanted if f"{line} \\" not in lock]
    assert hashlib.sha256(lock.encode()).hexdigest()


def test_modules_have_their_bytecode_also_where_python_is_told_not_to_write_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    for name in environment.PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "module.py").write_text("VALUE = 1\n")
    environment.compile_modules()
    for name in environment.PACKAGES:
        assert list((tmp_path / name / "__pycache__").glob("module.*.pyc")), name


def test_every_package_of_the_project_is_compiled() -> None:
    found = {path.parent.name for path in environment.ROOT.glob("*/__init__.py")}
    assert found | {"tests"} == set(environment.PACKAGES)
