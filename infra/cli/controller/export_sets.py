"""`regent controller export`: a fresh RocketMQ controller is driven to our broker sets, with ids
and epochs above ours.

Responsible for: reading both sides, sending what the plan says, and showing what the operator does
next.
Refuses to know: which requests lead there and what must stand afterwards
(`infra.migration.export_plan`).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from infra.cli.controller.import_sets import add_names, names_of
from infra.controllers.admin import add_where, admin_of
from infra.migration import export_plan, java_controller
from infra.migration import plan as move_plan
from infra.migration.export_plan import DONE, REQUESTS_MAX, SetPlan
from infra.migration.export_requests import Ask
from infra.migration.java_controller import JavaControllers, JavaLink, require_address
from infra.migration.plan import Check, JavaSet, Step
from infra.migration.report import check_lines, step_lines
from infra.problems import EXIT_DONE, EXIT_FAILED, EXIT_USAGE, Problem

UNCLEAN = "enableElectUncleanMaster"
DRIVEN_STEPS = 1
QUIET_WITHIN_S = 30.0
POLL_S = 0.2
TELL_EVERY_S = 2.0


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of the verb."""
    parser.add_argument(
        "--to",
        dest="target",
        required=True,
        metavar="HOST:PORT",
        help=("a controller of the RocketMQ group that takes over"),
    )
    add_names(parser)
    parser.add_argument(
        "--dry-run", action="store_true", help=("read, check and show the steps; send nothing")
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help=(
            "forget what that controller knows of these sets (refused while any "
            "of their brokers lives there)"
        ),
    )
    parser.add_argument(
        "--requests-max",
        metavar="N",
        type=int,
        default=REQUESTS_MAX,
        help=(
            "refuse a set that needs more requests; each moves an id or an epoch "
            f"by one (default {REQUESTS_MAX})"
        ),
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help=(
            "after Regent's controllers stopped: prove by the brokers that "
            "nothing changed, and show who has arrived"
        ),
    )
    add_where(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Exit 1 when a check refuses; then nothing was sent."""
    require_address("--to", arguments.target)
    timeout_ms = int(arguments.timeout * 1000)
    java = JavaControllers(arguments.target, timeout_ms)
    if arguments.check:
        return _check(arguments, java, timeout_ms)
    document = admin_of(arguments).state()
    whole = _group_checks(document, java)
    plans = [] if move_plan.failed(whole) else _plans(arguments, document, java, timeout_ms)
    ready = not move_plan.failed(whole) and all(plan.is_ready for plan in plans)
    done: dict[str, Check] = {}
    if ready and not arguments.dry_run:
        for plan in plans:
            done[plan.name] = _drive(plan, java, timeout_ms)
            ready = ready and done[plan.name].ok
    ours = [one["address"] for one in document["controllers"]]
    goals = [plan.goal for plan in plans if plan.goal is not None]
    steps = export_plan.steps(goals, java.addresses, ours, arguments.target) if ready else []
    _show(arguments, whole, plans, done, steps)
    return EXIT_DONE if ready else EXIT_FAILED


def _group_checks(document: Mapping[str, Any], java: JavaControllers) -> list[Check]:
    ours = {one["address"] for one in document["controllers"]}
    checks = [
        move_plan.leader_check(java.asked, java.others),
        Check(
            "two groups",
            not ours & set(java.addresses),
            "the two groups of controllers are different ones",
            "--to and --controller name the same controllers: --to is to name the RocketMQ "
            "controller.",
        ),
    ]
    if not move_plan.failed(checks):
        unclean = java.config().get(UNCLEAN) == "true"
        checks.append(
            Check(
                "unclean",
                not unclean,
                f"{UNCLEAN} is {'on' if unclean else 'off'} there",
                "It could elect a broker that lacks acknowledged messages: switch it "
                "off there until the move is over.",
            )
        )
    return checks


def _plans(
    arguments: argparse.Namespace,
    document: Mapping[str, Any],
    java: JavaControllers,
    timeout_ms: int,
) -> list[SetPlan]:
    sets: Mapping[str, Any] = document["sets"]
    names = list(names_of(arguments, timeout_ms)) or [
        name for name, one in sets.items() if not one["tombstone"]
    ]
    if not names:
        raise Problem(
            "there is no broker set here", "'regent controller sets' lists them.", EXIT_USAGE
        )
    clusters = {name: str(sets[name]["cluster"]) if name in sets else "" for name in names}
    there = java.sets(clusters)
    addresses = {
        name: [one["address"] for one in sets[name]["replicas"] if one["registered"]]
        for name in names
        if name in sets
    }
    brokers = java_controller.brokers_at(
        (one for found in addresses.values() for one in found), timeout_ms
    )
    now_ms = int(time.time() * 1000)
    return [
        export_plan.plan_set(
            name,
            sets.get(name),
            {one: brokers[one] for one in addresses.get(name, ())},
            there[name],
            now_ms,
            replace=arguments.replace,
            requests_max=arguments.requests_max,
        )
        for name in names
    ]


def _drive(plan: SetPlan, java: JavaControllers, timeout_ms: int) -> Check:
    """Send what the plan says; the borrowed heartbeats must be over before ids are cleaned."""
    assert plan.goal is not None
    if plan.presence == DONE:
        return Check("exported", True, f"{plan.name}: there already")
    with JavaLink(java.leader, timeout_ms) as link:
        for ask in _with_progress(plan.name, (*plan.forget, *plan.drive)):
            link.send(ask)
    _wait_quiet(plan, java)
    with JavaLink(java.leader, timeout_ms) as link:
        for ask in plan.clean:
            link.send(ask)
    return export_plan.verify(plan.goal, _one(java, plan.name, plan.goal.cluster_name))


def _with_progress(name: str, asks: Sequence[Ask]) -> Iterator[Ask]:
    """Each of them in turn; every two seconds one line on standard error says how far it is."""
    began = told = time.monotonic()
    for done, ask in enumerate(asks):
        now = time.monotonic()
        if done and now - told >= TELL_EVERY_S:
            told = now
            left_s = (now - began) / done * (len(asks) - done)
            print(
                f"set {name}: {done} of {len(asks)} requests, about {left_s:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
        yield ask


def _one(java: JavaControllers, name: str, cluster: str) -> JavaSet | None:
    return java.sets({name: cluster})[name]


def _wait_quiet(plan: SetPlan, java: JavaControllers) -> None:
    """Until that controller takes nobody of the set for alive."""
    deadline = time.monotonic() + QUIET_WITHIN_S
    while (seen := _one(java, plan.name, "")) is not None and seen.anyone_alive:
        if time.monotonic() > deadline:
            raise Problem(
                f"{plan.name}: {java.leader} hears brokers of this set",
                "Do they name it in controllerAddr already? Run again with --replace.",
            )
        time.sleep(POLL_S)


def _show(
    arguments: argparse.Namespace,
    whole: Sequence[Check],
    plans: Sequence[SetPlan],
    done: Mapping[str, Check],
    steps: Sequence[Step],
) -> None:
    if arguments.json:
        sets = {
            plan.name: {
                "presence": plan.presence,
                "checks": [one.as_dict() for one in plan.checks],
                "requests": len(plan.forget) + len(plan.drive) + len(plan.clean),
                "result": done[plan.name].as_dict() if plan.name in done else None,
            }
            for plan in plans
        }
        document = {
            "to": arguments.target,
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
        lines += check_lines([done[plan.name]], True) if plan.name in done else []
    lines += (
        step_lines(steps, DRIVEN_STEPS if done else 0) if steps else ["brokers stay where they are"]
    )
    print("\n".join(lines))


def _set_line(plan: SetPlan, result: Check | None) -> str:
    goal = plan.goal
    if goal is None or not plan.is_ready:
        return f"set {plan.name}: cannot be exported"
    requests = len(plan.forget) + len(plan.drive) + len(plan.clean)
    state = "can be exported" if result is None else "exported" if result.ok else "FAILED"
    state = "there already" if plan.presence == DONE else state
    return (
        f"set {plan.name}: {state}: master {goal.master_id}, epoch to {goal.epoch}, set epoch to "
        f"{goal.set_epoch}, next id {goal.next_broker_id}, {requests} requests"
    )


# -- the proof -------------------------------------------------------------------------------------


def _check(arguments: argparse.Namespace, java: JavaControllers, timeout_ms: int) -> int:
    names = names_of(arguments, timeout_ms)
    if not names:
        raise Problem(
            "which sets? A Java controller cannot list them",
            "Add --sets NAME,NAME or --namesrv HOST:PORT.",
            EXIT_USAGE,
        )
    whole = [move_plan.leader_check(java.asked, java.others), *_stopped(arguments, timeout_ms)]
    there = java.sets(names)
    checks = {}
    for name, one in there.items():
        addresses = [] if one is None else [replica.address for replica in one.replicas]
        checks[name] = export_plan.proof(
            name, one, java_controller.brokers_at(addresses, timeout_ms)
        )
    arrived = {
        name: [r.broker_id for r in one.replicas if r.alive] if one else []
        for name, one in there.items()
    }
    if arguments.json:
        sets = {
            name: {
                "checks": [one.as_dict() for one in found],
                "arrived": arrived[name],
                **_facts(there[name]),
            }
            for name, found in checks.items()
        }
        print(json.dumps({"checks": [one.as_dict() for one in whole], "sets": sets}, indent=1))
    else:
        lines = check_lines(whole, True)
        for name, found in checks.items():
            facts = _facts(there[name])
            lines += [
                (
                    f"set {name}: {len(arrived[name])} brokers have arrived, master "
                    f"{facts.get('master') or 'none yet'}"
                ),
                *check_lines(found, True),
            ]
        print("\n".join(lines))
    everything = [*whole, *(one for found in checks.values() for one in found)]
    return EXIT_FAILED if move_plan.failed(everything) else EXIT_DONE


def _stopped(arguments: argparse.Namespace, timeout_ms: int) -> list[Check]:
    """Ours must be silent; they are only known when --controller names them."""
    if arguments.controller is None:
        return []
    still = [
        one
        for one in admin_of(arguments).addresses
        if not java_controller.is_silent(one, timeout_ms)
    ]
    return [
        Check(
            "stopped",
            not still,
            "Regent's controllers: "
            f"{', '.join(still) + ' still answer' if still else 'none answers'}",
            "Stop them first: while they run, they may elect.",
        )
    ]


def _facts(there: JavaSet | None) -> dict[str, Any]:
    if there is None:
        return {}
    return {
        "master": there.master_id,
        "master_epoch": there.master_epoch,
        "sync_state_set": list(there.sync_state_set),
        "sync_state_set_epoch": there.sync_state_set_epoch,
        "next_broker_id": there.next_broker_id,
    }
