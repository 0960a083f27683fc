"""Ctrl-C while the benchmark measures: whatever was started by then ends soon, and the exit code
says why.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.test_chaos_interrupted import cluster_starts, interrupt

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
ROW = [sys.executable, "tests/bench/run.py", "--only", "memory-growth", "--minutes", "30"]
# As a shell starts what a script runs in its background.
IN_BACKGROUND = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"]


def messages_flow(folder: Path) -> bool:
    return any(
        path.stat().st_size
        for path in folder.glob("regent-bench-*/memory-growth/*/consumequeue/bench-send/*/*")
    )


@pytest.mark.parametrize(
    ("before", "moment"), [([], cluster_starts), (IN_BACKGROUND, messages_flow)]
)
def test_an_interrupted_row_leaves_nothing_behind(
    tmp_path: Path, before: list[str], moment: Callable[[Path], bool]
) -> None:
    interrupt([*before, *ROW], tmp_path, moment, times=2)  # whoever is impatient changes nothing
