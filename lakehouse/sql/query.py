"""SQL over the tables of the lake, without Spark.

Responsible for a database in memory that holds nothing but the tables a query mentions, reads no
other file and changes nothing, and for stopping at as many rows as were asked for. Refuses to know
how an answer is shown (`sql.text`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from lakehouse.errors import LakehouseError
from lakehouse.gold.now import GoldNow
from lakehouse.sql.named_tables import LAYERS, Opened, layered, mentioned, open_named, spec_named
from lakehouse.sql.readable import columns_shown, in_duckdb
from lakehouse.tables.lake import Lake
from lakehouse.tables.listed_files import cannot_be_read

ROWS_AT_ONCE = 10_000
_DESCRIBE = re.compile(r'\s*DESC(?:RIBE)?\s+(?:TABLE\s+)?([\w."]+)\s*;?\s*', re.IGNORECASE)
_BROKEN_STREAM = re.compile(r"registered as 'rows_of_([a-z]+)_(\w+)' failed: (.*)", re.DOTALL)
# The query is a person's: it may read what is registered, and nothing else of the machine.
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "python_enable_replacements": False,
}
LOCKED = (
    f"SET search_path='{','.join(LAYERS)}'",
    "SET TimeZone='UTC'",
    "SET enable_external_access=false",
    "SET lock_configuration=true",
)


class WrongQuery(LakehouseError):
    """The query cannot be answered as it is written."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query gave."""

    rows: pa.Table
    more: bool
    """Whether there are more rows than were asked for."""
    gold: GoldNow | None
    """Up to where the gold tables in it speak; None when it asked none."""


def ask(lake: Lake, query: str, rows_max: int | None = None) -> Answer:
    """Answer one SELECT (or DESCRIBE, SUMMARIZE, EXPLAIN); `rows_max` None gives all rows.

    Raises `WrongQuery` for what is no such statement, `NotLanded` for a table that is not there,
    `LakehouseError` for one that cannot be read.
    """
    with _errors_in_words(lake, query):
        require_one_question(query)
        if (described := _described(lake, query)) is not None:
            return Answer(described, False, None)
        opened = open_named(lake, _asked_of(query))
        with _database(opened) as database:
            answer = database.sql(query)
            if answer is None:
                raise WrongQuery("the query gives no rows")
            rows, more = _taken(answer.to_arrow_reader(ROWS_AT_ONCE), rows_max)
    return Answer(rows, more, opened.gold)


def _described(lake: Lake, query: str) -> pa.Table | None:
    """The columns of a table as its specification has them, for a DESCRIBE that names one; the
    database knows neither keys nor meanings.
    """
    found = _DESCRIBE.fullmatch(query)
    if found is None:
        return None
    name = found[1].replace('"', "").lower()
    names = [name] if "." in name else layered([name])
    if not names or names[0].partition(".")[0] not in LAYERS:
        return None
    spec = spec_named(lake, names[0])
    rows = [
        {
            "column_name": one.name,
            "column_type": str(one.type),
            "null": "YES" if one.nullable else "NO",
            "key": "KEY" if one.name in spec.key else "",
            "meaning": one.meaning,
        }
        for one in columns_shown(spec)
    ]
    return pa.Table.from_pylist(rows)


def _asked_of(query: str) -> list[str]:
    """The tables in it, with and without their layers."""
    with duckdb.connect(":memory:", config=CONFIG) as parser:
        named = parser.get_table_names(query, qualified=True)
    bare = sorted(name.partition(" AS ")[0].strip('"') for name in named)
    return list(dict.fromkeys((*mentioned(query), *layered(n for n in bare if "." not in n))))


def require_one_question(query: str) -> None:
    """Raises `WrongQuery` for anything but one statement that reads, and for what cannot be
    parsed.
    """
    with _errors_in_words(), duckdb.connect(":memory:", config=CONFIG) as parser:
        statements = parser.extract_statements(query)
    reads = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)
    if len(statements) != 1:
        raise WrongQuery(f"one statement is answered at a time, here are {len(statements)}")
    if statements[0].type not in reads:
        raise WrongQuery(
            "only SELECT, DESCRIBE, SUMMARIZE and EXPLAIN are answered, this is "
            f"{statements[0].type.name}: the tables are history"
        )


@contextmanager
def _database(opened: Opened) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config=CONFIG) as database:
        for layer in LAYERS:
            database.execute(f"CREATE SCHEMA {layer}")
        for name, rows in opened.tables.items():
            layer, _, noun = name.partition(".")
            database.register(f"rows_of_{layer}_{noun}", rows)
            columns = ", ".join(("*", *in_duckdb(opened.specs[name])))
            database.execute(
                f'CREATE VIEW {layer}."{noun}" AS SELECT {columns} FROM "rows_of_{layer}_{noun}"'
            )
        for setting in LOCKED:
            database.execute(setting)
        yield database


def _taken(reader: pa.RecordBatchReader, rows_max: int | None) -> tuple[pa.Table, bool]:
    """At most `rows_max` rows, and whether there are more; what lies beyond is not computed."""
    batches, count = [], 0
    for batch in reader:
        batches.append(batch)
        count += batch.num_rows
        if rows_max is not None and count > rows_max:
            break
    found = pa.Table.from_batches(batches, schema=reader.schema)
    return (found, False) if rows_max is None else (found.slice(0, rows_max), count > rows_max)


@contextmanager
def _errors_in_words(lake: Lake | None = None, query: str = "") -> Iterator[None]:
    try:
        yield
    except duckdb.InvalidInputException as error:
        found = _BROKEN_STREAM.search(str(error))
        if found is None:
            raise WrongQuery(_first_words(error)) from error
        table, why = f"{found[1]}/{found[2]}", LakehouseError(found[3])
        if lake is None:
            raise LakehouseError(f"table {table} cannot be read: {why}") from error
        raise cannot_be_read(lake, spec_named(lake, table.replace("/", ".")), why) from error
    except (
        duckdb.ParserException,
        duckdb.ProgrammingError,
        duckdb.DataError,
        duckdb.NotSupportedError,
    ) as error:
        raise WrongQuery(_first_words(error)) from error
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise _blamed(lake, query, error) from error


def _blamed(lake: Lake | None, query: str, error: Exception) -> LakehouseError:
    """A stream may break where the database does not say whose it is: then one of the tables that
    the query names is to blame.
    """
    for name in () if lake is None else mentioned(query):
        assert lake is not None
        told = cannot_be_read(lake, spec_named(lake, name), LakehouseError(""))
        if not str(told).endswith(": "):
            return told
    return LakehouseError(f"the tables cannot be read: {_first_words(error)}")


def _first_words(error: Exception) -> str:
    """What the database says, without the drawing below it."""
    return " ".join(str(error).partition("\n\nLINE")[0].split())
