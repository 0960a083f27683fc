"""`regent lake register`: the tables in an Iceberg catalogue, once or every some seconds."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING

from infra.cli.lake.arguments import add_lake_arguments, check_seconds, place_of
from infra.cli.process import table_of
from infra.cli.stop_signals import told_to_stop
from infra.problems import EXIT_DONE, Problem

if TYPE_CHECKING:
    from lakehouse.catalogue.iceberg import Registered

WAY_OUT = "What has been registered stays; the next run makes it whole."


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which tables, in which catalogue, how often."""
    add_lake_arguments(parser)
    parser.add_argument(
        "--iceberg",
        metavar="URI",
        required=True,
        help=(
            "the catalogue: http://… speaks Iceberg REST; sqlite:///… and postgresql://… keep one "
            "in a database"
        ),
    )
    parser.add_argument(
        "--property",
        metavar="KEY=VALUE",
        action="append",
        help=(
            "for the catalogue, as PyIceberg spells it (warehouse, token, credential, "
            "s3.endpoint, …); may repeat"
        ),
    )
    parser.add_argument(
        "--prefix",
        default="",
        metavar="TEXT",
        help="before the names of the namespaces gold, silver and bronze",
    )
    parser.add_argument(
        "--table",
        metavar="NAME",
        action="append",
        help="only this one, such as gold.failovers (default: all); may repeat",
    )
    parser.add_argument(
        "--every",
        type=float,
        metavar="S",
        help="again and again until told to stop (default: once)",
    )


def run(arguments: argparse.Namespace) -> int:
    """0 when the catalogue shows what the tables hold, or on a stop. Problem with the way out."""
    from lakehouse.catalogue.iceberg import open_catalogue, register
    from lakehouse.errors import LakehouseError
    from lakehouse.sql.named_tables import there

    check_seconds("--every", arguments.every)
    place, properties = place_of(arguments), table_of("property", arguments.property or [])
    try:
        specs = there(place, arguments.table)
        catalogue = open_catalogue(arguments.iceberg, properties)
    except LakehouseError as error:
        raise Problem(str(error), "") from error
    try:
        with told_to_stop() as stop:
            while True:
                done = list(register(place, catalogue, list(specs.values()), arguments.prefix))
                _tell(done, arguments.json)
                if arguments.every is None or stop.wait(arguments.every):
                    return EXIT_DONE
    except LakehouseError as error:
        raise Problem(str(error), WAY_OUT) from error


def _tell(done: list[Registered], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"tables": [dataclasses.asdict(one) for one in done]}), flush=True)
        return
    for one in done:
        if one.added or one.removed:
            print(
                f"{one.name}: {one.files} files as of Delta version {one.delta_version}, "
                f"{one.added} added, {one.removed} taken away"
            )
    print(f"{len(done)} tables registered", flush=True)
