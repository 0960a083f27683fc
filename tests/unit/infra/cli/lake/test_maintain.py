import json
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from lakehouse.care import maintain
from lakehouse.tables.specs import BRONZE
from tests.support.error_line import error_line
from tests.support.judged_history import sound_history
from tests.support.landed_log import command_records, lake_in, land

RECORDS = command_records(sound_history().records)


@pytest.fixture(scope="module")
def landed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake")
    for i, record in enumerate(RECORDS[:10]):
        land(lake_in(folder, f"cluster-{i % 2}"), [(*record[:2], i // 2, record[3])])
    return folder


@pytest.fixture
def tables(landed_once: Path, tmp_path: Path) -> Path:
    """A copy of one's own."""
    return Path(shutil.copytree(landed_once, tmp_path / "lake"))


def test_a_round_cares_for_the_tables_of_all_clusters_and_says_what_it_did(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["lake", "maintain", "--tables", str(tables), "--json"]) == EXIT_DONE
    found = {one["table"]: one for one in json.loads(capsys.readouterr().out)}
    assert found[BRONZE.name]["files_before"] == 10
    assert all(one["problem"] is None for one in found.values())
    assert main.main(["lake", "maintain", "--tables", str(tables)]) == EXIT_DONE
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("TABLE") and out[-1].startswith(f"{len(found)} tables, ")


def test_a_table_in_trouble_ends_with_1_and_is_named(
    tables: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tables / BRONZE.name / "_delta_log").glob("*.json"):
        path.write_text("{")
    assert main.main(["lake", "maintain", "--tables", str(tables)]) == EXIT_FAILED
    assert f"NOT WELL: {BRONZE.name}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--window", "0.5"], EXIT_USAGE, "--window 0.5 is too short"),
        (["--every", "0"], EXIT_USAGE, "--every 0 is no pause"),
        ([], EXIT_FAILED, "no tables in"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, text: str
) -> None:
    assert main.main(["lake", "maintain", "--tables", str(tmp_path), *words]) == code
    assert text in error_line(capsys.readouterr().err)


def test_a_place_that_cannot_be_reached_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["lake", "maintain", "--tables", "nowhere://lake"]) == EXIT_FAILED
    assert "nowhere://lake cannot be listed" in error_line(capsys.readouterr().err)


def test_again_and_again_until_told_to_stop(
    tables: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = []
    real = maintain.maintain

    def counted(*arguments: object, **more: object) -> object:
        rounds.append(1)
        if len(rounds) == 2:
            threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM)).start()
        return real(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(maintain, "maintain", counted)
    assert main.main(["lake", "maintain", "--tables", str(tables), "--every", "0.01"]) == EXIT_DONE
    assert len(rounds) >= 2
