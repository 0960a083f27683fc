"""`regent sql`: a query over every table of every layer, answered without Spark, or by Spark."""

from __future__ import annotations

import argparse
import json
from typing import Any

from infra.cli.lake.arguments import WAY_OUT_WHEN_BEHIND, add_lake_arguments, lake_of
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem

ROWS_MAX = 1_000


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """The query, and the format of its answer."""
    add_lake_arguments(parser)
    parser.add_argument(
        "query",
        metavar="QUERY",
        nargs="?",
        help=('e.g. "SELECT * FROM gold.failovers"; without one the tables are listed'),
    )
    parser.add_argument(
        "--csv", action="store_true", help=("comma-separated values with a line of names")
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=int,
        default=ROWS_MAX,
        help=(f"limit on rows, 0 for all (default: {ROWS_MAX})"),
    )
    parser.add_argument(
        "--spark",
        action="store_true",
        help=("let Spark answer, in Spark's SQL: for what is too large for one process"),
    )


def run(arguments: argparse.Namespace) -> int:
    """Ask; a wrong query is wrong usage."""
    from lakehouse.errors import LakehouseError
    from lakehouse.sql.query import WrongQuery

    if arguments.csv and arguments.json:
        raise Problem("--csv and --json are two answers", "Name one of them.", EXIT_USAGE)
    if arguments.limit < 0:
        raise Problem(
            f"--limit {arguments.limit} is less than nothing", "0 stands for all rows.", EXIT_USAGE
        )
    lake = lake_of(arguments)
    try:
        if arguments.query is None:
            print(_listed(lake, arguments.json))
        else:
            _tell(_answered(lake, arguments), arguments)
    except WrongQuery as error:
        raise Problem(
            str(error),
            "'regent sql' lists the tables, 'regent sql \"DESCRIBE gold.failovers\"' the columns "
            "of one.",
            EXIT_USAGE,
        ) from error
    except LakehouseError as error:
        raise Problem(str(error), WAY_OUT_WHEN_BEHIND) from error
    return EXIT_DONE


def _answered(lake: Any, arguments: argparse.Namespace) -> Any:
    from infra import waiting
    from lakehouse.sql import query

    rows_max = arguments.limit or None
    if not arguments.spark:
        with waiting.told(
            "what the gold tables do not hold yet is folded, and the query is answered"
        ):
            return query.ask(lake, arguments.query, rows_max)
    from infra.cli.lake.spark import spark_for
    from lakehouse.sql import query_spark

    with spark_for("sql") as spark:
        return query_spark.ask(spark, lake, arguments.query, rows_max)


def _tell(answer: Any, arguments: argparse.Namespace) -> None:
    from lakehouse.sql import text

    if arguments.csv:
        print(text.csv_text(answer.rows))
        return
    as_of = None if answer.gold is None else answer.gold.as_dict()
    if arguments.json:
        rows = text.json_rows(answer.rows)
        print(
            json.dumps(
                {
                    "columns": text.unique(answer.rows.column_names),
                    "rows": rows,
                    "more": answer.more,
                    "as_of": as_of,
                },
                indent=1,
            )
        )
        return
    print(text.table_text(answer.rows))
    count = f"{answer.rows.num_rows} rows"
    more = f"; there are more, --limit {arguments.limit} was reached" if answer.more else ""
    print(f"{count}{more}{'' if answer.gold is None else '; gold speaks ' + answer.gold.text()}")


def _listed(lake: Any, as_json: bool) -> str:
    from lakehouse import wording
    from lakehouse.sql.named_tables import listed

    specs = listed(lake)
    if as_json:
        found = {
            name: {
                "meaning": spec.meaning,
                "columns": {one.name: one.meaning for one in spec.columns},
            }
            for name, spec in specs.items()
        }
        return json.dumps(found, indent=1)
    rows = [(name, " ".join(spec.meaning.split())) for name, spec in specs.items()]
    return wording.text_table(("table", "what a row is"), rows)
