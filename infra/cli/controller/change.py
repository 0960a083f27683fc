"""`regent controller elect|transfer|clean`: what operators decide. Each becomes a recorded command,
with its outcome.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from brokers.remoting.codes import ResponseCode
from infra.cli import confirmation
from infra.cli.controller import set_transfer
from infra.cli.controller.state import find_set, ids_text
from infra.controllers.admin import ControllerAdmin, add_where, admin_of
from infra.problems import EXIT_DONE, EXIT_USAGE, Problem

UNCLEAN = "enableElectUncleanMaster"


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of the verb."""
    match verb:
        case "elect":
            _add_elect(parser)
        case "transfer":
            parser.add_argument(
                "name",
                metavar="CONTROLLER_ID|SET",
                nargs="?",
                help=(
                    "the controller that shall lead (default: the best standby), "
                    "or a broker set whose master shall hand over"
                ),
            )
            parser.add_argument(
                "id",
                metavar="ID",
                type=int,
                nargs="?",
                help=("of a set: the replica that shall be master (default: the best one in sync)"),
            )
        case "clean":
            parser.add_argument("name", metavar="SET", help="the broker set")
            parser.add_argument(
                "ids",
                metavar="ID",
                type=int,
                nargs="*",
                help=("replicas to forget (default: the whole set)"),
            )
            parser.add_argument(
                "--unclaimed",
                action="store_true",
                help=("the ids that were given out and never registered"),
            )
            parser.add_argument(
                "--living",
                action="store_true",
                help=("also replicas that are alive (they fall out and must be restarted)"),
            )
    if verb != "transfer":
        parser.add_argument("--yes", action="store_true", help="do not ask")
    add_where(parser)
    parser.add_argument("--json", action="store_true", help="the result as one JSON document")


def _add_elect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="SET", help="the broker set")
    parser.add_argument(
        "id",
        metavar="ID",
        type=int,
        nargs="?",
        help=(
            "the replica that shall be master (default: the best one, and only if "
            "a master is wanting)"
        ),
    )
    parser.add_argument(
        "--unclean",
        action="store_true",
        help=(
            "allow a replica outside of the SyncStateSet: messages may be lost. "
            f"Sets {UNCLEAN} for this election only"
        ),
    )


def run(arguments: argparse.Namespace) -> int:
    """Do it and say what came of it."""
    work = {"elect": elect, "transfer": transfer, "clean": clean}[arguments.verb]
    result, text = work(admin_of(arguments), arguments)
    print(json.dumps(result, indent=1) if arguments.json else text)
    return EXIT_DONE


Result = tuple[dict[str, Any], str]


def elect(admin: ControllerAdmin, arguments: argparse.Namespace) -> Result:
    """A new master, the named one or the best; the one that is there is kept when nothing speaks
    against it.
    """
    document = admin.state()
    name, wanted = arguments.name, arguments.id
    one = find_set(document, name)
    if wanted is not None and wanted not in [replica["id"] for replica in one["replicas"]]:
        known = ids_text([replica["id"] for replica in one["replicas"]])
        raise Problem(
            f"set {name} has no replica {wanted}",
            f"It has {known}; 'regent controller set {name}' shows them.",
            EXIT_USAGE,
        )
    if arguments.unclean:
        _refuse_side_effects(document, name)
        confirmation.require(
            f"An unclean election of {name} may lose acknowledged messages", arguments.yes
        )
    with _unclean(admin, document, arguments.unclean):
        answer = admin.elect(
            one["cluster"], name, -1 if wanted is None else wanted, designate=wanted is not None
        )
    kept = answer.code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST
    master, epoch = int(answer.ext["masterBrokerId"]), int(answer.ext["masterEpoch"])
    result = {
        "set": name,
        "result": "kept" if kept else "elected",
        "master": master,
        "master_epoch": epoch,
        "master_address": answer.ext.get("masterAddress"),
        "sync_state_set_epoch": int(answer.ext["syncStateSetEpoch"]),
    }
    at_risk = answer.ext.get("regentAtRisk") == "true"
    text = (
        f"set {name}: replica {master} {'stays' if kept else 'is'} master at "
        f"{result['master_address']}, epoch {epoch}"
    )
    if kept and wanted is None:
        text += "; name an ID to move the mastership"
    return {
        **result,
        "at_risk": at_risk,
    }, f"{text}{'; AT RISK: acknowledged messages may be missing' if at_risk else ''}"


