import json
from pathlib import Path

import pytest

from infra.cli import main
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE
from processors.fold import snapshot_codec
from tests.support.judged_history import sound_history
from tests.support.landed_log import command_records, lake_in, land, outcome_records

RECORDS = sound_history().records


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    land(lake_in(tmp_path / "tables"), [*command_records(RECORDS), *outcome_records(RECORDS)])
    return tmp_path / "tables"


def test_a_snapshot_of_an_offset_and_of_a_time(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "state.bin"
    words = ["lake", "snapshot", "--tables", str(tables), "--out", str(out)]
    assert main.main([*words, "--at", "4"]) == EXIT_DONE
    assert "state after command 4" in capsys.readouterr().out
    assert main.main([*words, "--at", "2026-01-01T00:00:06Z", "--json"]) == EXIT_DONE
    document = json.loads(capsys.readouterr().out)
    folder = snapshot_codec.load(out.read_bytes())
    assert (
        (document["offset"], document["digest"])
        == (folder.offset, folder.digest.hex())
        == (6, folder.digest.hex())
    )


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--at", "yesterday"], EXIT_USAGE, "neither an offset nor a time"),
        (["--at", "999"], EXIT_FAILED, "command 999 has not landed"),
        (["--at", "2020-01-01"], EXIT_FAILED, "no command had been taken by 2020-01-01"),
        (["--out", "/nowhere/at/all.bin"], EXIT_USAGE, "there is no folder /nowhere/at"),
        (["--tables", "/nowhere"], EXIT_FAILED, "no tables in /nowhere"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    words: list[str],
    code: int,
    said: str,
    tables: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = ["--tables", str(tables), "--out", str(tmp_path / "state.bin"), *words]
    assert main.main(["lake", "snapshot", *given]) == code
    told = capsys.readouterr().err
    assert said in told and told.count("\n") <= 2
    assert not (tmp_path / "state.bin").exists()
