import os
from pathlib import Path

import pytest

from infra.cli import main
from infra.cli.lake import aggregates
from infra.problems import EXIT_FAILED, EXIT_USAGE
from lakehouse.gold.aggregates_job import WATERMARK_S
from lakehouse.landing import writer_lock
from lakehouse.tables.commit_lock import LOCK_FOLDER
from tests.support.control_history import CLUSTER_ID
from tests.support.landed_log import command_records, lake_in, land
from tests.unit.lakehouse.gold.gold_cases import failed_over


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


def test_a_second_job_of_a_cluster_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregates, "LOCK_WAIT_MS", 0)
    land(lake_in(tmp_path), command_records(failed_over()[0].records))
    path = tmp_path / LOCK_FOLDER / f"aggregates.{CLUSTER_ID}.lock"
    first = writer_lock.acquire(path, 0, "aggregates")
    try:
        assert main.main(["lake", "aggregates", "--tables", str(tmp_path)]) == EXIT_FAILED
    finally:
        writer_lock.release(first)
    told = capsys.readouterr().err
    assert f"another job of this kind (pid {os.getpid()}): stop that one first" in told
