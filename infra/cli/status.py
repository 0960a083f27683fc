"""`regent status`: the cluster's document as a person reads it, or as JSON."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from infra.cluster import view as cluster_view
from infra.cluster.data_folder import DataFolder
from infra.cluster.flags import add_dir
from infra.cluster.options import ACTING, MAJORITY
from infra.problems import EXIT_DONE, EXIT_FAILED


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of `regent status`."""
    add_dir(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Exit 0 when every process runs, answers and is ready, 1 when one is not, or nothing can be
    decided.
    """
    folder = DataFolder(arguments.dir.absolute())
    view = cluster_view.collect(folder, folder.running_cluster())
    print(json.dumps(view, indent=1) if arguments.json else "\n".join(render(view)))
    return EXIT_DONE if all_well(view) else EXIT_FAILED


def is_well(process: Mapping[str, Any]) -> bool:
    """It runs, answers if it can be asked, and does not call itself unready."""
    return state_of(process) == "ready"


def state_of(process: Mapping[str, Any]) -> str:
    """The supervisor's word, and what is seen beside it."""
    state = str(process["state"])
    if process.get("paused"):
        return f"{state}, stopped by a signal"
    if process["answers"] is False:
        return f"{state}, silent"
    own = process.get("status") or {}
    if own.get("log_answers") is False:
        return f"{state}, no log"
    return f"{state}, serves nobody" if own.get("ready") is False else state


def render(view: Mapping[str, Any]) -> list[str]:
    """The document as lines of text."""
    lines = [
        f"cluster {view['cluster_id']}  {view['state']}  {view['dir']}",
        f"name server {','.join(view['name_servers'])}   {_who_decides(view)}",
        "",
    ]
    rows = [("PROCESS", "KIND", "PID", "ADDRESS", "STATE", "ROLE", "RESTARTS")]
    for one in view["processes"]:
        rows.append(
            (
                one["name"],
                one["kind"],
                str(one["pid"] or "-"),
                one["address"] or "-",
                state_of(one),
                _role_text(one["role"]),
                str(one["restarts"]),
            )
        )
    lines += table(rows)
    http = [
        (f"{one['name']} http://{at}/metrics")
        for one in view["processes"]
        if (at := (one.get("status") or {}).get("http_address"))
    ]
    lines += [f"over HTTP (also /readyz, /healthz, /loglevel): {', '.join(http)}"] if http else []
    modes = {
        one["name"]: (one.get("status") or {}).get("ack_mode", "") for one in view["processes"]
    }
    modes = {} if view.get("mode") == ACTING else modes  # there it is what was asked for
    lines += [
        (f"{name} acknowledges in mode {mode}: see all_ack")
        for name, mode in modes.items()
        if "may lose" in mode
    ]
    lines += [
        text
        for one in view["processes"]
        for text in _store_lines(one["name"], one.get("status") or {})
    ]
    for name, one in view["sets"].items():
        lines += ["", *_set_lines(name, one)]
    for name, one in view.get("acting_sets", {}).items():
        lines += ["", *_acting_set_lines(name, one)]
    for name, one in view.get("majority_sets", {}).items():
        lines += ["", *_majority_set_lines(name, one)]
    known = max(
        ((one.get("status") or {}).get("sets_known", 0) for one in view["processes"]), default=0
    )
    if known > len(view["sets"]):
        lines += [
            "",
            f"{known} broker sets, too many to be shown here: 'regent controller sets' lists them",
        ]
    if view["landing"]:
        lines += ["", *_landing_lines(view["landing"])]
    return [*lines, *_problem_lines(view)]


def all_well(view: Mapping[str, Any]) -> bool:
    """Every process is well, and decisions can be taken."""
    return all(is_well(one) for one in view["processes"]) and not view["problems"]


def _problem_lines(view: Mapping[str, Any]) -> list[str]:
    if all_well(view):
        return []
    look = shlex.join(("regent", "doctor", "--dir", view["dir"]))
    return ["", *(f"problem: {text}" for text in view["problems"]), f"why, and what to do: {look}"]


def _who_decides(view: Mapping[str, Any]) -> str:
    if view.get("mode") == ACTING:
        return "no controllers: a slave acts for a master that is away"
    if view.get("mode") == MAJORITY:
        return "no controllers: the members of a set elect their leader, a majority acknowledges"
    return f"controllers {','.join(view['controllers'])}"


def _role_text(role: Mapping[str, Any]) -> str:
    """ "master id 1", "active term 3", "slave id 1, acts"."""
    words = [str(role.get("kind") or "-")]
    words += [
        f"{word} {role[word] if role[word] is not None else '?'}"
        for word in ("id", "term")
        if word in role
    ]
    return " ".join(words) + (", acts" if role.get("acts") else "")


def _store_lines(name: str, status: Mapping[str, Any]) -> list[str]:
    lines = (
        [f"{name} takes no messages: {status['store_refusal']}"]
        if status.get("store_refusal")
        else []
    )
    if (left_ms := status.get("leaves_in_ms")) is not None:
        lines.append(
            f"{name} is asked to stop, and stays {left_ms / 1000:.0f} s at least for clients with "
            "an old route"
        )
    damaged = status.get("records_damaged")
    lines += (
        [f"{name} holds {damaged} damaged messages that no other replica could replace yet"]
        if damaged
        else []
    )
    taken, passed = status.get("slots_taken"), status.get("start_passed_over")
    lines += (
        [
            (
                f"{name} has {taken} messages that no queue shows: others have their places, "
                "'regent doctor' says more"
            )
        ]
        if taken
        else []
    )
    behind = status.get("queue_ends_behind")
    lines += (
        [f"{name} has seen more of {behind} queues than its master, 'regent doctor' says more"]
        if behind
        else []
    )
    return (
        [*lines, f"{name} passed over {passed} damaged records at its start"] if passed else lines
    )


def _set_lines(name: str, one: Mapping[str, Any]) -> list[str]:
    master = "none" if one["master"] is None else f"id {one['master']} at {one['master_address']}"
    head = (
        f"set {name}: master {master}, epoch {one['master_epoch']}, in sync "
        f"{one['sync_state_set']} (set epoch {one['sync_state_set_epoch']})"
    )
    rows = [("  ID", "ADDRESS", "ALIVE", "IN SYNC", "CLEAN", "EPOCH", "END", "CONFIRMED")]
    for member in one["members"]:
        rows.append(
            (
                f"  {member['id']}",
                member["address"],
                _yes(member["alive"]),
                _yes(member["in_set"]),
                _yes(member["clean"]),
                str(member["epoch"]),
                str(member.get("end_offset", member["max_offset"])),
                str(member["confirm_offset"]),
            )
        )
    needed = one.get("operator_needed")
    wanted = (
        [f"OPERATOR NEEDED for set {name}: {needed['reason']}. Way out: {needed['way_out']}"]
        if needed
        else []
    )
    return [head, *table(rows), *wanted]


def _acting_set_lines(name: str, one: Mapping[str, Any]) -> list[str]:
    if one["master"] is not None:
        head = f"set {name}: master at {one['master']}"
    else:
        head = f"set {name}: NO MASTER, {one['acting'] or 'nobody'} acts for it"
    rows = [("  ID", "ADDRESS", "REGISTERED", "ACTS", "END", "BEHIND")]
    rows += [
        (
            f"  {member['id']}",
            member["address"],
            _yes(member["registered"]),
            _yes(member["acts"]),
            str(member["log_end"]),
            str(member["behind"]),
        )
        for member in one["members"]
    ]
    return [head, *table(rows)]


def _majority_set_lines(name: str, one: Mapping[str, Any]) -> list[str]:
    if one["leader"] is None:
        head = f"set {name}: NO LEADER, {one['answering']} of {one['size']} members answer"
    else:
        follow = sum(member["follows"] for member in one["members"])
        head = (
            f"set {name}: led by {one['leader']} in term {one['term']}, {follow} of {one['size']} "
            "members with it"
        )
    rows = [("  ID", "ADDRESS", "FOLLOWS", "TERM", "END", "COMMITTED", "BEHIND")]
    rows += [
        (
            f"  {member['id']}",
            member["address"],
            _yes(member["follows"]),
            str(member["term"]),
            str(member["log_end"]),
            str(member["committed"]),
            str(member["behind"]),
        )
        for member in one["members"]
    ]
    return [head, *table(rows)]


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _landing_lines(landing: Mapping[str, Any]) -> list[str]:
    late = (
        (f", the oldest for {landing['lag_ms'] / 1000:.0f} s")
        if landing["lag_records"] and landing["lag_ms"]
        else ""
    )
    behind = (
        "how far behind the log is not known"
        if landing["lag_records"] is None
        else f"{landing['lag_records']} records behind the log"
    )
    text = f"landing: {landing['stage']}, {landing['rows']} rows, {behind}{late}"
    lines = [f"{text}, ERROR {landing['error']}" if landing["error"] else text]
    if landing["lost_records"]:
        lines.append(
            f"lake: {landing['lost_records']} records were gone from the log before they landed: "
            "'regent lake check' names them"
        )
    if landing["alarms"]:
        lines.append(f"lake: {landing['alarms']} ALARMS STAND: 'regent lake check' names them")
    lines += [
        (f"lake: {name} has failed and is tried again: {why}")
        for name, why in sorted(landing["troubles"].items())
    ]
    return [
        *lines,
        *(
            [f"landing over HTTP: http://{landing['metrics']}/metrics"]
            if landing["metrics"]
            else []
        ),
    ]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
