"""The tools of an analyst, real ones, in an environment of their own: a DuckDB with its extensions
for Delta and Iceberg, dbt, PyIceberg, SQLAlchemy; and Iceberg's own REST catalogue.

Responsible for getting them by their locks at the first use, and for running them. Refuses to know
what is asked.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from infra.jars import store
from infra.jars.java import find_java
from infra.processes.children import spawn, stop
from infra.processes.ports import pick_block
from tests.support.local_cluster import wait_until

HERE = Path(__file__).parent
TOOLS_LOCK, CATALOGUE_LOCK = HERE / "analyst-tools.lock", HERE / "iceberg-rest.lock"
PROJECT = HERE.parents[1]
INSTALL_LIMIT_S, RUN_LIMIT_S, LISTENS_WITHIN_S, STOP_GRACE_S = 1_200, 1_200, 120.0, 20.0
VERB = (
    "import sys; sys.path.append(sys.argv.pop(1)); from infra.cli.main import main; "
    "sys.exit(main(sys.argv[1:]))"
)


class Tools:
    """An environment beside Regent's."""

    def __init__(self, home: Path) -> None:
        self._home = home

    @property
    def python(self) -> Path:
        return self._home / "bin" / "python"

    @property
    def packages(self) -> Path:
        return next(self._home.glob("lib/python3*/site-packages"))

    def extensions(self, home: Path) -> Path:
        """A folder of extensions as DuckDB lays it out when it has fetched them, below `home`."""
        for found in self.packages.glob("duckdb_extension_*/extensions/*/*.duckdb_extension"):
            place = home / ".duckdb" / "extensions" / found.parent.name / "linux_amd64"
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, place / found.name)
        return home / ".duckdb" / "extensions"

    def asked(
        self,
        queries: Sequence[str],
        database: Path | str,
        extensions: Path,
        before: Sequence[str] = (),
        by: str = "duckdb",
        read_only: bool = True,
    ) -> list[list[list[Any]]]:
        """The rows of each query by this DuckDB; times are texts."""
        told = {
            "queries": list(queries),
            "database": str(database),
            "extensions": str(extensions),
            "before": list(before),
            "by": by,
            "read_only": read_only,
        }
        return json.loads(self.run(str(HERE / "asked_in_duckdb.py"), given=json.dumps(told)))

    def run(self, *words: str, given: str = "", at: Path | None = None, **variables: str) -> str:
        """What a program of the environment says. AssertionError with its words when it fails."""
        done = subprocess.run(
            [str(self.python), *words],
            input=given,
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
            check=False,
            cwd=at,
            env={"PATH": os.environ["PATH"], **variables},
        )
        assert done.returncode == 0, f"{words}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def verb(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A verb of Regent with these tools' packages behind its own."""
        return subprocess.run(
            [sys.executable, "-c", VERB, str(self.packages), *words],
            capture_output=True,
            text=True,
            timeout=RUN_LIMIT_S,
            check=False,
            env=os.environ | {"PYTHONPATH": str(PROJECT)},
        )


def tools() -> Tools:
    """The tools, fetched by name, version and hash at their first use (150 MiB)."""
    home = store.cache_dir() / "analyst-tools"
    stamp = home / "made-from.lock"
    if not stamp.exists() or stamp.read_bytes() != TOOLS_LOCK.read_bytes():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run(
            [home / "bin" / "python", *words, "--require-hashes", "-r", TOOLS_LOCK],
            check=True,
            timeout=INSTALL_LIMIT_S,
        )
        stamp.write_bytes(TOOLS_LOCK.read_bytes())
    return Tools(home)


@contextmanager
def rest_catalogue(home: Path) -> Iterator[str]:
    """Iceberg's own REST catalogue on loopback, its tables' metadata below `home`; gives its
    address.
    """
    import pyspark

    jars = store.jars_of("iceberg-rest")
    store.fetch_lock(CATALOGUE_LOCK, jars, store.base_urls, print)
    home.mkdir(parents=True, exist_ok=True)
    port = pick_block(1)
    spark_jars = Path(pyspark.__file__).parent / "jars"
    log = home / "catalogue.log"
    child = spawn(
        [
            str(find_java().home / "bin" / "java"),
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xmx256m",
            "-cp",
            f"{jars}/*:{spark_jars}/*",
            "org.apache.iceberg.rest.RESTCatalogServer",
        ],
        log,
        os.environ
        | {
            "CATALOG_WAREHOUSE": str(home / "warehouse"),
            "CATALOG_URI": f"jdbc:sqlite:{home}/catalogue.db",
            "CATALOG_REST_PORT": str(port),
        },
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: _listens(address), "the catalogue listens", LISTENS_WITHIN_S)
        yield address
    finally:
        stop(child, STOP_GRACE_S)


def _listens(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/v1/config", timeout=5):
            return True
    except OSError:
        return False
