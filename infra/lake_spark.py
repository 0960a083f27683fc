"""A Spark session for a verb on tables: found Java, pinned jars, scratch that goes again.

Refuses to know what is done with it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.problems import Problem


@contextmanager
def spark_for(verb: str, inherited_fds: Sequence[int] = ()) -> Iterator[Any]:
    """
    Start Spark, stop it at the end; takes some ten seconds. Its Java process keeps `inherited_fds` open.

    Raises Problem when Java or the jars are missing.
    """
    from infra import jar_store
    from infra.java import find_java
    from lakehouse.errors import LakehouseError
    from lakehouse.session import SparkSettings, build_session, stop_session

    java, jars = find_java(), jar_store.check("spark")
    with tempfile.TemporaryDirectory(prefix=f"regent-{verb}-") as scratch:
        settings = SparkSettings(jars, Path(scratch), java_home=java.home, jvm_log=Path(scratch) / "spark.log", small_commits=True)
        try:
            spark = build_session(settings, f"regent-{verb}", inherited_fds=inherited_fds)
        except LakehouseError as error:
            raise Problem(str(error), "") from error
        try:
            yield spark
        finally:
            stop_session(spark)
