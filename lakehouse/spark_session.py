"""The one place where a Spark session is built.

Responsible for Spark's settings and for the start of its Java process.
Refuses to know tables, topics and what the session is used for.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakehouse.errors import LakehouseError

PROJECT_ROOT = Path(__file__).resolve().parent.parent
# A cluster with room starts an executor within a few seconds.
PATIENCE_S = 10.0
POLL_S = 0.2
ERROR_CHARS_MAX = 200
JAR_NAMES_NEEDED = ("delta-spark_", "delta-storage", "spark-sql-kafka")

JAVA_OPTIONS = (
    # With the default stack an error inside foreachBatch ends in a StackOverflowError that hides
    # its cause.
    "-Xss8m",
    # Short work on few cores: the optimising compiler costs more than it gives back.
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
)

CLASS_ARCHIVE = Path(sys.prefix, "share", "regent", "spark.jsa")
"""Classes of Spark as Java has them in memory. `make classes` lays it out in the environment."""
NO_WORD_OF_ARCHIVES = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""Java passes over an archive that is missing, or made by another Java, and says so: nobody needs
to know.
"""


# A landing job appends some rows to some tables every second, for ever. Compiling a plan for each
# append and adding up statistics of each file took more than half of its processor time.
SMALL_COMMIT_OPTIONS = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.stats.collect": "false",
    "spark.databricks.delta.writeChecksumFile.enabled": "false",
    "spark.databricks.delta.history.metricsEnabled": "false",
}


# Else it binds the first real interface. A cluster's executors must find the driver: there Spark's
# own rule holds.
_LOCAL = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


