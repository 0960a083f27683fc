"""`regent lake check`: gaps in offsets and broken invariants, from the Delta tables alone."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from infra.cli_up import add_dir
from infra.data_folder import DataFolder
from infra.problems import Problem


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which tables, and how to tell."""
    add_dir(parser)
    parser.add_argument("--tables", type=Path, metavar="FOLDER", help="tables outside a data folder (then --dir is not read)")
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """0 when everything is there and holds, 1 when not."""
    from lakehouse.errors import LakehouseError
    from lakehouse.lake_check import check

    folder = DataFolder(arguments.dir.absolute())
    if arguments.tables is None:
        folder.require()
    tables = arguments.tables or folder.tables
    if not tables.exists():
        raise Problem(f"no tables in {tables}", "Start the landing job ('regent up --land', or 'regent land'), or name another --dir.")
    try:
        report = check(tables)
    except LakehouseError as error:
        raise Problem(str(error), "'regent status' shows how far the landing job is; 'regent verify' names damaged files.") from error
    print(json.dumps(report.as_dict(), indent=1) if arguments.json else report.text())
    return report.exit_code
