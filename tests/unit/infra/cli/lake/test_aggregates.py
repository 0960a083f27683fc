from pathlib import Path

import pytest

from infra.cli import main
from infra.cli.lake import aggregates
from infra.problems import EXIT_FAILED, EXIT_USAGE
from lakehouse.gold.aggregates_job import WATERMARK_S
from tests.support.landed_log import lake_in, land


def test_bad_input_is_one_line_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["lake", "aggregates", "--tables", str(tmp_path)]
    for more in (["--every", "0"], ["--watermark", "-1"]):
        assert main.main([*words, *more]) == EXIT_USAGE
        assert capsys.readouterr().err.count("\n") == 1
    assert main.main(words) == EXIT_FAILED
    assert "has `regent land` run?" in capsys.readouterr().err
    land(lake_in(tmp_path), [])
    assert aggregates.WATERMARK_S == WATERMARK_S