# The local file system of Hadoop adds a checksum file to each file: two writes more in
# every commit, and a flipped byte would be reported as a file instead of as an offset.
_NO_CHECKSUM_FILES = {
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What a session needs from its surroundings."""

    jars_dir: Path | None
    """Jars of Delta and of Spark's Kafka source; None: they are among `packages`."""
    scratch_dir: Path
    """Spark's temporary files; made if missing."""
    java_home: Path | None = None
    cores: int = 2
    driver_memory: str = "1g"
    jvm_log: Path | None = None
    """Where the Java process writes its standard error; None: to ours."""
    small_commits: bool = False
    """Spend as little as possible on each append of a few rows, see `SMALL_COMMIT_OPTIONS`."""
    master: str | None = None
    """Master of a Spark cluster; None: Spark within this process and its Java child, on `cores`
    cores.
    """
    conf: Mapping[str, str] = field(default_factory=dict)
    """Settings of Spark that win over ours."""
    packages: tuple[str, ...] = ()
    """Maven coordinates that Spark fetches at its start."""
    object_store: bool = False
    """It is written to, through one of Hadoop's file systems: these buffer in Hadoop's own local
    one and take no other.
    """
    java_options: tuple[str, ...] = (f"-XX:SharedArchiveFile={CLASS_ARCHIVE}", *NO_WORD_OF_ARCHIVES)
    """Options of the Java process besides `JAVA_OPTIONS`."""


def build_session(
    settings: SparkSettings, app_name: str, *, inherited_fds: Sequence[int] = ()
) -> Any:
    """Start Java and return a `SparkSession`; takes 5 to 15 s, more on a busy machine.

    `inherited_fds` stay open in the Java process, so a lock that rests on one of them is held
    until that process has ended too.
    Raises `LakehouseError` when jars or Java are missing.
    """
    jars = _jars(settings.jars_dir)
    _prepare_environment(settings)
    # Imported here: a query that needs no Spark must not pay for it.
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    # At INFO it logs every callback, several a second.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    conf = SparkConf(loadDefaults=False)
    for name, value in options_of(settings, jars, app_name).items():
        conf.set(name, value)
    popen: dict[str, Any] = {"pass_fds": tuple(inherited_fds)}
    log = settings.jvm_log.open("ab") if settings.jvm_log is not None else None
    if log is not None:
        popen["stderr"] = log
    try:
        gateway = launch_gateway(conf=conf, popen_kwargs=popen)  # type: ignore[no-untyped-call]
    except (PySparkException, OSError) as error:
        where = f"; see {settings.jvm_log}" if settings.jvm_log else ""
        raise LakehouseError(
            f"Java did not start Spark ({error}){where}: Java 17 or newer is needed, "
            "set java_home or JAVA_HOME"
        ) from error
    finally:
        if log is not None:
            log.close()
    return _session(gateway, conf, settings)


def _session(gateway: Any, conf: Any, settings: SparkSettings) -> Any:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context = None
    try:
        context = SparkContext(gateway=gateway, conf=conf)
        return SparkSession(context)
    except Exception as error:
        # Java's own, or that Java has ended: a master that is away stops the context after a
        # minute.
        told = _no_session(settings, error)
        if context is not None:
            context.stop()
        _end_java(gateway)
        raise LakehouseError(told) from error


def wait_for_executors(
    spark: Any, stopped: Callable[[], bool], tell: Callable[[str], None]
) -> bool:
    """Run a task somewhere in the cluster and return True, or False when `stopped()` came first.

    Without a free executor Spark waits for ever and does not say so; here it is told. Raises what
    the task raised.
    """
    ended: list[BaseException | None] = []
    thread = threading.Thread(
        target=lambda: ended.append(_trouble_of(spark)), daemon=True, name="first-task"
    )
    thread.start()
    thread.join(PATIENCE_S)
    if thread.is_alive():
        tell(
            f"waiting for an executor of {spark.sparkContext.master}: has it cores and memory to "
            "spare?"
        )
    while thread.is_alive():
        if stopped():
            return False
        thread.join(POLL_S)
    if ended[0] is not None:
        raise ended[0]
    return True


def _trouble_of(spark: Any) -> BaseException | None:
    try:
        spark.range(1).count()
    except Exception as error:
        return error
    return None


def _no_session(settings: SparkSettings, error: Exception) -> str:
    where = f"; see {settings.jvm_log}" if settings.jvm_log else ""
    try:
        reason = " ".join(str(error).split())[:ERROR_CHARS_MAX]
    except OSError:  # The words were Java's, and it has ended.
        reason = type(error).__name__
    return (
        f"no Spark at {settings.master or 'this machine'}{where}: is it reached, and is it of this "
        f"release's version? Spark says: {reason}"
    )


def hadoop_files(spark: Any, place: str) -> tuple[Any, Any]:
    """Java's file system that a folder or URI lies in, and its path there: also of object
    stores.
    """
    path = spark._jvm.org.apache.hadoop.fs.Path(place)
    return path.getFileSystem(spark._jsc.hadoopConfiguration()), path


def java_errors() -> tuple[type[Exception], ...]:
    """Errors whose text Java holds: it must be taken before the session is stopped."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    return Py4JJavaError, PySparkException


def stop_session(spark: Any) -> None:
    """Stop Spark and wait until its Java process is gone."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    spark.stop()
    if gateway is not None:
        _end_java(gateway)


def _end_java(gateway: Any) -> None:
    from pyspark import SparkContext

    process = getattr(gateway, "proc", None)
    gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    if process is not None:
        process.stdin.close()
        process.wait()


def _jars(jars_dir: Path | None) -> list[str]:
    if jars_dir is None:
        return []
    jars = sorted(str(path.resolve()) for path in jars_dir.glob("*.jar"))
    missing = [
        name for name in JAR_NAMES_NEEDED if not any(Path(j).name.startswith(name) for j in jars)
    ]
    if missing:
        raise LakehouseError(
            f"jars for Spark are missing in {jars_dir} ({', '.join(missing)}): run `make setup`"
        )
    return jars


def _prepare_environment(settings: SparkSettings) -> None:
    settings.scratch_dir.mkdir(parents=True, exist_ok=True)
    if settings.java_home is not None:
        if not (settings.java_home / "bin" / "java").exists():
            raise LakehouseError(f"java_home {settings.java_home} has no bin/java")
        os.environ["JAVA_HOME"] = str(settings.java_home)
    elif "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise LakehouseError("no Java found: set java_home or JAVA_HOME, or put java on the path")
    # Left unset, workers start with whatever python3 is on the path.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # A Spark that is not ours must not lend its folders and settings.
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        os.environ.pop(name, None)
    # Workers import the fold by name, from where this process got it.
    paths = [str(PROJECT_ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))


def _class_path(settings: SparkSettings, jars: Sequence[str]) -> dict[str, str]:
    if not jars:
        return {}
    if settings.master is None:
        return {"spark.driver.extraClassPath": os.pathsep.join(jars)}
    return {"spark.jars": ",".join(jars)}


def options_of(settings: SparkSettings, jars: Sequence[str], app_name: str) -> dict[str, str]:
    """Every setting that Spark is started with."""
    scratch = str(settings.scratch_dir.resolve())
    small = SMALL_COMMIT_OPTIONS if settings.small_commits else {}
    packages = {"spark.jars.packages": ",".join(settings.packages)} if settings.packages else {}
    return {
        **small,
        **packages,
        **({} if settings.object_store else _NO_CHECKSUM_FILES),
        # Executors elsewhere have folders of their own; a standalone cluster would give all its
        # cores to who comes first.
        **(
            {**_LOCAL, "spark.local.dir": scratch}
            if settings.master is None
            else {"spark.cores.max": str(settings.cores)}
        ),
        "spark.master": settings.master or f"local[{settings.cores}]",
        "spark.app.name": app_name,
        # On Java's own class path they are among the classes that `CLASS_ARCHIVE` holds; executors
        # elsewhere get them from the driver.
        **_class_path(settings, jars),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(
            (*JAVA_OPTIONS, *settings.java_options, f"-Djava.io.tmpdir={scratch}")
        ),
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.scheduler.mode": "FAIR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # An idle query asks Kafka for its end offsets this often.
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.sql.streaming.minBatchesToRetain": "20",
        **settings.conf,
    }
