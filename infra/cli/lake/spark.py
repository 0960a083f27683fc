"""A Spark session for a verb on tables: found Java, pinned jars, scratch that goes again, unless
the environment says other.

Refuses to know what is done with it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.problems import EXIT_USAGE, Problem

if TYPE_CHECKING:
    from lakehouse.spark_session import SparkSettings


def settings_in(
    scratch: Path,
    *,
    cores: int = 2,
    small_commits: bool = False,
    object_store: bool = False,
    java_log: Path | None = None,
) -> SparkSettings:
    """What a session is started with: tables elsewhere are reached by the landing job's own
    variables (`REGENT_LAND_SPARK_CONF` ...). `java_log`: where Java's words go; None: into scratch.

    Raises Problem when Java or the jars are missing, or a variable is wrong.
    """
    from infra.jars import store
    from infra.jars.java import find_java
    from lakehouse.errors import LakehouseError
    from lakehouse.landing.config import SparkConfig
    from lakehouse.spark_session import SparkSettings

    try:
        told = SparkConfig.of_environment()
    except LakehouseError as error:
        raise Problem(
            str(error),
            "Correct or unset the variables REGENT_LAND_..., which verbs that start Spark read "
            "too.",
            EXIT_USAGE,
        ) from error
    java_home = told.java_home or find_java().home  # First: without a Java, jars are of no use.
    return SparkSettings(
        told.jars_dir or store.check("spark"),
        scratch,
        java_home,
        told.spark_cores if "spark_cores" in told.model_fields_set else cores,
        told.driver_memory,
        jvm_log=java_log or scratch / "spark.log",
        small_commits=small_commits,
        master=told.spark_master,
        conf=told.spark_conf,
        packages=tuple(told.spark_packages),
        object_store=object_store,
    )


@contextmanager
def spark_for(
    verb: str,
    inherited_fds: Sequence[int] = (),
    *,
    object_store: bool = False,
    java_log: Path | None = None,
) -> Iterator[Any]:
    """Start Spark, stop it at the end; takes some ten seconds. Its Java process keeps
    `inherited_fds` open.

    Raises Problem when Java or the jars are missing.
    """
    from lakehouse.errors import LakehouseError
    from lakehouse.spark_session import build_session, stop_session

    with tempfile.TemporaryDirectory(prefix=f"regent-{verb}-") as scratch:
        settings = settings_in(
            Path(scratch), small_commits=True, object_store=object_store, java_log=java_log
        )
        try:
            spark = build_session(settings, f"regent-{verb}", inherited_fds=inherited_fds)
        except LakehouseError as error:
            raise Problem(str(error), "") from error
        try:
            yield spark
        finally:
            stop_session(spark)
