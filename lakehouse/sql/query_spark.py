"""The same queries answered by Spark, for what is too large for one process.

Responsible for giving Spark the tables under the names that `sql` has, so that the same question
gets the same answer: bronze and silver from Delta, gold from Delta where it holds all that has
landed, else as it was folded on. Nothing but a query is run. Refuses to know how Spark is started;
the two dialects of SQL stay two.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from lakehouse.errors import LakehouseError
from lakehouse.sql.named_tables import LAYERS, gold_of, mentioned, spec_named
from lakehouse.sql.query import Answer, WrongQuery
from lakehouse.sql.readable import in_spark, shown
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import CLUSTER_ID, TableSpec

ERROR_CHARS_MAX = 500


def ask(spark: Any, lake: Lake, query: str, rows_max: int | None = None) -> Answer:
    """As `sql.ask`; the answer has to fit into memory. The session is one that
    `session.build_session` made: it gets databases of the layers' names, and whatever was in them
    under a name that the query mentions goes.

    Raises `WrongQuery`, `NotLanded`, `LakehouseError`.
    """
    with _errors_in_words():
        # Between brackets only a query can stand: whatever changes something is no longer SQL.
        spark._jsparkSession.sessionState().sqlParser().parsePlan(f"SELECT * FROM (\n{query}\n)")
        specs = {name: spec_named(lake, name) for name in mentioned(query)}
        gold = gold_of(lake, list(specs.values()))
        for layer in LAYERS:
            spark.sql(f"CREATE DATABASE IF NOT EXISTS {layer}")
        for name, spec in specs.items():
            _show(spark, lake, name, spec, None if gold is None else gold.tables.get(spec.name))
        found = spark.sql(query)
        rows = (found if rows_max is None else found.limit(rows_max + 1)).toArrow()
    more = rows_max is not None and rows.num_rows > rows_max
    return Answer(rows if rows_max is None else rows.slice(0, rows_max), more, gold)


def _show(spark: Any, lake: Lake, name: str, spec: TableSpec, folded: pa.Table | None) -> None:
    """Whatever had that name in the session is gone; what was folded lies in the session's own
    scratch folder.
    """
    if spark.catalog.tableExists(name):
        spark.sql(
            f"DROP {'VIEW' if spark.catalog.getTable(name).tableType == 'VIEW' else 'TABLE'} {name}"
        )
    if folded is None:
        source = f"delta.`{lake.spark_uri(spec)}`{_own(lake)}"
        columns = ", ".join(("*", *in_spark(spec)))
        spark.sql(f"CREATE VIEW {name} AS SELECT {columns} FROM {source}")
    else:
        rows = shown(folded, spec)
        spark.createDataFrame(rows).write.mode("overwrite").saveAsTable(name)


def _own(lake: Lake) -> str:
    if lake.cluster_id is None:
        return ""
    quoted = lake.cluster_id.replace("\\", "\\\\").replace("'", "\\'")
    return f" WHERE {CLUSTER_ID} = '{quoted}'"


@contextmanager
def _errors_in_words() -> Iterator[None]:
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, ParseException, PySparkException

    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise WrongQuery(_first_words(error)) from error
    except (PySparkException, Py4JError, pa.ArrowException) as error:
        raise LakehouseError(f"Spark could not answer: {_first_words(error)}") from error


def _first_words(error: Exception) -> str:
    return " ".join(str(error).strip().partition("\n\n")[0].split())[:ERROR_CHARS_MAX]
