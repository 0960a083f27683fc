"""`regent controller status|sets|set|ids`: what the controllers hold, for people and for machines.

Everything but `status` is read from the leader, behind all that was decided when it was asked for;
any controller may be asked.
"""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from infra.cli.status import table
from infra.controllers.admin import ControllerAdmin, add_where, admin_of
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Problem
from infra.processes import status

Document = Mapping[str, Any]
OWN_FIELDS = (
    "ready",
    "log_answers",
    "applied_offset",
    "end_offset",
    "published_offset",
    "http_address",
)


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of the verb."""
    if verb == "set":
        parser.add_argument("name", metavar="NAME", help="the broker set")
    if verb == "ids":
        parser.add_argument("name", metavar="NAME", nargs="?", help="one broker set (default: all)")
    if verb == "sets":
        parser.add_argument(
            "--all",
            action="store_true",
            help=("also sets that were cleaned away (their ids and epochs never restart)"),
        )
    add_where(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Print what was asked for."""
    admin = admin_of(arguments)
    if arguments.verb == "status":
        return _status(admin, arguments.json)
    name = getattr(arguments, "name", None)
    document = admin.state(name)
    if name is not None and name not in document["sets"]:
        document = admin.state()  # to name the nearest one
    match arguments.verb:
        case "sets":
            shown = {
                name: one
                for name, one in document["sets"].items()
                if arguments.all or not one["tombstone"]
            }
            _show(
                arguments.json,
                {"applied_offset": document["applied_offset"], "sets": shown},
                sets_lines(shown),
            )
        case "set":
            one = find_set(document, arguments.name)
            _show(arguments.json, {"name": arguments.name, **one}, set_lines(arguments.name, one))
        case "ids":
            sets = (
                {arguments.name: find_set(document, arguments.name)}
                if arguments.name
                else document["sets"]
            )
            found = {name: ids_of(one) for name, one in sets.items()}
            _show(arguments.json, {"sets": found}, ids_lines(found))
    return EXIT_DONE


def _show(as_json: bool, document: Document, lines: Sequence[str]) -> None:
    print(json.dumps(document, indent=1) if as_json else "\n".join(lines))


def find_set(document: Document, name: str) -> dict[str, Any]:
    """One set of the document; Problem with the nearest name when it is not there."""
    found: dict[str, Any] | None = document["sets"].get(name)
    if found is None:
        near = difflib.get_close_matches(name, document["sets"], n=1)
        hint = f"Did you mean {near[0]}?" if near else "'regent controller sets --all' lists them."
        raise Problem(f"no broker set {name!r} is known", hint, EXIT_USAGE)
    return found


def yes(value: object) -> str:
    return "yes" if value else "no"


def seconds(ms: int | None) -> str:
    """A length of time for people; -1 and None mean: not known."""
    return "never" if ms is None or ms < 0 else f"{ms / 1000:.1f} s"


def moment(wall_ms: int) -> str:
    """A time of a controller's clock for people."""
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# -- status ----------------------------------------------------------------------------------------


def _status(admin: ControllerAdmin, as_json: bool) -> int:
    view = status_view(admin)
    _show(as_json, view, status_lines(view))
    return EXIT_FAILED if view["problems"] else EXIT_DONE


def status_view(admin: ControllerAdmin) -> dict[str, Any]:
    """The leader's document joined with what each controller says of itself; without a leader only
    the latter.
    """
    try:
        document: dict[str, Any] | None = admin.state(sets=False)
        problems = []
    except Problem as problem:
        document, problems = None, [problem.line()]
    known = (
        list(document["controllers"])
        if document
        else [{"address": address} for address in admin.addresses]
    )
    answers = status.ask_all([one["address"] for one in known], sets=False)
    controllers = [_controller(one, answers[one["address"]]) for one in known]
    problems += [
        text
        for one in controllers
        if (text := _trouble(one)) and (document or any(answers.values()))
    ]
    names = (
        "cluster_id",
        "term",
        "leader",
        "leader_address",
        "rules_version",
        "supported_rules",
        "applied_offset",
        "digest",
    )
    best: Document = document or max(
        (one for one in answers.values() if one), key=lambda one: one.get("term", 0), default={}
    )
    return {
        **{name: best.get(name) for name in names},
        "controllers": controllers,
        "problems": problems,
    }


