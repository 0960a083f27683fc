"""A program for a DuckDB that is not Regent's: it reads one JSON document with the questions and
prints one with the rows.

Responsible for the connection as an analyst makes it: DuckDB's own, or SQLAlchemy's, of which
Superset makes use. Refuses to know Regent: it runs in an environment that has none of it.
"""

from __future__ import annotations

import json
import sys
from typing import Any


def _by_duckdb(told: dict[str, Any]) -> list[list[list[Any]]]:
    import duckdb

    found = duckdb.connect(
        told["database"],
        read_only=told["read_only"],
        config={"extension_directory": told["extensions"]},
    )
    for statement in told["before"]:
        found.execute(statement)
    return [[list(row) for row in found.execute(one).fetchall()] for one in told["queries"]]


def _by_sqlalchemy(told: dict[str, Any]) -> list[list[list[Any]]]:
    import sqlalchemy

    engine = sqlalchemy.create_engine(
        f"duckdb:///{told['database']}",
        connect_args={"read_only": True, "config": {"extension_directory": told["extensions"]}},
    )
    with engine.connect() as found:
        return [
            [list(row) for row in found.exec_driver_sql(one).fetchall()] for one in told["queries"]
        ]


if __name__ == "__main__":
    told = json.load(sys.stdin)
    ask = _by_sqlalchemy if told["by"] == "sqlalchemy" else _by_duckdb
    json.dump(ask(told), sys.stdout, default=str)
