"""`regent controller config`: settings that rules read (recorded, the same for all controllers),
and log levels (local).

What one controller was started with is shown by `list --each`; that also reads Java controllers.
"""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from infra.cli.process import LOG_LEVELS
from infra.cli.status import table
from infra.controllers.admin import ControllerAdmin, add_where, admin_of
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Problem
from processors.settings import recorded

LEVELS = (*LOG_LEVELS, "CRITICAL")


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of the verb."""
    parser.add_argument(
        "action", choices=("list", "get", "set"), nargs="?", default="list", help="default: list"
    )
    parser.add_argument(
        "words",
        metavar="KEY[=VALUE]",
        nargs="*",
        help=("get KEY; set KEY=VALUE, or several: one recorded command"),
    )
    parser.add_argument(
        "--each",
        action="store_true",
        help=("list, get: what every controller was started with, by RocketMQ's names"),
    )
    parser.add_argument(
        "--log-level",
        metavar="LEVEL",
        choices=LEVELS,
        type=str.upper,
        help=(
            "log from now on at this level, on every controller that is named "
            "(default: all of the cluster in --dir), until it ends"
        ),
    )
    parser.add_argument(
        "--logger",
        metavar="NAME",
        help=("with --log-level: only this logger, for example regent.controller"),
    )
    add_where(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """List, show or change."""
    admin, words = admin_of(arguments), arguments.words
    if arguments.log_level:
        if words:
            raise Problem(
                "config: --log-level goes alone", "Change settings with another call.", EXIT_USAGE
            )
        result, lines = log_level(admin, arguments.log_level, arguments.logger)
    elif arguments.action == "set":
        result, lines = change(admin, pairs_of(words))
    else:
        if (arguments.action == "get") != bool(words):
            raise Problem(
                "config: get needs a KEY, list takes none",
                "For example 'config get enableElectUncleanMaster'.",
                EXIT_USAGE,
            )
        result, lines = each(admin, words) if arguments.each else settings(admin, words)
    print(json.dumps(result, indent=1) if arguments.json else "\n".join(lines))
    return EXIT_FAILED if result.get("problems") else EXIT_DONE


Result = tuple[dict[str, Any], list[str]]


def pairs_of(words: list[str]) -> dict[str, str]:
    """`KEY=VALUE ...` or `KEY VALUE`."""
    if len(words) == 2 and "=" not in words[0]:
        words = ["=".join(words)]
    pairs: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key.strip():
            raise Problem(
                f"config set: {word!r} is not KEY=VALUE",
                "For example 'config set enableElectUncleanMaster=false'.",
                EXIT_USAGE,
            )
        pairs[recorded.canonical_name(key.strip())] = recorded.canonical_value(value)
    if not pairs:
        raise Problem(
            "config set: nothing is named",
            "For example 'config set enableElectUncleanMaster=false'.",
            EXIT_USAGE,
        )
    return pairs


def require_known(names: list[str], known: Mapping[str, Any]) -> None:
    """Problem with the nearest name for one that is not there."""
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = (
                (f"Did you mean {near[0]}?")
                if near
                else f"Settings are {', '.join(sorted(known))}."
            )
            raise Problem(
                f"no setting {name!r}",
                f"{hint} What a controller is started with stands in its file.",
                EXIT_USAGE,
            )


def settings(admin: ControllerAdmin, names: list[str]) -> Result:
    """The settings in force, and which of them were ever set."""
    found = admin.state(sets=False)["settings"]
    effective: dict[str, Any] = found["effective"]
    names = [recorded.canonical_name(name) for name in names]
    require_known(names, effective)
    shown = {
        name: {"value": value, "recorded": name in found["all"]}
        for name, value in sorted(effective.items())
        if not names or name in names
    }
    if names:
        return {"settings": shown}, [str(shown[name]["value"]) for name in names]
    rows = [
        ("SETTING", "VALUE", ""),
        *((name, str(one["value"]), _origin(name, one)) for name, one in shown.items()),
    ]
    return {"settings": shown}, table(rows)


def _origin(name: str, one: Mapping[str, Any]) -> str:
    without = recorded.WITHOUT_EFFECT.get(name)
    return ("set by command" if one["recorded"] else "default") + (
        f"; {without}" if without else ""
    )


def each(admin: ControllerAdmin, names: list[str]) -> Result:
    """What each controller answers to RocketMQ's own question (1010)."""
    found, failed = of_each(admin, admin.config)
    shown = {
        address: {key: value for key, value in config.items() if not names or key in names}
        for address, config in found.items()
    }
    lines = []
    for address, config in shown.items():
        lines += [
            f"controller {address}",
            *table(
                [(f"  {key}", value) for key, value in sorted(config.items())]
                or [("  nothing of that name",)]
            ),
        ]
    return {"controllers": shown, "problems": failed}, [
        *lines,
        *(f"problem: {text}" for text in failed),
    ]


Answer = TypeVar("Answer")


def of_each(
    admin: ControllerAdmin, ask: Callable[[str], Answer]
) -> tuple[dict[str, Answer], list[str]]:
    """What every controller answers, and why some do not; one that is down does not keep the others
    from it.
    """
    found: dict[str, Answer] = {}
    failed = []
    for address in admin.addresses:
        try:
            found[address] = ask(address)
        except Problem as problem:
            failed.append(problem.line())
    return found, failed


def change(admin: ControllerAdmin, pairs: Mapping[str, str]) -> Result:
    """One recorded command for all of them; either all are valid and set, or none."""
    document = admin.state(sets=False)
    before = document["settings"]["effective"]
    require_known(list(pairs), before)
    wrong = [
        why
        for name, value in pairs.items()
        if (why := recorded.why_invalid(name, value, int(document["rules_version"])))
    ]
    if wrong:
        raise Problem(f"config set: {'; '.join(wrong)}", "Nothing was changed.", EXIT_USAGE)
    admin.change_settings(pairs)
    lines = [f"{name} = {value} (before: {before[name]})" for name, value in pairs.items()]
    lines += [
        (f"{name} has {recorded.WITHOUT_EFFECT[name]}")
        for name in pairs
        if name in recorded.WITHOUT_EFFECT
    ]
    return {
        "changed": {name: {"value": value, "before": before[name]} for name, value in pairs.items()}
    }, lines


def log_level(admin: ControllerAdmin, level: str, logger: str | None) -> Result:
    """The level at every controller that was named or that the cluster has."""
    done, failed = of_each(admin, lambda address: admin.log_level(address, level, logger))
    what = f"logger {logger}" if logger else "all loggers"
    lines = [
        *((f"{address}: {what} at {level}") for address in done),
        *(f"problem: {text}" for text in failed),
    ]
    return {"level": level, "logger": logger, "controllers": list(done), "problems": failed}, lines