def _trouble(one: Document) -> str | None:
    """What is wrong with a controller; one that knows no leader can do nothing for brokers."""
    if not one["answers"]:
        return f"{one['id']} at {one['address']} does not answer"
    if one.get("log_answers") is False:
        return f"{one['id']} at {one['address']} {status.NO_LOG}"
    if one["ready"] is False:
        return f"{one['id']} at {one['address']} is not ready: it is starting, or hears no leader"
    return None


def _controller(known: Document, answer: Document | None) -> dict[str, Any]:
    own: Document = answer or {}
    one = {
        "id": known.get("id") or own.get("name") or "?",
        "address": known["address"],
        "role": own.get("role") or known.get("role") or "?",
        "answers": answer is not None,
        "alive": known.get("alive", answer is not None),
        "release": known.get("release") or own.get("release"),
        "rules": known.get("rules") or own.get("supported_rules"),
    }
    return {**one, **{name: own.get(name) for name in OWN_FIELDS}}


def rules_text(rules: object) -> str:
    """Supported rules as `1,2`, from a list or a text."""
    return ",".join(map(str, rules)) if isinstance(rules, (list, tuple)) else str(rules or "?")


def status_lines(view: Document) -> list[str]:
    """The document of `status` as text."""
    leader = f"{view['leader']} at {view['leader_address']}" if view["leader"] else "nobody"
    lines = (
        [
            (
                f"cluster {view['cluster_id']}, term {view['term']}: {leader} leads; rules "
                f"{view['rules_version'] or '?'}, applied offset {view['applied_offset']}"
            )
        ]
        if view["cluster_id"]
        else ["no controller of a cluster answers"]
    )
    rows: list[tuple[str, ...]] = [
        (
            "  ID",
            "ADDRESS",
            "ROLE",
            "ANSWERS",
            "RELEASE",
            "RULES",
            "APPLIED",
            "BEHIND",
            "PUBLISHED",
            "HTTP",
        )
    ]
    for one in view["controllers"]:
        applied, end = one["applied_offset"], one["end_offset"]
        behind = "?" if applied is None or end is None else str(max(0, end - 1 - applied))
        rows.append(
            (
                f"  {one['id']}",
                one["address"],
                one["role"],
                yes(one["answers"]),
                one["release"] or "?",
                rules_text(one["rules"]),
                _or_dash(applied),
                behind,
                _or_dash(one["published_offset"]),
                one["http_address"] or "-",
            )
        )
    return [*lines, *table(rows), *(f"problem: {text}" for text in view["problems"])]


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


# -- sets ------------------------------------------------------------------------------------------


def notes_of(one: Document) -> list[str]:
    """What an operator should know of a set, in a few words each."""
    if one["tombstone"]:
        return ["cleaned away"]
    notes = []
    if one["master"] is None:
        notes.append("NO MASTER")
    elif not any(
        replica["id"] == one["master"] and replica["alive"] for replica in one["replicas"]
    ):
        notes.append("MASTER NOT ALIVE")
    if needed := one.get("operator_needed"):
        notes.append(f"OPERATOR NEEDED: {needed['reason']}. Way out: {needed['way_out']}")
    if one.get("at_risk"):
        notes.append("AT RISK: elected without all that was acknowledged")
    if one.get("master_restarted"):
        notes.append("master restarted, election due")
    if one.get("unclean_members"):
        notes.append(f"unclean members {ids_text(one['unclean_members'])}")
    if one.get("remembered"):
        notes.append(f"may be elected too, holding everything: {ids_text(one['remembered'])}")
    if one.get("uncertain"):
        notes.append(
            "the log lost decisions about it, all have to report what they hold: "
            f"{ids_text(one['uncertain'])}"
        )
    if any(not replica["registered"] for replica in one["replicas"]):
        notes.append("unclaimed ids")
    repeats = sum(entry["count"] for entry in one.get("repeated_refusals", ()))
    if repeats:
        notes.append(f"{repeats} repeated refusals")
    return notes


def ids_text(ids: Sequence[int]) -> str:
    return ",".join(map(str, ids)) or "-"


