"""`regent verify`: whether what landed is what controllers decided, and is still what it was."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from infra.cli.lake.arguments import WAY_OUT_WHEN_BEHIND, add_lake_arguments, lake_of
from infra.cli.lake.decisions import moment_of
from infra.cli.process import table_of
from infra.cluster.data_folder import DataFolder
from infra.problems import EXIT_USAGE, Problem

if TYPE_CHECKING:
    from lakehouse.proof.anchors import Anchor
    from lakehouse.proof.verdict import Verdict
    from lakehouse.proof.verify import Scope
    from lakehouse.tables.lake import Lake


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """How much is proven, by whom, and what else is held against it."""
    add_lake_arguments(parser)
    _add_scope(parser)
    _add_witnesses(parser)


def _add_scope(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="first",
        metavar="OFFSET|TIME",
        help="fold from here on, from the kept state below it (default: all of history)",
    )
    parser.add_argument(
        "--to",
        dest="last",
        metavar="OFFSET|TIME",
        help="fold up to and with this command (default: the last landed one)",
    )
    parser.add_argument(
        "--from-start",
        action="store_true",
        help="fold everything again, also what an earlier proof knows byte for byte",
    )
    parser.add_argument(
        "--renew",
        action="store_true",
        help="records that are not what they were when they were proven: take them for proven as "
        "they are now, if they fold as was published; says which",
    )
    parser.add_argument(
        "--spark",
        action="store_true",
        help="fold in Spark, on all cores (without it only a lake on an object store is, from "
        "200,000 unproven commands on)",
    )


def _add_witnesses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--file",
        metavar="FILE",
        type=Path,
        help="prove a history that 'regent history --export' wrote, instead of a lake",
    )
    parser.add_argument(
        "--layers",
        action="store_true",
        help="also make every row of silver and gold again of what landed, and compare",
    )
    parser.add_argument(
        "--schemas",
        metavar="FOLDER",
        type=Path,
        action="append",
        default=[],
        help="with --layers: schemas of other releases, which explain their records; may repeat",
    )
    parser.add_argument(
        "--anchors",
        metavar="FILE|URI",
        nargs="?",
        const="",
        help="also hold the lake against anchors that were told outside of it: a file of lines, or "
        "a Delta table ('regent lake anchor' makes them, so does the landing job; without a place: "
        "those of --dir's landing job)",
    )
    parser.add_argument(
        "--kafka",
        metavar="KEY=VALUE",
        nargs="?",
        const="",
        action="append",
        help="also hold every record against the log: a client setting, e.g. bootstrap.servers="
        "HOST:PORT (without one: the Kafka of --dir's cluster); may repeat",
    )


def run(arguments: argparse.Namespace) -> int:
    """0 when all of it is proven, 1 when something is found."""
    from lakehouse.errors import LakehouseError

    try:
        verdict = _of_file(arguments) if arguments.file is not None else _of_lake(arguments)
    except LakehouseError as error:
        raise Problem(str(error), "" if arguments.file else WAY_OUT_WHEN_BEHIND) from error
    print(json.dumps(verdict.as_dict(), indent=1) if arguments.json else verdict.text())
    return verdict.exit_code


def _of_file(arguments: argparse.Namespace) -> Verdict:
    from infra import waiting
    from lakehouse.landing.anchoring import read_anchors
    from lakehouse.proof.history_file import verify_file

    needs_lake = ("first", "last", "from_start", "renew", "spark", "layers", "kafka")
    if any(getattr(arguments, name) for name in needs_lake) or arguments.anchors == "":
        raise Problem(
            "verify: --file is proven by itself",
            "Beside it --anchors FILE|URI may stand, and --json.",
            EXIT_USAGE,
        )
    anchors: list[Anchor] = []
    wrong: list[str] = []
    if arguments.anchors is not None:
        options = table_of("storage-option", arguments.storage_option or [])
        anchors, wrong = read_anchors(arguments.anchors, options)
    with waiting.told("the history in the file is folded"):
        found = verify_file(arguments.file, anchors)
    return dataclasses.replace(found, problems=[*wrong, *found.problems])


def _of_lake(arguments: argparse.Namespace) -> Verdict:
    from infra import waiting
    from lakehouse.proof import verify

    kafka = _kafka(arguments)
    lake = lake_of(arguments)

    scope = verify.Scope(
        *verified_between(lake, arguments.first, arguments.last),
        arguments.from_start,
        renew=arguments.renew,
    )
    unproven = 0 if arguments.spark else verify.unproven_commands(lake, scope)
    is_far = lake.folder is None
    cores = len(os.sched_getaffinity(0))
    if arguments.spark or (is_far and unproven >= verify.SPARK_FROM_COMMANDS):
        verdict = _in_spark(lake, scope)
    elif not is_far and unproven >= verify.BESIDE_FROM_COMMANDS and cores > 1:
        with waiting.told(f"what was not proven yet is folded, in {cores} processes"):
            verdict = verify.verify_beside(lake, scope, cores)
    else:
        with waiting.told("what was not proven yet is folded"):
            verdict = verify.verify_here(lake, scope)
    return _beside(verdict, lake, kafka, arguments)


def _beside(
    verdict: Verdict, lake: Lake, kafka: dict[str, str], arguments: argparse.Namespace
) -> Verdict:
    """With what else is held against the lake."""
    from infra import waiting
    from lakehouse.layers import whole

    verdict = whole.with_statistics(verdict, lake)
    if arguments.layers:
        with waiting.told("silver and gold are made again and compared"):
            verdict = whole.with_tables(verdict, lake, arguments.schemas)
    if arguments.anchors is not None:
        place = arguments.anchors or str(DataFolder(arguments.dir.absolute()).anchors)
        options = table_of("storage-option", arguments.storage_option or [])
        with waiting.told("the lake is held against the anchors"):
            verdict = whole.with_anchors(verdict, lake, place, options)
    if kafka:
        with waiting.told("the log is read from its beginning"):
            verdict = whole.with_kafka(verdict, lake, kafka)
    return verdict


def _kafka(arguments: argparse.Namespace) -> dict[str, str]:
    """The settings of the Kafka to ask; none when none is asked for. Problem when it is not
    known.
    """
    if arguments.kafka is None:
        return {}
    settings = table_of("kafka", [one for one in arguments.kafka if one])
    if not settings:
        found = DataFolder(arguments.dir.absolute()).cluster() or {}
        settings = dict(found.get("kafka", {}))
    if not settings.get("bootstrap.servers"):
        raise Problem(
            "verify: it is not said which Kafka",
            "Give --kafka bootstrap.servers=HOST:PORT, or the --dir of a cluster.",
            EXIT_USAGE,
        )
    return settings


def _in_spark(lake: Lake, scope: Scope) -> Verdict:
    from infra import waiting
    from infra.cli.lake.spark import settings_in
    from lakehouse.proof import verify

    with tempfile.TemporaryDirectory(prefix="regent-verify-") as scratch:
        settings = settings_in(
            Path(scratch), cores=os.cpu_count() or 1, object_store=lake.folder is None
        )
        with waiting.told(
            "Spark starts and folds what was not proven yet, some tens of seconds and more with "
            "a long history"
        ):
            return verify.verify(lake, settings, scope)


def verified_between(
    lake: Lake, first: str | None, last: str | None
) -> tuple[int | None, int | None]:
    """--from and --to as offsets; a time means the first command from then on, or the last one
    until then.
    """
    from lakehouse.answers.state_at import last_offset_at
    from lakehouse.errors import NotLanded

    begin, end = moment_of(first, "--from"), moment_of(last, "--to")
    if "at_ms" in begin:
        try:
            begin = {"offset": last_offset_at(lake, begin["at_ms"] - 1) + 1}
        except NotLanded:  # Before the first command.
            begin = {"offset": 0}
    if "at_ms" in end:
        end = {"offset": last_offset_at(lake, end["at_ms"])}
    if "offset" in begin and "offset" in end and begin["offset"] > end["offset"]:
        raise Problem(
            f"--from {first} lies behind --to {last}",
            "Name an earlier --from or a later --to.",
            EXIT_USAGE,
        )
    return begin.get("offset"), end.get("offset")
