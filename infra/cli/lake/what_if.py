"""`regent what-if`: past incidents judged again, under other timers or another election policy."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from events.config_file import ConfigError, load_config
from infra.cli.lake.arguments import WAY_OUT_WHEN_BEHIND, add_lake_arguments, lake_of
from infra.cli.lake.decisions import moment_of
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem

RECORDED = "recorded"


class TimersFile(BaseModel):
    """What a timers file may hold; what it leaves out stays as it was recorded."""

    model_config = ConfigDict(extra="forbid")

    heartbeat_timeout_ms: int | None = Field(None, ge=100)
    """Silence after which a broker counts as gone, ms (heartbeatTimeoutMills)."""
    probes: bool = True
    """Whether a closed connection is followed by a probe of the broker's port, and a refused one by
    an election.
    """


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which other timers, which other policy, and of which time."""
    add_lake_arguments(parser)
    parser.add_argument(
        "--timers",
        metavar="FILE",
        type=Path,
        help=(
            "TOML with heartbeat_timeout_ms = N (milliseconds) and probes = "
            "true|false; what it leaves out stays as it was"
        ),
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        default=RECORDED,
        help=(
            "recorded (default), longest (priorities do not count), unclean "
            "(outside the set may win), clean (never)"
        ),
    )
    for flag, name in (("--from", "first"), ("--to", "last")):
        parser.add_argument(
            flag,
            dest=name,
            metavar="OFFSET|TIME",
            help=("offset of a command, or ISO time in UTC (default: all of history)"),
        )


def run(arguments: argparse.Namespace) -> int:
    """Ask; LakehouseErrors become one line."""
    from infra import waiting
    from lakehouse.answers import what_if_answer
    from lakehouse.errors import LakehouseError

    timers, policy = _timers(arguments.timers), _policy(arguments)
    moments = {
        flag: moment_of(text, flag)
        for flag, text in (("--from", arguments.first), ("--to", arguments.last))
    }
    lake = lake_of(arguments)
    try:
        from_ms, until_ms = (
            what_if_answer.time_of(lake, **moments[flag]) for flag in ("--from", "--to")
        )
        if from_ms is not None and until_ms is not None and from_ms > until_ms:
            raise Problem("--from lies behind --to", "Change them over.", EXIT_USAGE)
        with waiting.told("history is folded and each incident judged again"):
            model = what_if_answer.what_if(lake, timers, policy, from_ms or 0, until_ms)
    except LakehouseError as error:
        raise Problem(str(error), WAY_OUT_WHEN_BEHIND) from error
    print(json.dumps(model, indent=1) if arguments.json else what_if_answer.what_if_text(model))
    return EXIT_DONE


def _timers(path: Path | None) -> Any:
    from lakehouse.answers.what_if_rules import Timers

    try:
        found = load_config(TimersFile, path)
    except ConfigError as error:
        raise Problem(
            str(error), "It holds for example: heartbeat_timeout_ms = 5000", EXIT_USAGE
        ) from error
    return Timers(found.heartbeat_timeout_ms, found.probes)


def _policy(arguments: argparse.Namespace) -> str:
    from lakehouse.answers.what_if_rules import POLICIES

    if arguments.policy not in POLICIES:
        raise Problem(
            f"--policy {arguments.policy!r} is not known",
            f"One of: {', '.join(POLICIES)}.",
            EXIT_USAGE,
        )
    if arguments.timers is None and arguments.policy == RECORDED:
        raise Problem(
            "what if what?",
            "Name --timers FILE, or --policy longest, unclean or clean.",
            EXIT_USAGE,
        )
    return str(arguments.policy)
