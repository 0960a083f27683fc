"""The Spark session of the run, for the tests that need one."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.spark_session import shared_session, stop_shared_session


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The session; at the end of the run it is stopped."""
    yield shared_session()
    stop_shared_session()
