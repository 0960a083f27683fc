"""`regent explain | history | state`: questions to the Delta tables of a cluster, running
or not.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
from pathlib import Path
from typing import Any

from infra.cli.lake.arguments import add_lake_arguments, lake_of
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of the three questions."""
    add_lake_arguments(parser)
    if verb in ("explain", "history"):
        parser.add_argument(
            "broker_set",
            metavar="SET",
            help=("name of the broker set, e.g. broker-a"),
            nargs="?" if verb == "history" else None,
        )
    if verb == "history":
        parser.add_argument(
            "--export",
            metavar="FILE",
            type=Path,
            help="write all of history with its digests into a file (.gz packs it), which 'regent "
            "verify --file' proves anywhere",
        )
    if verb == "explain":
        parser.add_argument(
            "epoch",
            metavar="EPOCH",
            nargs="?",
            type=int,
            help=("only the election that began this epoch"),
        )
    if verb == "state":
        parser.add_argument(
            "--at",
            metavar="OFFSET|TIME",
            help=("offset of a command, or ISO time in UTC (default: now)"),
        )


def run(arguments: argparse.Namespace) -> int:
    """Ask; LakehouseErrors become one line."""
    from lakehouse.errors import LakehouseError

    lake = lake_of(arguments)
    try:
        return _ANSWERS[arguments.verb](lake, arguments)
    except LakehouseError as error:
        raise Problem(str(error), "'regent status' shows how far the landing job is.") from error


def _show(model: dict[str, Any], text: str, arguments: argparse.Namespace) -> int:
    print(json.dumps(model, indent=1, default=str) if arguments.json else text)
    return EXIT_DONE


def _explain(lake: Any, arguments: argparse.Namespace) -> int:
    from lakehouse.answers import explain, explain_text

    model = explain.explain(lake, arguments.broker_set, arguments.epoch)
    return _show(model, explain_text.explain_text(model), arguments)


def _history(lake: Any, arguments: argparse.Namespace) -> int:
    from lakehouse.answers import decisions

    if arguments.export is not None:
        return _exported(lake, arguments)
    model = decisions.history(lake, arguments.broker_set)
    return _show(model, decisions.history_text(model), arguments)


def _exported(lake: Any, arguments: argparse.Namespace) -> int:
    from infra import waiting
    from lakehouse.proof.history_file import write_history

    if arguments.broker_set is not None:
        raise Problem(
            "history: a history is exported whole, its digests cover all sets",
            f"Leave {arguments.broker_set} out.",
            EXIT_USAGE,
        )
    with waiting.told("history is written"):
        written = write_history(lake, arguments.export)
    return _show(dataclasses.asdict(written), written.text(), arguments)


def _state(lake: Any, arguments: argparse.Namespace) -> int:
    from lakehouse.answers import state_at

    model = state_at.state_at(lake, **moment_of(arguments.at))
    return _show(model, state_at.state_text(model), arguments)


def moment_of(text: str | None, flag: str = "--at") -> dict[str, int]:
    """What a flag says as an offset or as ms since 1970; Problem when it is neither. A time without
    zone is UTC.
    """
    if text is None:
        return {}
    if text.isascii() and text.isdigit():
        return {"offset": int(text)}
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise Problem(
            f"{flag} {text!r} is neither an offset nor a time",
            "Write for example 42 or 2026-11-21T10:00:00Z.",
            EXIT_USAGE,
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return {"at_ms": int(moment.timestamp() * 1000)}


_ANSWERS = {"explain": _explain, "history": _history, "state": _state}
