"""Lakes that cannot answer: each verb that asks says so in one clear line with a way out, and never
answers from what is left.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.cli import main
from infra.problems import EXIT_FAILED
from tests.support.control_history import NAME
from tests.support.landed_log import command_records, lake_in, land, outcome_records
from tests.support.made_gold import bring_up, job_of
from tests.unit.lakehouse.gold.gold_cases import failed_over

PAST, _ = failed_over()
GOLD_VERBS = (
    ["failovers"],
    ["availability", NAME],
    ["timeline", NAME],
    ["sql", "SELECT * FROM gold.failovers"],
)
OF_BRONZE = (["state"], ["diff", "--from", "0"], ["sql", "SELECT * FROM bronze.records"])
OF_DECISIONS = (["explain", NAME], ["history"], ["sql", "SELECT * FROM silver.decisions"])

# What these need is theirs to say; they must refuse all the same.
OF_BOTH = (["lake", "snapshot", "--out", "snapshot.bin"], ["forecast", NAME])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of all layers in which nothing is wrong; tests copy them."""
    root: Path = tmp_path_factory.mktemp("sound")
    land(lake_in(root), [*command_records(PAST.records), *outcome_records(PAST.records)])
    bring_up(job_of(lake_in(root)))
    return root


@pytest.fixture
def lake(sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of them; nothing is written where the tests run."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(sound, tmp_path / "lake"))


def no_table(folder: Path) -> None:
    shutil.rmtree(folder)


def newer_table(folder: Path) -> None:
    """Another release of Delta wrote it, with something that this one cannot read."""
    log = sorted((folder / "_delta_log").glob("*.json"))[-1]
    protocol = {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": ["time-crystals"],
            "writerFeatures": ["time-crystals"],
        }
    }
    log.with_name(f"{int(log.stem) + 1:020d}.json").write_text(
        json.dumps(protocol) + "\n", encoding="utf-8"
    )


def broken_log(folder: Path) -> None:
    for entry in (folder / "_delta_log").glob("*.json"):
        entry.write_text('{"add": {"path": ', encoding="utf-8")


def broken_files(folder: Path) -> None:
    files = list(folder.glob("**/*.parquet"))
    assert files
    for path in files:
        path.write_bytes(b"these bytes are no table " * 20)


def lost_files(folder: Path) -> None:
    for path in folder.glob("**/*.parquet"):
        path.unlink()


def refused(lake: Path, words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    code = main.main([*words, "--tables", str(lake)])
    said = capsys.readouterr()
    assert code == EXIT_FAILED, f"{words}: {said.out}"
    # a slow machine also says what takes long
    lines = [line for line in said.err.splitlines() if not line.endswith(" …")]
    assert said.out == "" and len(lines) == 1 and lines[0].startswith("regent: "), said.err
    assert "unforeseen" not in said.err and "Traceback" not in said.err
    return said.err


DAMAGES = (no_table, newer_table, broken_log, broken_files, lost_files)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("table", "questions"), [("bronze/records", OF_BRONZE), ("silver/decisions", OF_DECISIONS)]
)
def test_a_table_that_cannot_be_read_is_named(
    lake: Path,
    table: str,
    questions: tuple[list[str], ...],
    damage: Callable[[Path], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(lake / table)
    for words in questions:
        told = refused(lake, words, capsys)
        assert table in told and "magic" not in told, words
    for words in OF_BOTH:
        refused(lake, words, capsys)


@pytest.mark.parametrize("damage", [newer_table, broken_log, broken_files, lost_files])
def test_gold_that_cannot_be_read_is_named_and_gold_that_is_gone_is_folded(
    lake: Path, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    for table in ("failovers", "availability", "broker_set_history"):
        damage(lake / "gold" / table)
    for words in GOLD_VERBS:
        assert "gold/" in refused(lake, words, capsys), words
    shutil.rmtree(lake / "gold")
    for words in GOLD_VERBS:
        assert main.main([*words, "--tables", str(lake)]) == 0
        assert capsys.readouterr().out


def test_what_is_no_lake_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("no folder", encoding="utf-8")
    for words in (*OF_BRONZE, *OF_DECISIONS, *GOLD_VERBS):
        for place in (tmp_path / "none", tmp_path, file, Path("s3x://nobody/knows")):
            refused(place, words, capsys)


def test_another_cluster_than_those_that_landed_is_said_so(
    sound: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (*OF_BRONZE, *OF_DECISIONS, *GOLD_VERBS):
        assert ("cluster-x has not landed") in refused(
            sound, [*words, "--cluster", "cluster-x"], capsys
        )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["explain", "broker-x"], f"known sets: {NAME}"),
        (["history", "broker-x"], f"known sets: {NAME}"),
        (["explain", NAME, "99"], "known epochs: 1, 2"),
        (["state", "--at", "9999"], "command 9999 has not landed"),
        (["diff", "--from", "0", "--to", "9999"], "command 9999 has not landed"),
        (["state", "--at", "1999-12-31"], "no command had been taken"),
        (["diff", "--from", "1999-12-31"], "no command had been taken"),
        (["failovers", "broker-x"], f"known sets: {NAME}"),
        (["availability", "broker-x"], f"known sets: {NAME}"),
        (["timeline", "broker-x"], f"known sets: {NAME}"),
        (["sql", "SELECT * FROM gold.fail_overs"], "did you mean gold.failovers"),
    ],
)
def test_what_history_does_not_hold_is_said_so(
    sound: Path, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refused(sound, words, capsys)


@pytest.mark.parametrize(
    "words", [["verify", "--spark"], ["sql", "--spark", "SELECT 1"], ["lake", "aggregates"]]
)
def test_what_needs_java_says_so_when_there_is_none(
    sound: Path,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("PATH", "JAVA_HOME", "HOME"):
        monkeypatch.setenv(name, "/nowhere")
    assert "Java" in refused(sound, words, capsys)
