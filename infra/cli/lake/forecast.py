"""`regent forecast`: who would follow the master of a set, how long that would take, and what is at
risk.
"""

from __future__ import annotations

import argparse
import json

from infra.cli.lake.arguments import WAY_OUT_WHEN_BEHIND, add_lake_arguments, lake_of
from infra.problems import EXIT_DONE, Problem


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which set."""
    add_lake_arguments(parser)
    parser.add_argument("broker_set", metavar="SET", help="name of the broker set, e.g. broker-a")


def run(arguments: argparse.Namespace) -> int:
    """Ask; LakehouseErrors become one line."""
    from infra import waiting
    from lakehouse.answers import forecast_answer
    from lakehouse.errors import LakehouseError

    lake = lake_of(arguments)
    try:
        with waiting.told("what gold does not hold yet is folded"):
            model = forecast_answer.forecast_of(lake, arguments.broker_set)
    except LakehouseError as error:
        raise Problem(str(error), WAY_OUT_WHEN_BEHIND) from error
    print(json.dumps(model, indent=1) if arguments.json else forecast_answer.forecast_text(model))
    return EXIT_DONE