def _refuse_side_effects(document: Mapping[str, Any], name: str) -> None:
    """The setting holds for all sets while it is on: no other one may be waiting for a master."""
    waiting = [
        other
        for other, one in document["sets"].items()
        if other != name
        and not one["tombstone"]
        and not any(
            replica["id"] == one["master"] and replica["alive"] for replica in one["replicas"]
        )
    ]
    if waiting:
        raise Problem(
            f"{UNCLEAN} holds for all sets, and {', '.join(waiting)} have no living master either",
            "Bring those back, or clean them, first.",
        )


@contextmanager
def _unclean(admin: ControllerAdmin, document: Mapping[str, Any], wanted: bool) -> Iterator[None]:
    """The setting on, and as it was again afterwards, whatever comes of the election."""
    before = str(document["settings"]["effective"].get(UNCLEAN, "false"))
    if not wanted or before == "true":
        yield
        return
    admin.change_settings({UNCLEAN: "true"})
    try:
        yield
    finally:
        try:
            admin.change_settings({UNCLEAN: before})
        except Problem as problem:
            raise Problem(
                f"{UNCLEAN} is still true: {problem.what}",
                f"Do it yourself: 'regent controller config set {UNCLEAN}={before}'.",
            ) from problem


def transfer(admin: ControllerAdmin, arguments: argparse.Namespace) -> Result:
    """Another controller leads; masters of broker sets stay where they are. Or, when a set is
    named: another master.
    """
    before = admin.state(sets=False)
    known = [one["id"] for one in before["controllers"]]
    wanted = arguments.name
    if arguments.id is not None or (wanted is not None and wanted not in known):
        document = admin.state(wanted)
        if arguments.id is not None or wanted in document["sets"]:
            return set_transfer.transfer(admin, document, wanted, arguments.id)
        raise Problem(
            f"no controller {wanted!r} is known", f"There are {', '.join(known)}.", EXIT_USAGE
        )
    if wanted == before["leader"]:
        return {"leader": before["leader"], "term": before["term"], "result": "kept"}, (
            f"{before['leader']} leads already, term {before['term']}"
        )
    admin.transfer(wanted)
    after = admin.state(sets=False)
    result = {
        "leader": after["leader"],
        "leader_address": after["leader_address"],
        "term": after["term"],
        "previous": before["leader"],
        "result": "transferred",
    }
    return result, (
        f"{after['leader']} at {after['leader_address']} leads, term {after['term']} (before: "
        f"{before['leader']})"
    )


def clean(admin: ControllerAdmin, arguments: argparse.Namespace) -> Result:
    """Forget replicas, or a whole set. Its ids and epochs go on where they were, should it ever
    come back (S9).
    """
    name = arguments.name
    one = find_set(admin.state(), name)
    ids = _ids_to_clean(one, arguments)
    alive = [r["id"] for r in one["replicas"] if r["alive"] and (not ids or r["id"] in ids)]
    if alive and not arguments.living:
        raise Problem(
            f"replicas {ids_text(alive)} of set {name} are alive",
            "Stop them first, or add --living.",
        )
    what = (
        (f"replicas {ids_text(ids)} of set {name}")
        if ids
        else f"the whole set {name} with {len(one['replicas'])} replicas"
    )
    confirmation.require(f"The controllers will forget {what}", arguments.yes)
    admin.clean(one["cluster"], name, ids, living=arguments.living)
    return {"set": name, "cleaned": ids or "all"}, f"the controllers have forgotten {what}"


def _ids_to_clean(one: Mapping[str, Any], arguments: argparse.Namespace) -> Sequence[int]:
    known = [replica["id"] for replica in one["replicas"]]
    if arguments.unclaimed:
        if arguments.ids:
            raise Problem("clean: name ids or --unclaimed, not both", "", EXIT_USAGE)
        unclaimed = [replica["id"] for replica in one["replicas"] if not replica["registered"]]
        if not unclaimed:
            raise Problem(
                f"set {arguments.name} has no unclaimed ids",
                "'regent controller ids' lists them.",
                EXIT_USAGE,
            )
        return unclaimed
    unknown = [one_id for one_id in arguments.ids if one_id not in known]
    if unknown:
        raise Problem(
            f"set {arguments.name} has no replica {ids_text(unknown)}",
            f"It has {ids_text(known)}.",
            EXIT_USAGE,
        )
    if one["tombstone"]:
        raise Problem(f"set {arguments.name} is cleaned away already", "", EXIT_USAGE)
    return sorted(set(arguments.ids))
