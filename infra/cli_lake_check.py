"""`regent lake check`: gaps in offsets and broken invariants, from the Delta tables alone."""

from __future__ import annotations

import argparse
import json

from infra.lake_arguments import add_lake_arguments, lake_of
from infra.problems import Problem


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which tables, and how to tell."""
    add_lake_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0 when everything is there and holds, 1 when not."""
    from lakehouse.errors import LakehouseError
    from lakehouse.lake_check import check

    lake = lake_of(arguments)
    try:
        report = check(lake)
    except LakehouseError as error:
        raise Problem(str(error), "'regent status' shows how far the landing job is; 'regent verify' names damaged files.") from error
    print(json.dumps(report.as_dict(), indent=1) if arguments.json else report.text())
    return report.exit_code
