"""A lake of the test's own, and the Spark session of the run for the tests that need one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakehouse.lake import Lake
from tests.support.landed_log import lake_in
from tests.support.spark_session import shared_session, stop_shared_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session; at the end of the run it is stopped."""
    yield shared_session()
    stop_shared_session()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty folder, as the lake of the cluster that test histories are of."""
    return lake_in(tmp_path)
