"""One Spark session for a whole test run, whichever folders take part: a start takes ten seconds."""

import functools
import tempfile
from pathlib import Path
from typing import Any

from infra import jar_store
from lakehouse.session import SparkSettings, build_session, stop_session


@functools.cache
def shared_session() -> Any:
    """The session, started at the first call."""
    scratch = Path(tempfile.mkdtemp(prefix="regent-spark-"))
    settings = SparkSettings(
        jars_dir=jar_store.check("spark"),
        scratch_dir=scratch,
        jvm_log=scratch / "jvm.log",
        small_commits=True,
    )
    return build_session(settings, "regent-tests")


def stop_shared_session() -> None:
    """Stop the session if there is one."""
    if shared_session.cache_info().currsize:
        stop_session(shared_session())
        shared_session.cache_clear()
