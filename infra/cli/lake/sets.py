"""`regent diff | failovers | availability | timeline`: what became of the broker sets, asked of the
Delta tables without Spark.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.cli.lake.arguments import WAY_OUT_WHEN_BEHIND, add_lake_arguments, lake_of
from infra.cli.lake.decisions import moment_of
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem

SVG, PNG = ".svg", ".png"
SCHEMES = ("light", "dark")


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Which set, which moments, where to."""
    add_lake_arguments(parser)
    if verb != "diff":
        parser.add_argument(
            "broker_set",
            metavar="SET",
            help=("name of the broker set, e.g. broker-a"),
            nargs=None if verb == "timeline" else "?",
        )
    if verb in ("diff", "timeline"):
        whole = verb == "timeline"
        parser.add_argument(
            "--from",
            dest="first",
            metavar="OFFSET|TIME" if verb == "diff" else "TIME",
            required=not whole,
            help=("ISO time in UTC (default: the beginning)")
            if whole
            else "offset of a command, or ISO time in UTC",
        )
        parser.add_argument(
            "--to",
            dest="last",
            metavar="OFFSET|TIME" if verb == "diff" else "TIME",
            help=(
                "the same for the end (default: "
                f"{'up to where history reaches' if whole else 'the last landed command'})"
            ),
        )
    if verb == "timeline":
        parser.add_argument(
            "--out",
            metavar=f"FILE{SVG}|{PNG}",
            type=Path,
            help=(
                f"draw it there instead of telling it in lines: {SVG} for a browser, {PNG} for "
                "mail and chat"
            ),
        )
        parser.add_argument(
            "--scheme",
            choices=SCHEMES,
            help=f"colours (default: {SVG} follows its reader, {PNG} is light)",
        )


def run(arguments: argparse.Namespace) -> int:
    """Ask; LakehouseErrors become one line."""
    from lakehouse.answers.two_moments import Reversed
    from lakehouse.errors import LakehouseError

    ask = _ANSWERS[arguments.verb]
    moments = {
        name: moment_of(getattr(arguments, name, None), f"--{flag}")
        for name, flag in (("first", "from"), ("last", "to"))
    }
    if arguments.verb == "timeline":
        _require_times(moments)
        _require_picture(arguments.out, arguments.scheme)
    lake = lake_of(arguments)
    try:
        model, text = ask(lake, arguments, moments)
    except Reversed as error:
        raise Problem(str(error), "Change --from and --to over.", EXIT_USAGE) from error
    except LakehouseError as error:
        raise Problem(str(error), WAY_OUT_WHEN_BEHIND) from error
    print(json.dumps(model, indent=1, default=str) if arguments.json else text)
    return EXIT_DONE


_Answer = tuple[dict[str, Any], str]
_Moments = Mapping[str, dict[str, int]]


def _diff(lake: Any, arguments: argparse.Namespace, moments: _Moments) -> _Answer:
    from lakehouse.answers import diff, two_moments

    model = two_moments.diff_between(
        lake, *(two_moments.Moment(**moments[name]) for name in ("first", "last"))
    )
    return model, diff.diff_text(model)


def _failovers(lake: Any, arguments: argparse.Namespace, moments: _Moments) -> _Answer:
    from lakehouse.answers import failovers as failover_answer
    from lakehouse.gold.specs import FAILOVERS, MAJORITY_TERMS

    found = _gold(lake, [FAILOVERS, MAJORITY_TERMS], arguments.broker_set)
    rows, terms = map(found.rows, (FAILOVERS, MAJORITY_TERMS))
    model = failover_answer.failovers_model(rows, arguments.broker_set, terms)
    return {
        **model,
        "as_of": found.as_dict(),
    }, f"{failover_answer.failovers_text(model)}\n{found.text()}"


def _availability(lake: Any, arguments: argparse.Namespace, moments: _Moments) -> _Answer:
    from lakehouse.answers import availability
    from lakehouse.gold.specs import AVAILABILITY

    found = _gold(lake, [AVAILABILITY], arguments.broker_set)
    model = availability.availability_model(found.rows(AVAILABILITY), arguments.broker_set)
    return {
        **model,
        "as_of": found.as_dict(),
    }, f"{availability.availability_text(model)}\n{found.text()}"