def sets_lines(sets: Mapping[str, Document]) -> list[str]:
    """All sets, one line each."""
    if not sets:
        return ["no broker sets yet: they appear when the first broker of a set asks for an id"]
    rows = [
        (
            "SET",
            "CLUSTER",
            "MASTER",
            "EPOCH",
            "IN SYNC",
            "SET EPOCH",
            "REPLICAS",
            "ALIVE",
            "NEXT ID",
            "NOTES",
        )
    ]
    for name, one in sets.items():
        alive = sum(1 for replica in one["replicas"] if replica["alive"])
        rows.append(
            (
                name,
                one["cluster"],
                _or_dash(one["master"]),
                str(one["master_epoch"]),
                ids_text(one["sync_state_set"]),
                str(one["sync_state_set_epoch"]),
                str(len(one["replicas"])),
                str(alive),
                str(one["next_broker_id"]),
                "; ".join(notes_of(one)) or "-",
            )
        )
    return table(rows)


def set_lines(name: str, one: Document) -> list[str]:
    """One set with every replica and every refusal that was asked for again and again."""
    master = "no master" if one["master"] is None else f"master {one['master']}"
    lines = [
        (
            f"set {name} of cluster {one['cluster']}: {master}, epoch {one['master_epoch']} "
            f"(highest ever seen {one['highest_epoch_seen']})"
        ),
        (
            f"in sync {ids_text(one['sync_state_set'])}, set epoch {one['sync_state_set_epoch']}, "
            f"next id {one['next_broker_id']}"
        ),
        *(f"note: {note}" for note in notes_of(one)),
        *(["note: imported; nothing was decided about it since"] if one.get("imported") else []),
    ]
    rows: list[tuple[str, ...]] = [
        (
            "  ID",
            "ROLE",
            "ADDRESS",
            "HA ADDRESS",
            "ALIVE",
            "WHY",
            "SILENT",
            "IN SYNC",
            "CLEAN",
            "EPOCH",
            "END",
            "CONFIRMED",
            "PRIORITY",
            "KIND",
        )
    ]
    for replica in one["replicas"]:
        rows.append(_replica_row(one, replica))
    lines += table(rows) if one["replicas"] else ["  no replicas"]
    for entry in one.get("repeated_refusals", ()):
        lines.append(
            f"refused {entry['count']} times and recorded once: {entry['refusal']}, code "
            f"{entry['code']}, last at {moment(entry['last_ms'])}"
        )
    return lines


def _replica_row(one: Document, replica: Document) -> tuple[str, ...]:
    in_sync = replica["id"] in one["sync_state_set"]
    role = (
        "master"
        if replica["id"] == one["master"]
        else "slave"
        if replica["registered"]
        else "unclaimed"
    )
    # RocketMQ's largest number stands for: nobody set a priority
    priority = "-" if replica.get("priority") in (None, 2_147_483_647) else str(replica["priority"])
    return (
        f"  {replica['id']}",
        role,
        replica["address"] or "-",
        replica["ha_address"] or "-",
        yes(replica["alive"]),
        replica["reason"] or "-",
        seconds(replica["silent_ms"]),
        yes(in_sync),
        yes(replica["clean"]),
        str(replica["epoch"]),
        str(replica["max_offset"]),
        str(replica["confirm_offset"]),
        priority,
        "regent" if replica["is_regent"] else "java",
    )


# -- ids -------------------------------------------------------------------------------------------


def ids_of(one: Document) -> dict[str, Any]:
    """Which ids of a set are given out, which of them nobody ever registered with, and the next
    one.
    """
    return {
        "cluster": one["cluster"],
        "next_broker_id": one["next_broker_id"],
        "tombstone": one["tombstone"],
        "assigned": [
            {"id": r["id"], "address": r["address"], "alive": r["alive"]}
            for r in one["replicas"]
            if r["registered"]
        ],
        "unclaimed": [
            {"id": r["id"], "address": r["address"]} for r in one["replicas"] if not r["registered"]
        ],
    }


def ids_lines(sets: Mapping[str, Document]) -> list[str]:
    """The ids of each set; how to clean those that nobody claimed."""
    lines = []
    for name, one in sets.items():
        lines.append(
            f"set {name}: next id "
            f"{one['next_broker_id']}{', cleaned away' if one['tombstone'] else ''}"
        )
        rows = [
            (f"  {r['id']}", "assigned", r["address"], "alive" if r["alive"] else "not alive")
            for r in one["assigned"]
        ]
        rows += [
            (f"  {r['id']}", "unclaimed", r["address"], "assigned, never registered")
            for r in one["unclaimed"]
        ]
        lines += table(rows) if rows else []
        if one["unclaimed"]:
            lines.append(
                "  A broker that lost its answer asked for another id. If none of these is just "
                f"starting: 'regent controller clean {name} --unclaimed'"
            )
    return lines or ["no broker sets yet"]
