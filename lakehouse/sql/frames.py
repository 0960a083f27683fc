"""The tables of a lake for analysts, as data frames:
`lakehouse.open("…/tables").elections().to_pandas()`.

Responsible for one method per table, with what its columns mean in its help, and for handing the
rows to Arrow, pandas, Polars or Spark. Refuses to know how a table is found and made up to date
(`named_tables`).

    >>> import lakehouse
    >>> lake = lakehouse.open(".regent")
    >>> lake.failovers().to_pandas()[["broker_name", "at_time", "new_epoch", "unavailable_ms"]]
    >>> lake.silver.decisions().to_polars()
    >>> lake.sql("SELECT cause, count(*) FROM gold.elections GROUP BY ALL").to_arrow()
    >>> lake.elections().spark(spark).groupBy("cause").count()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake.exceptions import DeltaError

from lakehouse.errors import LakehouseError
from lakehouse.sql import named_tables
from lakehouse.sql import query as sql
from lakehouse.sql.named_tables import KNOWN, LAYERS
from lakehouse.sql.readable import columns_shown, in_spark, shown, sources_of
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import CLUSTER_ID, TableSpec


class Relation:
    """The rows of one table, of one cluster; nothing is read before one of its `to_` methods is
    called.

    Each call reads anew, as of that moment. Gold rows are up to date whether or not the gold job
    runs: what it has not merged yet is folded for the answer.
    """

    def __init__(self, lake: Lake, name: str, spec: TableSpec) -> None:
        self._lake = lake
        self.name = name
        """`gold.failovers` and the like: its name in SQL."""
        self.spec = spec

    @property
    def meaning(self) -> str:
        """What a row is."""
        return self.spec.meaning

    @property
    def columns(self) -> dict[str, str]:
        """Name of each column -> what it means, with its unit."""
        return {column.name: column.meaning for column in columns_shown(self.spec)}

    def to_arrow(
        self, columns: Sequence[str] | None = None, where: ds.Expression | None = None
    ) -> pa.Table:
        """A `pyarrow.Table`; `columns` and `where` (such as `pyarrow.compute.field("accepted")`)
        leave out what need not be read.

        Raises `NotLanded` when nothing has landed, `LakehouseError` when the table cannot be read.
        """
        opened = named_tables.open_named(self._lake, [self.name])
        try:
            rows = opened.tables[self.name].to_table(
                columns=None if columns is None else sources_of(self.spec, columns), filter=where
            )
            return shown(rows, self.spec, columns)
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise LakehouseError(f"table {self.name} cannot be read: {error}") from error

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`; lists, structs and maps are Python objects in it."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A `polars.DataFrame`. Raises `LakehouseError` when Polars is not installed: Regent does
        not bring it.
        """
        return _polars().from_arrow(self.to_arrow())

    def spark(self, spark: Any) -> Any:
        """A Spark DataFrame in your session, which has to know Delta.

        Bronze and silver are read by Spark itself, gold too as long as its tables hold all that has
        landed.
        """
        gold = named_tables.gold_of(self._lake, [self.spec])
        if gold is not None and self.spec.name in gold.tables:
            return spark.createDataFrame(shown(gold.tables[self.spec.name], self.spec))
        stored = spark.read.format("delta").load(self._lake.spark_uri(self.spec))
        found = stored.selectExpr("*", *in_spark(self.spec))
        return (
            found
            if self._lake.cluster_id is None
            else found.where(found[CLUSTER_ID] == self._lake.cluster_id)
        )

    def __repr__(self) -> str:
        return f"<{self.name}: {self.meaning}>"


class Rows:
    """The answer of a query, already there."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def to_arrow(self) -> pa.Table:
        """A `pyarrow.Table`."""
        return self._rows

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`."""
        return self._rows.to_pandas()

    def to_polars(self) -> Any:
        """A `polars.DataFrame`. Raises `LakehouseError` when Polars is not installed."""
        return _polars().from_arrow(self._rows)

    def spark(self, spark: Any) -> Any:
        """A Spark DataFrame in your session."""
        return spark.createDataFrame(self._rows)


class _Tables:
    """Methods of tables are added below, from the catalogue."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake


class Bronze(_Tables):
    """Every record as it came."""


class Silver(_Tables):
    """One typed table for each kind of record, and the decisions."""


class Gold(_Tables):
    """The tables that answer questions."""


class LakeTables(_Tables):
    """The tables of one cluster: `gold`, `silver` and `bronze` have one method for each table.

    Each table is a method here as well; where two layers have one of the same name, gold's is
    meant.
    """

    def __repr__(self) -> str:
        return f"<lake of cluster {self._lake.cluster_id} in {self._lake.root}>"

    @property
    def cluster_id(self) -> str | None:
        """Whose history it is; None while nothing has landed."""
        return self._lake.cluster_id

    @property
    def gold(self) -> Gold:
        """The tables that answer questions."""
        return Gold(self._lake)

    @property
    def silver(self) -> Silver:
        """One typed table for each kind of record, and the decisions."""
        return Silver(self._lake)

    @property
    def bronze(self) -> Bronze:
        """Every record as it came."""
        return Bronze(self._lake)

    def table(self, name: str) -> Relation:
        """Any table by its name in SQL, such as `gold.failovers`. Raises `NotLanded` when there is
        none of that name.
        """
        return Relation(self._lake, name, named_tables.spec_named(self._lake, name))

    def tables(self) -> dict[str, str]:
        """Name of each table -> what a row of it is."""
        return {name: spec.meaning for name, spec in named_tables.listed(self._lake).items()}

    def sql(self, query: str) -> Rows:
        """The answer to a SELECT over `gold.…`, `silver.…`, `bronze.…`, by DuckDB. Raises
        `WrongQuery` and as `Relation.to_arrow`.
        """
        return Rows(sql.ask(self._lake, query).rows)


def _polars() -> Any:
    try:
        import polars
    except ImportError as error:
        raise LakehouseError(
            "Polars is not installed: pip install polars, or take to_arrow() or to_pandas()"
        ) from error
    return polars


def _method(name: str, spec: TableSpec) -> Callable[[_Tables], Relation]:
    def table(self: _Tables) -> Relation:
        return Relation(self._lake, name, spec)

    table.__name__ = table.__qualname__ = name.partition(".")[2]
    columns = "\n".join(
        f"    {one.name} ({one.type}): {one.meaning}" for one in columns_shown(spec)
    )
    table.__doc__ = f"{spec.meaning}\n\nOne row for each {', '.join(spec.key)}. Columns:\n{columns}"
    return table


def _add_methods() -> None:
    classes = {"gold": Gold, "silver": Silver, "bronze": Bronze}
    for layer in LAYERS:  # gold first
        for name, spec in KNOWN.items():
            if spec.layer != layer:
                continue
            noun, method = name.partition(".")[2], _method(name, spec)
            setattr(classes[layer], noun, method)
            if not hasattr(LakeTables, noun):
                setattr(LakeTables, noun, method)


_add_methods()
