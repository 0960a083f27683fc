"""Verbs that read tables load no pandas."""

from __future__ import annotations

import subprocess
import sys

import pytest

from infra.cli.light_start import WITHOUT_PANDAS
from infra.cli.main import VERBS

LOOK = """
import sys
from infra.cli.light_start import hide_pandas
hide_pandas(sys.argv[1:])
import lakehouse.sql.query, lakehouse.answers.explain
print("pandas" in sys.modules)
"""


@pytest.mark.parametrize(
    ("words", "loads"),
    [
        (("explain", "broker-a"), False),
        (("sql", "SELECT 1"), False),
        (("sql", "SELECT 1", "--spark"), True),
        (("verify",), True),
        ((), True),
    ],
)
def test_pandas_is_loaded_where_spark_may_be_started_only(
    words: tuple[str, ...], loads: bool
) -> None:
    told = subprocess.run(
        [sys.executable, "-c", LOOK, *words], capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == str(loads)


def test_the_verbs_are_some() -> None:
    assert set(VERBS) >= WITHOUT_PANDAS
