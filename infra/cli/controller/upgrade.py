"""`regent controller upgrade`: the rules of a newer release become those of the whole cluster, in
one recorded moment.

Until then a newer release plays by the rules that are active, so controllers are exchanged one by
one without a word. Afterwards a release without these rules refuses to start: there is no way down
(design D3).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from infra.cli.controller.state import rules_text
from infra.cli.status import table
from infra.controllers.admin import add_where, admin_of, versions
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Problem


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of the verb."""
    parser.add_argument(
        "--to",
        metavar="N",
        type=int,
        help=("the rules version (default: the newest that any controller has)"),
    )
    parser.add_argument(
        "--dry-run", action="store_true", help=("say what would be done, and who stands in the way")
    )
    add_where(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Exit 1 when a controller stands in the way."""
    admin = admin_of(arguments)
    plan = plan_of(admin.state(sets=False), arguments.to)
    if not plan["blockers"] and not plan["active_already"] and not arguments.dry_run:
        admin.activate_rules(plan["to"])
        plan["activated"] = True
    print(json.dumps(plan, indent=1) if arguments.json else "\n".join(lines_of(plan)))
    return EXIT_FAILED if plan["blockers"] else EXIT_DONE


def plan_of(document: Mapping[str, Any], wanted: int | None) -> dict[str, Any]:
    """What an upgrade would do, from the leader's document. Problem when it makes no sense."""
    active = int(document["rules_version"])
    known = [
        *versions(document["supported_rules"]),
        *(one for controller in document["controllers"] for one in versions(controller["rules"])),
    ]
    newest = max(known, default=active)
    to = newest if wanted is None else wanted
    if to < active:
        raise Problem(
            f"rules {active} are active and do not go back to {to}",
            "Earlier decisions stay judged by the rules of their time.",
            EXIT_USAGE,
        )
    controllers = [
        {
            "id": one["id"],
            "address": one["address"],
            "alive": bool(one["alive"]),
            "release": one["release"],
            "rules": list(versions(one["rules"])),
            "blocks": _blocks(one, to) if to > active else None,
        }
        for one in document["controllers"]
    ]
    blockers = [f"{one['id']}: {one['blocks']}" for one in controllers if one["blocks"]]
    return {
        "active": active,
        "to": to,
        "active_already": to == active,
        "controllers": controllers,
        "blockers": blockers,
        "activated": False,
    }


def _blocks(one: Mapping[str, Any], to: int) -> str | None:
    """Why this controller stands in the way; None when it does not."""
    if not one["alive"]:
        return "is not heard; start it, or take it out of every controller's [peers]"
    if to not in versions(one["rules"]):
        return (
            f"release {one['release'] or '?'} has rules {rules_text(list(versions(one['rules'])))} "
            "only; install the newer release there and restart it"
        )
    return None


def lines_of(plan: Mapping[str, Any]) -> list[str]:
    """The plan as text."""
    rows = [("  ID", "ADDRESS", "ALIVE", "RELEASE", "RULES")]
    for one in plan["controllers"]:
        rows.append(
            (
                f"  {one['id']}",
                one["address"],
                "yes" if one["alive"] else "no",
                one["release"] or "?",
                rules_text(one["rules"]),
            )
        )
    lines = [f"rules {plan['active']} are active", *table(rows)]
    if plan["active_already"]:
        return [*lines, "nothing to do: every decision is judged by these rules"]
    if plan["blockers"]:
        return [
            *lines,
            f"rules {plan['to']} cannot be activated yet:",
            *(f"  {text}" for text in plan["blockers"]),
        ]
    done = (
        ("are active from now on")
        if plan["activated"]
        else "could be activated now: the same command without --dry-run does it"
    )
    return [*lines, f"rules {plan['to']} {done}"]
