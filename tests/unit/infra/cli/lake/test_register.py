import importlib.util
from pathlib import Path

import pytest

from infra.cli import main
from infra.cli.lake import register
from infra.problems import EXIT_FAILED, EXIT_USAGE
from tests.support.landed_log import command_records, lake_in, land
from tests.unit.lakehouse.gold.gold_cases import failed_over


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], EXIT_USAGE, "--iceberg"),
        (["--iceberg", "http://x", "--every", "0"], EXIT_USAGE, "--every 0 is not above 0"),
        (["--iceberg", "http://x", "--property", "token"], EXIT_USAGE, "is not KEY=VALUE"),
        (["--iceberg", "http://x", "--table", "gold.failover"], EXIT_FAILED, "gold.failovers"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land(lake_in(tmp_path), command_records(failed_over()[0].records))
    assert main.main(["lake", "register", *words, "--tables", str(tmp_path)]) == code
    assert said in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("pyiceberg") is not None, reason="it is there")
def test_what_is_missing_is_said_with_the_way_to_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    land(lake_in(tmp_path), command_records(failed_over()[0].records))
    words = ["lake", "register", "--iceberg", "http://x", "--tables", str(tmp_path)]
    assert main.main(words) == EXIT_FAILED
    told = capsys.readouterr().err
    assert "pip install 'pyiceberg" in told and register.WAY_OUT not in told