def _timeline(lake: Any, arguments: argparse.Namespace, moments: _Moments) -> _Answer:
    from lakehouse.answers import timeline
    from lakehouse.answers.acting.changeovers import changeover_models
    from lakehouse.answers.acting.sets import acting_set_of, told_of
    from lakehouse.answers.majority.groups import known_group, told_of_group
    from lakehouse.gold.specs import (
        ACTING_PERIODS,
        BROKER_SET_HISTORY,
        ELECTIONS,
        FAILOVERS,
        MAJORITY_TERMS,
        SYNC_STATE_SET_INTERVALS,
    )

    tables = (
        BROKER_SET_HISTORY,
        SYNC_STATE_SET_INTERVALS,
        ELECTIONS,
        FAILOVERS,
        ACTING_PERIODS,
        MAJORITY_TERMS,
    )
    found = _gold(lake, tables, arguments.broker_set)
    history, sets, elections, failovers, periods, terms = map(found.rows, tables)
    events = told_of(lake, arguments.broker_set)
    over_time = acting_set_of(lake, events, periods, found.at_ms)
    acting = timeline.Acting(periods, over_time, changeover_models(events))
    group = known_group(told_of_group(lake, arguments.broker_set))
    reach = (one.until_ms for one in (over_time, group) if one is not None)
    until_ms = max(found.at_ms, *reach, 0)
    whole = timeline.timeline_model(
        arguments.broker_set, history, sets, elections, failovers, until_ms, acting, terms
    )
    model = timeline.window(whole, moments["first"].get("at_ms"), moments["last"].get("at_ms"))
    told = {**model, "as_of": found.as_dict()}
    if arguments.out is None:
        return told, f"{timeline.timeline_text(model)}\n{found.text()}"
    arguments.out.write_bytes(_drawn(model, arguments.out.suffix.lower(), arguments.scheme))
    return {**told, "out": str(arguments.out)}, (
        f"{arguments.out}: {arguments.broker_set}, {found.text()}"
    )


def _drawn(model: Mapping[str, Any], kind: str, scheme: str | None) -> bytes:
    from lakehouse.answers import picture_png, picture_shapes, timeline_svg

    if kind == PNG:
        return picture_png.png_of(timeline_svg.timeline_svg(model, scheme or picture_shapes.LIGHT))
    return timeline_svg.timeline_svg(model, scheme or picture_shapes.EITHER).encode()


def _gold(lake: Any, tables: Any, broker_set: str | None) -> Any:
    """The rows, of a set that is known."""
    from infra import waiting
    from lakehouse.answers.decisions import require_set
    from lakehouse.gold.now import gold_now

    if broker_set is not None:
        require_set(lake, broker_set)
    with waiting.told("what the gold tables do not hold yet is folded"):
        return gold_now(lake, tables, broker_set)


def _require_times(moments: _Moments) -> None:
    for name, flag in (("first", "--from"), ("last", "--to")):
        if "offset" in moments[name]:
            raise Problem(
                f"{flag} {moments[name]['offset']} is an offset, a timeline goes by time",
                "Write for example 2026-11-21T10:00:00Z; 'regent history SET' tells the "
                "time of each offset.",
                EXIT_USAGE,
            )
    if moments["first"].get("at_ms", 0) > moments["last"].get("at_ms", 1 << 62):
        raise Problem("--from lies behind --to", "Change them over.", EXIT_USAGE)


def _require_picture(out: Path | None, scheme: str | None) -> None:
    if out is None:
        if scheme is not None:
            raise Problem(
                f"--scheme {scheme} is of a picture, and none is asked for",
                f"Name a file: --out SET{SVG}.",
                EXIT_USAGE,
            )
        return
    if out.suffix.lower() not in (SVG, PNG):
        raise Problem(
            f"--out {out}: only SVG and PNG are drawn",
            f"Name a file that ends in {SVG}, which any browser shows and prints, or in {PNG}.",
            EXIT_USAGE,
        )
    if not out.parent.is_dir():
        raise Problem(
            f"--out {out}: there is no folder {out.parent}",
            "Make it, or name another place.",
            EXIT_USAGE,
        )


_ANSWERS = {
    "diff": _diff,
    "failovers": _failovers,
    "availability": _availability,
    "timeline": _timeline,
}
