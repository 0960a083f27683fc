"""SQL that gives the tables of a lake their names in a database of somebody else's.

Responsible for the statements: views for DuckDB, which Superset, Grafana, dbt and DBeaver open as
one file; tables for Spark's catalogues, Unity Catalog among them. Nothing is copied: who asks reads
Delta as it is then, gold as far as the gold job has come.
Refuses to run any of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakehouse.sql.readable import columns_shown, in_duckdb
from lakehouse.tables.lake import Lake
from lakehouse.tables.specs import CLUSTER_ID, TableSpec

DUCKDB_HEAD = """\
-- Views over the Delta tables in {root}, for DuckDB with its extension `delta`.
-- Run them by the DuckDB that the reading tool has: regent lake views | duckdb lake.duckdb"""
SPARK_HEAD = """\
-- The Delta tables in {root}, for a Spark session or a catalogue that knows Delta."""


def duckdb_views(lake: Lake, specs: Mapping[str, TableSpec], missing: Sequence[str] = ()) -> str:
    """A view for each table, with its moments as timestamps and what each column means; of the
    lake's cluster when it has one, else of all. `missing`: tables that are not made yet.
    """
    parts = [DUCKDB_HEAD.format(root=lake.root), *_not_there(missing)]
    parts += [f"CREATE SCHEMA IF NOT EXISTS {layer};" for layer in _layers(specs)]
    parts += [line for name, spec in specs.items() for line in _view(lake, name, spec)]
    return "\n".join(parts) + "\n"


def spark_tables(
    lake: Lake,
    specs: Mapping[str, TableSpec],
    catalogue: str | None = None,
    missing: Sequence[str] = (),
) -> str:
    """A table for each table, in `catalogue` or in the session's own. Columns and meanings are
    what Delta says.
    """
    before = f"{_in_back_quotes(catalogue)}." if catalogue else ""
    parts = [SPARK_HEAD.format(root=lake.root), *_not_there(missing)]
    parts += [f"CREATE SCHEMA IF NOT EXISTS {before}{layer};" for layer in _layers(specs)]
    for name, spec in specs.items():
        layer, _, noun = name.partition(".")
        parts.append(
            f"CREATE TABLE IF NOT EXISTS {before}{layer}.{_in_back_quotes(noun)} USING delta "
            f"LOCATION {_text(lake.spark_uri(spec))};"
        )
    return "\n".join(parts) + "\n"


def _not_there(missing: Sequence[str]) -> list[str]:
    if not missing:
        return []
    return [f"-- Not made yet: {', '.join(missing)}. Run 'regent lake gold', then this again."]


def _layers(specs: Mapping[str, TableSpec]) -> list[str]:
    return list(dict.fromkeys(name.partition(".")[0] for name in specs))


def _view(lake: Lake, name: str, spec: TableSpec) -> Iterator[str]:
    layer, _, noun = name.partition(".")
    view = f"{layer}.{_in_quotes(noun)}"
    columns = ", ".join(("*", *in_duckdb(spec)))
    of_cluster = (
        "" if lake.cluster_id is None else f" WHERE {CLUSTER_ID} = {_text(lake.cluster_id)}"
    )
    rows = f"delta_scan({_text(lake.absolute_uri(spec))}){of_cluster}"
    yield f"CREATE OR REPLACE VIEW {view} AS SELECT {columns} FROM {rows};"
    yield f"COMMENT ON VIEW {view} IS {_text(spec.meaning)};"
    for column in columns_shown(spec):
        yield f"COMMENT ON COLUMN {view}.{_in_quotes(column.name)} IS {_text(column.meaning)};"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _in_quotes(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _in_back_quotes(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
