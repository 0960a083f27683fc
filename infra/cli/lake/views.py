"""`regent lake views`: SQL by which other tools find the tables, and dbt's sources."""

from __future__ import annotations

import argparse
import json

from infra.cli.lake.arguments import WAY_OUT_WITHOUT_TABLES, add_lake_arguments, lake_of
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem

DUCKDB, SPARK, DBT = "duckdb", "spark", "dbt-sources"


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which tables, for whom."""
    add_lake_arguments(parser)
    parser.add_argument(
        "--as",
        dest="kind",
        choices=(DUCKDB, SPARK, DBT),
        default=DUCKDB,
        help=(
            "views for DuckDB (default), tables for Spark or a catalogue behind it, sources.yml of "
            "dbt"
        ),
    )
    parser.add_argument(
        "--catalogue", metavar="NAME", help="with --as spark: the catalogue in which they are made"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 with the text on the standard output."""
    from lakehouse.catalogue.dbt_sources import dbt_sources
    from lakehouse.sql.named_tables import KNOWN

    if arguments.catalogue is not None and arguments.kind != SPARK:
        raise Problem("--catalogue goes with --as spark", "Leave one of them out.", EXIT_USAGE)
    text = dbt_sources(KNOWN) if arguments.kind == DBT else _sql(arguments)
    print(json.dumps({"as": arguments.kind, "text": text}) if arguments.json else text.rstrip("\n"))
    return EXIT_DONE


def _sql(arguments: argparse.Namespace) -> str:
    from lakehouse.catalogue.views import duckdb_views, spark_tables
    from lakehouse.errors import LakehouseError
    from lakehouse.sql.named_tables import KNOWN, there

    lake = lake_of(arguments)
    try:
        specs = there(lake)
    except LakehouseError as error:
        raise Problem(str(error), WAY_OUT_WITHOUT_TABLES) from error
    missing = [name for name in KNOWN if name not in specs]
    if arguments.kind == DUCKDB:
        return duckdb_views(lake, specs, missing)
    return spark_tables(lake, specs, arguments.catalogue, missing)
