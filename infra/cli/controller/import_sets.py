"""`regent controller import`: the broker sets of a running RocketMQ controller become sets of ours.

Responsible for: reading both sides, writing what the plan says, and showing what the operator does
next.
Refuses to know: what makes a set fit to be taken over (`infra.migration.import_plan`).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from infra.controllers.admin import ControllerAdmin, add_where, admin_of
from infra.migration import import_plan, java_controller
from infra.migration import plan as move_plan
from infra.migration.import_plan import AGAIN, NEEDED_RULES, NEW, SAME, SetPlan
from infra.migration.java_controller import JavaControllers, require_address
from infra.migration.plan import Check, Step
from infra.migration.report import check_lines, step_lines
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Problem

WRITTEN_STEPS = 1
CATCH_UP_S = 5.0


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of the verb."""
    parser.add_argument(
        "--from",
        dest="source",
        required=True,
        metavar="HOST:PORT",
        help=("a controller of the RocketMQ cluster, any of its group"),
    )
    add_names(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help=("read, check and show the steps; write nothing")
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help=(
            "after the Java controllers stopped: prove by the brokers that "
            "nothing changed, and show who has arrived"
        ),
    )
    add_where(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def add_names(parser: argparse.ArgumentParser) -> None:
    """The flags that say which sets are meant."""
    parser.add_argument("--sets", metavar="NAME[,NAME]", help="the broker sets")
    parser.add_argument(
        "--namesrv",
        metavar="HOST:PORT",
        help=("take the sets that this name server knows (a Java controller cannot list its own)"),
    )


def names_of(arguments: argparse.Namespace, timeout_ms: int) -> dict[str, str]:
    """Set name -> cluster ('' where nobody said); empty when neither flag is given."""
    if arguments.sets is not None:
        names = [name.strip() for name in arguments.sets.split(",") if name.strip()]
        if not names:
            raise Problem("--sets names nobody", "Write --sets broker-a,broker-b.", EXIT_USAGE)
        return dict.fromkeys(names, "")
    if arguments.namesrv is not None:
        return java_controller.set_names(
            require_address("--namesrv", arguments.namesrv), timeout_ms
        )
    return {}


def run(arguments: argparse.Namespace) -> int:
    """Exit 1 when a check refuses; then nothing was written."""
    require_address("--from", arguments.source)
    admin, timeout_ms = admin_of(arguments), int(arguments.timeout * 1000)
    if arguments.check:
        return _check(arguments, admin, timeout_ms)
    names = names_of(arguments, timeout_ms)
    if not names and arguments.namesrv is not None:
        raise Problem(
            f"name server {arguments.namesrv} knows no broker set",
            "Do the brokers register there? Or name the sets with --sets.",
        )
    if not names:
        raise Problem(
            "which sets? A Java controller cannot list them",
            "Add --sets NAME,NAME or --namesrv HOST:PORT.",
            EXIT_USAGE,
        )
    document = admin.state()
    java = JavaControllers(arguments.source, timeout_ms)
    whole = _group_checks(document, java)
    plans = _plans(document, java, names, timeout_ms) if not move_plan.failed(whole) else []
    ready = not move_plan.failed(whole) and all(plan.is_ready for plan in plans)
    done = _write(admin, plans) if ready and not arguments.dry_run else {}
    ours = [one["address"] for one in document["controllers"]]
    steps = import_plan.steps(plans, java.addresses, ours, arguments.source) if ready else []
    _show(arguments, whole, plans, done, steps)
    return EXIT_DONE if ready else EXIT_FAILED


def _group_checks(document: Mapping[str, Any], java: JavaControllers) -> list[Check]:
    ours = {one["address"] for one in document["controllers"]}
    return [
        move_plan.leader_check(java.asked, java.others),
        Check(
            "two groups",
            not ours & set(java.addresses),
            "the two groups of controllers are different ones",
            "--from and --controller name the same controllers: --from is to name the RocketMQ "
            "controller.",
        ),
        Check(
            "rules",
            document["rules_version"] >= NEEDED_RULES,
            f"rules {document['rules_version']} are active here",
            f"Importing needs rules {NEEDED_RULES}: 'regent controller upgrade' activates them.",
        ),
    ]


def _plans(
    document: Mapping[str, Any], java: JavaControllers, names: Mapping[str, str], timeout_ms: int
) -> list[SetPlan]:
    seen = java.sets(names)
    addresses = [
        replica.address for one in seen.values() if one is not None for replica in one.replicas
    ]
    brokers = java_controller.brokers_at(addresses, timeout_ms)
    plans = []
    for name, one in seen.items():
        if one is None:
            unknown = Check(
                "known",
                False,
                f"{name}: {java.leader} knows no such set",
                "Check --sets; is that the controller of its brokers?",
            )
            plans.append(SetPlan(name, NEW, (unknown,), None))
            continue
        facts = {replica.address: brokers[replica.address] for replica in one.replicas}
        plans.append(import_plan.plan_set(one, facts, document["sets"].get(name), java.leader))
    return plans


def _write(admin: ControllerAdmin, plans: Sequence[SetPlan]) -> dict[str, str]:
    done = {}
    for plan in plans:
        if plan.presence in (NEW, AGAIN) and plan.fields is not None:
            admin.import_set(plan.fields)
        done[plan.name] = {SAME: "here already"}.get(plan.presence, "imported")
    return done


def _show(
    arguments: argparse.Namespace,
    whole: Sequence[Check],
    plans: Sequence[SetPlan],
    done: Mapping[str, str],
    steps: Sequence[Step],
) -> None:
    if arguments.json:
        sets = {
            plan.name: {
                "presence": plan.presence,
                "result": done.get(plan.name),
                "checks": [one.as_dict() for one in plan.checks],
                "fields": plan.fields,
            }
            for plan in plans
        }
        document = {
            "from": arguments.source,
            "dry_run": arguments.dry_run,
            "checks": [one.as_dict() for one in whole],
            "sets": sets,
            "ready": bool(steps),
            "steps": [one.as_dict() for one in steps],
        }
        print(json.dumps(document, indent=1))
        return
    lines = check_lines(whole, arguments.dry_run)
    for plan in plans:
        lines += [
            _set_line(plan, done.get(plan.name)),
            *check_lines(plan.checks, arguments.dry_run),
        ]
    lines += step_lines(steps, WRITTEN_STEPS if done else 0) if steps else ["nothing was written"]
    print("\n".join(lines))


def _set_line(plan: SetPlan, result: str | None) -> str:
    fields = plan.fields
    if fields is None:
        return f"set {plan.name}: cannot be imported"
    members = ",".join(map(str, fields["sync_state_set"]))
    return (
        f"set {plan.name}: {result or 'can be imported'}: master {fields['master_broker_id']}, "
        f"epoch {fields['master_epoch']}, in sync {members} (set epoch "
        f"{fields['sync_state_set_epoch']}), {len(fields['replicas'])} replicas, next id "
        f"{fields['next_broker_id']}"
    )


# -- the proof -------------------------------------------------------------------------------------


def _check(arguments: argparse.Namespace, admin: ControllerAdmin, timeout_ms: int) -> int:
    document = admin.state()
    names = names_of(arguments, timeout_ms) or {
        name: "" for name, one in document["sets"].items() if one.get("imported")
    }
    if not names:
        raise Problem(
            "no imported set is waiting for its brokers here", "Name sets with --sets.", EXIT_USAGE
        )
    silent = java_controller.is_silent(arguments.source, timeout_ms)
    whole = [
        Check(
            "stopped",
            silent,
            f"controller {arguments.source} {'answers no more' if silent else 'still answers'}",
            "Stop every Java controller first: while they run, they may elect.",
        )
    ]
    checks = {name: _proof(name, document["sets"].get(name), timeout_ms) for name in names}
    arrived = {
        name: import_plan.arrived(document["sets"][name])
        for name in names
        if name in document["sets"]
    }
    if arguments.json:
        sets = {
            name: {"checks": [one.as_dict() for one in found], "arrived": arrived.get(name, [])}
            for name, found in checks.items()
        }
        print(json.dumps({"checks": [one.as_dict() for one in whole], "sets": sets}, indent=1))
    else:
        lines = check_lines(whole, True)
        for name, found in checks.items():
            replicas = len(document["sets"].get(name, {}).get("replicas", ()))
            lines += [
                f"set {name}: {len(arrived.get(name, []))} of {replicas} brokers have arrived",
                *check_lines(found, True),
            ]
        print("\n".join(lines))
    everything = [*whole, *(one for found in checks.values() for one in found)]
    return EXIT_FAILED if move_plan.failed(everything) else EXIT_DONE


def _proof(name: str, here: Mapping[str, Any] | None, timeout_ms: int) -> list[Check]:
    """Asked again while only slaves are behind: under load they are so for moments."""
    if here is None or here["tombstone"]:
        return [Check("here", False, f"{name}: no such set here", "Import it first.")]
    addresses = {one["id"]: one["address"] for one in here["replicas"]}
    members = sorted(here["sync_state_set"], key=lambda one: (one != here["master"], one))
    deadline = time.monotonic() + CATCH_UP_S
    while True:
        links = java_controller.ha_links([addresses[one] for one in members], timeout_ms)
        checks = import_plan.proof(
            name, here, java_controller.brokers_at(addresses.values(), timeout_ms), links
        )
        if not move_plan.failed(checks) or time.monotonic() > deadline:
            return checks
