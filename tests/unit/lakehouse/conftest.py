"""A lake of the test's own."""

from pathlib import Path

import pytest

from lakehouse.tables.lake import Lake
from tests.support.landed_log import lake_in


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty folder, as the lake of the cluster that test histories are of."""
    return lake_in(tmp_path)
