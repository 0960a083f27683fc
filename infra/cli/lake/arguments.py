"""Which lake a question is about: the flags that every verb on tables has, and what they name.

Refuses to know what is asked.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from infra.cli.process import table_of
from infra.cluster.data_folder import DataFolder
from infra.cluster.flags import add_dir
from infra.problems import EXIT_USAGE, Problem

if TYPE_CHECKING:
    from lakehouse.tables.lake import Lake


def add_lake_arguments(parser: argparse.ArgumentParser) -> None:
    """--dir, --tables, --cluster, --storage-option, --json."""
    add_dir(parser)
    parser.add_argument(
        "--tables",
        metavar="FOLDER|URI",
        help=("tables outside a data folder, or in an object store (then --dir is not read)"),
    )
    parser.add_argument(
        "--cluster", metavar="ID", help=("whose history, where several clusters land in one place")
    )
    parser.add_argument(
        "--storage-option",
        metavar="KEY=VALUE",
        action="append",
        help=(
            "for an object store, as deltalake spells it; without it the "
            "environment (AWS_..., AZURE_..., GOOGLE_...) says; may repeat"
        ),
    )
    parser.add_argument("--json", action="store_true", help="one JSON document")


def place_of(arguments: argparse.Namespace) -> Lake:
    """The same place, for work on the tables of all clusters. Problem when it is a folder that is
    not there.
    """
    from lakehouse.tables.lake import lake_at

    folder = DataFolder(arguments.dir.absolute())
    if arguments.tables is None:
        folder.require()
    place = lake_at(
        arguments.tables or folder.tables,
        None,
        table_of("storage-option", arguments.storage_option or []),
    )
    if place.folder is not None and not place.folder.exists():
        raise Problem(f"no tables in {place.root}", WAY_OUT_WITHOUT_TABLES)
    return place


def lake_of(arguments: argparse.Namespace) -> Lake:
    """The lake that the flags name. Problem with the way out when there is none, or several
    clusters and none named.
    """
    from lakehouse.errors import LakehouseError, NotLanded
    from lakehouse.tables.lake import open_lake

    place = place_of(arguments)
    try:
        return open_lake(place.root, arguments.cluster, place.storage_options)
    except NotLanded as error:
        raise Problem(str(error), WAY_OUT_WITHOUT_TABLES) from error
    except LakehouseError as error:
        raise Problem(str(error), "") from error


WAY_OUT_WITHOUT_TABLES = (
    "Start the landing job ('regent up --land', or 'regent land'), or name another --dir or "
    "--tables."
)
WAY_OUT_WHEN_BEHIND = (
    "'regent status' shows how far the landing job is, 'regent lake check' what is missing."
)


def check_seconds(flag: str, value: float | None) -> None:
    """Problem unless it was left out or is above 0."""
    if value is not None and value <= 0:
        raise Problem(f"{flag} {value:g} is not above 0", "Name seconds.", EXIT_USAGE)
