"""Where landing was seen to run and to put its tables, by configuration only: a Spark cluster, an
object store.

Responsible for: what is done at each place, and the rows that tell of it. Refuses to know: how a
place is made.
"""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

from infra.jars import store as jar_store
from lakehouse.tables.commit_lock import ALONE
from tests.elsewhere.locked import anchored
from tests.elsewhere.object_store import ObjectStore
from tests.elsewhere.placed_job import asked, environment, ground, proven
from tests.elsewhere.spark_cluster import SparkCluster
from tests.interop.stage import Row, Stage
from tests.support.control_history import NAME

CORES_OF_A_WORKER, CORES_OF_THE_JOB = 2, 1
# On a machine of its own the driver would be found by its name.
LOOPBACK = {
    "spark.driver.host": "127.0.0.1",
    ("spark.driver.bindAddress"): "127.0.0.1",
    "spark.executor.memory": "512m",
}
WAITS = "waiting for an executor"
BUCKET = "history"


def standalone(stage: Stage) -> list[Row]:
    """Spark's standalone cluster: without a worker, with one, with another after its death; then
    the proof, there too.
    """
    home, rows = stage.work / "standalone", []
    tables = home / "tables"
    with ground(home) as here, SparkCluster(home / "spark", CORES_OF_A_WORKER) as cluster:
        settings = {
            "tables": tables,
            "checkpoint_dir": home / "checkpoints",
            "jars_dir": jar_store.check("spark"),
            "spark_master": cluster.master,
            "spark_cores": CORES_OF_THE_JOB,
            "spark_conf": LOOPBACK,
        }
        here.load.allow(here.half)
        job = here.begin(settings)
        waiting = job.wait_until(
            lambda status: status.stage.startswith(WAITS) or status.batches > 0
        )
        rows.append(Row("without a worker", waiting.stage, waiting.stage.startswith(WAITS)))
        stage.say("a worker comes")
        cluster.add_worker()
        job.wait_landed(here.half)
        rows.append(
            Row(
                "cores taken",
                f"{cluster.cores_taken} of {CORES_OF_A_WORKER}",
                cluster.cores_taken == CORES_OF_THE_JOB,
            )
        )
        rows.append(_shipped(cluster))
        stage.say("half has landed; the worker is killed, another comes")
        cluster.kill_worker()
        here.load.all_of_it()
        cluster.add_worker()
        job.finish(here.bootstrap)
        rows.append(here.compared(str(tables)))
        place = ["--tables", str(tables)]
        rows += [
            asked(words, place)
            for words in (["history", NAME], ["explain", NAME], ["lake", "check"])
        ]
        stage.say("the proof, on the cluster")
        there = {
            "REGENT_LAND_SPARK_MASTER": cluster.master,
            "REGENT_LAND_SPARK_CONF": json.dumps(LOOPBACK),
        }
        rows.append(proven(len(here.load.commands), place, there))
    return rows


def _shipped(cluster: SparkCluster) -> Row:
    wanted = {path.name for path in jar_store.check("spark").glob("*.jar")}
    missing = wanted - cluster.shipped
    return Row(
        "jars from the driver",
        f"{len(wanted)} reached the executor" if not missing else f"missing: {sorted(missing)}",
        not missing,
    )


def s3(stage: Stage) -> list[Row]:
    """An S3 store: landed through Spark, over a kill; read, cared for and proven."""
    home, rows = stage.work / "s3", []
    jar_store.fetch_all(stage.say, names=["s3"])
    with (
        ground(home) as here,
        ObjectStore(home / "store", stage.say) as store,
        environment(store.credentials),
    ):
        store.make_bucket(BUCKET)
        jars = _together(home / "jars", "spark", "s3")
        settings = {
            "tables": f"s3a://{BUCKET}/tables",
            "checkpoint_dir": f"s3a://{BUCKET}/checkpoints",
            "jars_dir": jars,
            "spark_conf": store.spark_conf,
            "storage_options": store.storage_options,
        }
        here.load.allow(here.half)
        job = here.begin(settings)
        job.wait_landed(here.half)
        told = ALONE in job.log.read_text(errors="replace")
        rows.append(Row("told that it must be alone", "yes" if told else "no", told))
        stage.say("half has landed; the job is killed and begun again")
        job.end(signal.SIGKILL)
        here.load.all_of_it()
        here.begin(settings).finish(here.bootstrap)
        with environment({name.upper(): value for name, value in store.storage_options.items()}):
            rows.append(here.compared(f"s3://{BUCKET}/tables"))
        options = [
            word
            for name, value in store.storage_options.items()
            for word in ("--storage-option", f"{name}={value}")
        ]
        for scheme in ("s3a", "s3"):
            found = asked(["history", NAME], ["--tables", f"{scheme}://{BUCKET}/tables", *options])
            rows.append(replace(found, what=f"{found.what}, {scheme}:"))
        place = ["--tables", f"s3a://{BUCKET}/tables", *options]
        rows += [asked(words, place) for words in QUESTIONS]
        stage.say("the proof with the layers beside it, without Spark")
        rows.append(proven(len(here.load.commands), place, {}, "--layers"))
        stage.say("the proof, through Spark")
        there = {
            "REGENT_LAND_JARS_DIR": str(jars),
            "REGENT_LAND_SPARK_CONF": json.dumps(store.spark_conf),
        }
        rows.append(proven(len(here.load.commands), place, there))
        rows.append(asked(["lake", "aggregates"], place, there))
        rows.append(
            asked(["sql", "--spark", "SELECT count(*) FROM gold.failover_rates"], place, there)
        )
        with environment({name.upper(): value for name, value in store.storage_options.items()}):
            rows.append(here.compared(f"s3://{BUCKET}/tables"))
    return rows


def locked(stage: Stage) -> list[Row]:
    """A bucket with object lock: anchors that nobody can take back."""
    return anchored(stage)


QUESTIONS = (
    ["explain", NAME],
    ["state", "--at", "12"],
    ["sql", "SELECT count(*) FROM gold.elections"],
    ["lake", "gold"],
    ["lake", "check"],
    ["lake", "maintain"],
)


def _together(folder: Path, *names: str) -> Path:
    """A folder with the jars of these locks."""
    folder.mkdir()
    for name in names:
        for jar in jar_store.check(name).glob("*.jar"):
            (folder / jar.name).symlink_to(jar)
    return folder
