"""One Spark session for a whole test run, whichever folders take part: a start takes ten
seconds.
"""

import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

from infra.jars import store
from lakehouse.spark_session import SparkSettings, build_session, stop_session


@functools.cache
def _scratch() -> Path:
    return Path(tempfile.mkdtemp(prefix="regent-spark-"))


@functools.cache
def shared_session() -> Any:
    """The session, started at the first call."""
    settings = SparkSettings(
        jars_dir=store.check("spark"),
        scratch_dir=_scratch(),
        jvm_log=_scratch() / "jvm.log",
        small_commits=True,
    )
    return build_session(settings, "regent-tests")


def stop_shared_session() -> None:
    """Stop the session if there is one; what it wrote goes with it."""
    if shared_session.cache_info().currsize:
        stop_session(shared_session())
        shutil.rmtree(_scratch(), ignore_errors=True)
        shared_session.cache_clear()
        _scratch.cache_clear()
