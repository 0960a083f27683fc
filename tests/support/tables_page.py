"""The page of all tables, made from their specifications: `python -m tests.support.tables_page`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lakehouse.gold.aggregate_tables import AGGREGATE_TABLES
from lakehouse.gold.specs import GOLD_TABLES
from lakehouse.tables.specs import LANDING_TABLES, TableSpec

PAGE = Path(__file__).resolve().parents[2] / "lakehouse" / "TABLES.md"
HEAD = """# The tables

Made from the specifications by `python -m tests.support.tables_page`; a test compares. Bronze and silver are only added to; gold may be thrown away and made again. Every key begins with the cluster. Times named `…_ms` are ms since 1970-01-01 UTC. How to ask: [LAKE.md](../LAKE.md).

Between releases a table gets columns, at its end, and silver a table for each new kind of record; a column keeps its name, its type and its meaning. A release whose rules for gold are others makes gold anew from what landed, so its rows may differ and its columns do not go. A table with a column of another type is refused before anything is written.
"""  # noqa: E501  # A paragraph of the page is one line.


def page() -> str:
    """The whole text."""
    return "\n".join([HEAD, *_layer("Bronze and silver", LANDING_TABLES), *_layer("Gold", _gold())])


def _gold() -> tuple[TableSpec, ...]:
    return (*GOLD_TABLES, *AGGREGATE_TABLES)


def _layer(title: str, tables: Sequence[TableSpec]) -> Iterator[str]:
    yield f"## {title}\n"
    for table in sorted(tables, key=lambda table: table.name):
        yield f"### `{table.name}`\n"
        yield f"{table.meaning}\n"
        yield f"Key: {', '.join(f'`{name}`' for name in table.key)}.\n"
        yield "| column | type | meaning |"
        yield "|---|---|---|"
        for column in table.columns:
            field = column.field()
            kind = f"{field.type}{'' if not field.nullable else ', null'}"
            yield f"| `{field.name}` | {_plain(kind)} | {_plain(column.meaning)} |"
        yield ""


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "or").split())


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE}: {len(LANDING_TABLES)} tables of bronze and silver, {len(_gold())} of gold")


if __name__ == "__main__":
    main()
