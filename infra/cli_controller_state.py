"""`regent controller status|sets|set|ids`: what the controllers hold, for people and for machines."""

from __future__ import annotations

import argparse
import json

from infra.controller_admin import add_where, admin_of
from infra.problems import EXIT_DONE


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of the verb."""
    add_where(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Print what was asked for."""
    print(json.dumps(admin_of(arguments).state(), indent=1))
    return EXIT_DONE
