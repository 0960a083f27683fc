"""The tables as sources of dbt: names, meanings and columns, made from the specifications.

Refuses to know where the tables lie: a profile attaches them (`lakehouse/examples/dbt`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from lakehouse.sql.readable import columns_shown
from lakehouse.tables.specs import TableSpec

HEAD = """\
# Made from the specifications by `regent lake views --as dbt-sources`; a test compares.
version: 2

sources:"""
DATABASE = "lake"
"""By which name a profile attaches the lake."""


def dbt_sources(specs: Mapping[str, TableSpec]) -> str:
    """A YAML document: one source for each layer."""
    layers: dict[str, list[str]] = {}
    for name in specs:
        layers.setdefault(name.partition(".")[0], []).append(name)
    lines = [HEAD]
    for layer, names in layers.items():
        lines += [
            f"  - name: {layer}",
            f"    database: \"{{{{ var('lake_database', '{DATABASE}') }}}}\"",
            f"    schema: {layer}",
            "    tables:",
            *(line for name in names for line in _table(name, specs[name])),
        ]
    return "\n".join(lines) + "\n"


def _table(name: str, spec: TableSpec) -> Iterator[str]:
    yield f"      - name: {name.partition('.')[2]}"
    yield f"        description: {_text(spec.meaning)}"
    yield f"        config: {{meta: {{key: [{', '.join(spec.key)}]}}}}"
    yield "        columns:"
    for column in columns_shown(spec):
        yield f"          - name: {column.name}"
        yield f"            description: {_text(column.meaning)}"


def _text(value: str) -> str:
    """What JSON writes is YAML."""
    return json.dumps(" ".join(value.split()), ensure_ascii=False)
