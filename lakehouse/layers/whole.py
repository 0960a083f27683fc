"""A proof of history with what holds beside it: the tables that are made of it, the log, and
anchors.

Responsible for adding findings to a verdict. Refuses to know how they are found.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

from lakehouse.errors import LakehouseError
from lakehouse.landing.kinds import Catalogue
from lakehouse.landing.late_schemas import LateSchemas
from lakehouse.layers.beside_anchors import compare_anchors
from lakehouse.layers.beside_kafka import compare_kafka
from lakehouse.layers.difference import Compared
from lakehouse.layers.gold import compare_gold
from lakehouse.layers.silver import compare_silver
from lakehouse.proof.verdict import Verdict
from lakehouse.sql.named_tables import there
from lakehouse.tables.bronze_files import BronzeFiles
from lakehouse.tables.delta import arrow_schema
from lakehouse.tables.lake import Lake, open_delta
from lakehouse.tables.listed_files import false_statistics
from lakehouse.tables.table_files import UNREADABLE


def with_tables(verdict: Verdict, lake: Lake, schemas_dirs: Sequence[Path] = ()) -> Verdict:
    """The same with every row of silver and gold made again and compared; `schemas_dirs` explain
    records of other releases. Raises `LakehouseError`.
    """
    found = Compared()
    files = BronzeFiles(lake)
    try:
        found.take(compare_silver(lake, files, _catalogue(schemas_dirs)))
    except UNREADABLE:
        files.leave_out_damaged()  # The proof has named them.
        found.take(compare_silver(lake, files, _catalogue(schemas_dirs)))
    found.take(compare_gold(lake))
    return with_found(verdict, found)


def with_statistics(verdict: Verdict, lake: Lake) -> Verdict:
    """The same with what Delta's log says of each file held against the file's footer: readers pass
    files over by it; and with columns that this release does not know, by name. A table that
    cannot be opened is another's finding.
    """
    found = Compared()
    for spec in there(lake).values():
        try:
            opened = open_delta(lake, spec)
        except LakehouseError:
            continue
        found.problems += false_statistics(lake, spec, opened)
        found.notices += [
            f"{spec.name} has the column {name}, which this release does not know: no verb reads "
            "it, and nothing is said of what stands there"
            for name in arrow_schema(opened).names
            if name not in spec.schema.names
        ]
    return with_found(verdict, found)


def with_kafka(verdict: Verdict, lake: Lake, kafka: Mapping[str, str]) -> Verdict:
    """The same with every record of bronze held against the log. Raises `LakehouseError`."""
    files = BronzeFiles(lake)
    try:
        found = compare_kafka(files, kafka)
    except UNREADABLE:
        files.leave_out_damaged()
        found = compare_kafka(files, kafka)
    return with_found(verdict, found)


def with_anchors(
    verdict: Verdict, lake: Lake, place: str, storage_options: Mapping[str, str]
) -> Verdict:
    """The same with the lake held against the anchors at a place. Raises `LakehouseError`."""
    files = BronzeFiles(lake)
    try:
        found = compare_anchors(lake, files, place, storage_options)
    except UNREADABLE:
        files.leave_out_damaged()
        found = compare_anchors(lake, files, place, storage_options)
    return with_found(verdict, found)


def with_found(verdict: Verdict, found: Compared) -> Verdict:
    """The verdict and what was found beside it."""
    more = [f"{found.more} more differences were not listed"] if found.more else []
    return dataclasses.replace(
        verdict,
        findings=[*verdict.findings, *found.findings],
        problems=[*verdict.problems, *found.problems],
        notices=[*verdict.notices, *more, *found.notices],
    )


def _catalogue(schemas_dirs: Sequence[Path]) -> Catalogue:
    return Catalogue(LateSchemas(schemas_dirs).of)
