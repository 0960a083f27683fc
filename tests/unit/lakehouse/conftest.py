"""One Spark session for the whole run: a start takes ten seconds and more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from infra import jar_store
from lakehouse.session import SparkSettings, build_session, stop_session


@pytest.fixture(scope="session")
def spark_settings(tmp_path_factory: pytest.TempPathFactory) -> SparkSettings:
    """Settings for a session of the tests."""
    scratch = tmp_path_factory.mktemp("spark")
    return SparkSettings(
        jars_dir=jar_store.check("spark"),
        scratch_dir=scratch,
        jvm_log=scratch / "jvm.log",
        small_commits=True,
    )


@pytest.fixture(scope="session")
def spark(spark_settings: SparkSettings) -> Iterator[Any]:
    """The session."""
    session = build_session(spark_settings, "regent-tests")
    yield session
    stop_session(session)
