"""The controllers, and what brokers get from them: who leads, clocks, releases, the sets.

The view is that of a broker on this machine: it asks a controller for the leader (1005) and must
reach that address.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from infra.cli.controller.state import notes_of
from infra.controllers.admin import ControllerAdmin, versions
from infra.doctor import addresses, stores
from infra.doctor.findings import FAIL, OK, WARN, Finding
from infra.problems import Problem
from infra.processes import status

SKEW_WARN_MS, SKEW_FAIL_MS = 1_000, 60_000
ALIEN_TIMEOUT_MS = 2_000
"""For the one question that Java controllers answer too."""
CONTROLLER = "controller"
Document = Mapping[str, Any]
LEADER_CHANGES_MAX = 6
"""Within ten minutes: a restart of every controller makes fewer."""


def check(controllers: Mapping[str, str]) -> list[Finding]:
    """`controllers`: name -> advertised address."""
    findings, living = _answers(controllers)
    if not living:
        return findings
    findings += leaders({name: controllers[name] for name in living})
    admin = ControllerAdmin([controllers[name] for name in living])
    try:
        document = admin.state()
    except Problem as problem:
        return [
            *findings,
            Finding("state", FAIL, problem.what, problem.way_out or ("See the controllers' logs.")),
        ]
    return [*findings, *releases(document), *sets(document), *brokers(document)]


def _answers(controllers: Mapping[str, str]) -> tuple[list[Finding], list[str]]:
    began_ms = time.time_ns() // 1_000_000
    answers = status.ask_all(controllers.values(), sets=False)
    now_ms = time.time_ns() // 1_000_000
    findings, living = [], []
    for name, address in controllers.items():
        answer = answers[address]
        if answer is None:
            findings.append(_silent(name, address))
            continue
        if answer.get("kind", CONTROLLER) != CONTROLLER:
            findings.append(
                Finding(
                    "controllers",
                    FAIL,
                    f"{name} at {address} is a {answer['kind']}",
                    "Name a controller's address.",
                )
            )
            continue
        living.append(name)
        ready = answer.get("ready")
        text = (
            f"{name} at {address}: {answer.get('role')}, term {answer.get('term', '?')}, applied "
            f"offset {answer.get('applied_offset')}"
        )
        findings.append(
            Finding(
                "controllers",
                OK if ready else WARN,
                text,
                "" if ready else ("It is starting, or hears no leader."),
            )
        )
        findings += skew(name, answer.get("wall_ms"), began_ms, now_ms)
        findings += quarrel(name, answer)
    return findings, living


def quarrel(name: str, answer: Document) -> list[Finding]:
    """What one controller's status says of leaders that it cannot hear, and of leaders that
    change.
    """
    leader, changes = answer.get("leader"), int(answer.get("leader_changes") or 0)
    if answer.get("leader_unlisted"):
        return [
            Finding(
                "peers",
                FAIL,
                f"{leader} leads and is not among the peers of {name}, which cannot hear it and "
                "deposes it again and again",
                f'Add to [peers] of {name}: {leader} = "{answer.get("leader_address")}"',
            )
        ]
    if changes < LEADER_CHANGES_MAX:
        return []
    return [
        Finding(
            "peers",
            FAIL,
            f"{name} saw {changes} changes of the leader within ten minutes",
            "Do all controllers have each other in [peers], and an id of their own? See their logs "
            "for 'another process leads as' and 'not among the peers'.",
        )
    ]


def _silent(name: str, address: str) -> Finding:
    """Why a controller did not tell its status."""
    way_out = "Is it running? Is this its address as seen from here?"
    why = addresses.reason_of(address)
    if why is None:
        try:
            ControllerAdmin([address], ALIEN_TIMEOUT_MS).metadata(address)
            why, way_out = (
                ("it is a controller, but none of Regent's"),
                (
                    "Its brokers and sets can be read: 'regent controller import --from ... "
                    "--dry-run'."
                ),
            )
        except Problem:
            why = "it takes connections and does not answer"
    return Finding("controllers", FAIL, f"{name} at {address}: {why}", way_out)


def skew(name: str, told_ms: int | None, began_ms: int, now_ms: int) -> list[Finding]:
    """A controller's clock against ours; what the question itself may have taken is no
    difference.
    """
    if told_ms is None:
        return []
    off_ms = max(0, told_ms - now_ms, began_ms - told_ms)
    if off_ms <= SKEW_WARN_MS:
        return [
            Finding(
                "clocks",
                OK,
                f"{name}'s clock is within {SKEW_WARN_MS / 1000:.0f} s of this machine's",
            )
        ]
    way_out = (
        "Run NTP on every machine: nothing is decided by clocks, but the history's times are wrong."
    )
    return [
        Finding(
            "clocks",
            FAIL if off_ms > SKEW_FAIL_MS else WARN,
            f"{name}'s clock is {off_ms / 1000:.1f} s off",
            way_out,
        )
    ]


def leaders(controllers: Mapping[str, str]) -> list[Finding]:
    """Each controller's answer to a broker's first question, and whether the broker could go
    there.
    """
    findings, told = [], {}
    for name, address in controllers.items():
        try:
            told[name] = (
                ControllerAdmin([address]).metadata(address).get("controllerLeaderAddress") or None
            )
        except Problem as problem:
            findings.append(Finding("leader", FAIL, problem.what, problem.way_out))
    for leader in sorted({one for one in told.values() if one}):
        askers = ", ".join(name for name, one in told.items() if one == leader)
        why = addresses.reason_of(leader)
        if why is None:
            findings.append(
                Finding(
                    "leader",
                    OK,
                    f"{askers} send(s) brokers to {leader}, which is reached from here",
                )
            )
        else:
            findings.append(
                Finding(
                    "leader",
                    FAIL,
                    f"{askers} send(s) brokers to {leader}, which is not reached from here: {why}",
                    "Set the leader's advertise (or advertise_by_network) to an "
                    "address that brokers reach.",
                )
            )
    lost = [name for name, one in told.items() if one is None]
    if lost:
        findings.append(
            Finding(
                "leader",
                FAIL,
                f"{', '.join(lost)} name(s) no leader",
                "Can they reach Kafka and each other? See their logs.",
            )
        )
    if len({one for one in told.values() if one}) > 1 and not lost:
        findings.append(
            Finding(
                "leader",
                WARN,
                "controllers name different leaders",
                "Right after a takeover that passes; else they do not hear each other.",
            )
        )
    return findings


def releases(document: Document) -> list[Finding]:
    """Releases and rules of all controllers."""
    active, known = document["rules_version"], document["controllers"]
    text = "; ".join(
        (
            f"{one['id']} {one['release'] or '?'} (rules "
            f"{','.join(map(str, versions(one['rules']))) or '?'})"
        )
        for one in known
    )
    findings = []
    for one in known:
        if versions(one["rules"]) and active not in versions(one["rules"]):
            findings.append(
                Finding(
                    "versions",
                    FAIL,
                    f"{one['id']} lacks rules {active}, which are active",
                    "Install the newer release there.",
                )
            )
    if len({one["release"] for one in known if one["alive"]}) > 1:
        findings.append(
            Finding(
                "versions",
                WARN,
                f"mixed releases: {text}",
                "Finish the upgrade, then 'regent controller upgrade'.",
            )
        )
    newest = max((max(versions(one["rules"]), default=0) for one in known), default=0)
    if not findings and all(newest in versions(one["rules"]) for one in known) and newest > active:
        findings.append(
            Finding(
                "versions",
                WARN,
                f"rules {active} are active, all controllers have {newest}",
                "'regent controller upgrade' activates them.",
            )
        )
    return findings or [Finding("versions", OK, f"rules {active} active; {text}")]


def sets(document: Document) -> list[Finding]:
    """What is wrong with broker sets."""
    living = {name: one for name, one in document["sets"].items() if not one["tombstone"]}
    findings = []
    for name, one in living.items():
        masterless = one["master"] is None or not any(
            r["id"] == one["master"] and r["alive"] for r in one["replicas"]
        )
        for note in notes_of(one):
            way_out = (
                (f"'regent controller ids {name}'")
                if note == "unclaimed ids"
                else f"'regent controller set {name}', 'regent explain {name}'"
            )
            findings.append(
                Finding(
                    "sets",
                    FAIL if masterless and "MASTER" in note else WARN,
                    f"{name}: {note}",
                    f"{way_out} show(s) more.",
                )
            )
        findings += strength(name, one)
    return findings or [
        Finding("sets", OK, f"{len(living)} broker set(s), each with a living master")
    ]


def strength(name: str, one: Document) -> list[Finding]:
    """Registered replicas that are not in sync: what the set still has to lose."""
    out = [
        replica["id"]
        for replica in one["replicas"]
        if replica["registered"] and replica["id"] not in one["sync_state_set"]
    ]
    if not out or one["master"] is None:
        return []
    return [
        Finding(
            "sets",
            WARN,
            f"{name}: replica(s) {', '.join(map(str, out))} not in sync, "
            f"{len(one['sync_state_set'])} are",
            f"Start what does not run ('regent controller set {name}'); a learner stays out.",
        )
    ]


def brokers(document: Document) -> list[Finding]:
    """Whether living brokers are reached at the addresses given to clients and slaves, and their
    stores.
    """
    named, asked = {}, {}
    for name, one in document["sets"].items():
        for replica in one["replicas"]:
            if replica["alive"] and replica["address"]:
                named[f"{name}/{replica['id']}"] = asked[f"{name}/{replica['id']}"] = replica[
                    "address"
                ]
                if replica["ha_address"]:
                    named[f"{name}/{replica['id']} HA"] = replica["ha_address"]
    return [*shared(document), *addresses.reached("brokers", named), *stores.check(asked)]


def shared(document: Document) -> list[Finding]:
    """Addresses that two living replicas give as their own: requests reach one of them."""
    owners: dict[str, list[str]] = {}
    for name, one in document["sets"].items():
        for replica in one["replicas"]:
            for place in ("address", "ha_address") if replica["alive"] else ():
                if replica[place]:
                    owners.setdefault(replica[place], []).append(f"{name}/{replica['id']}")
    return [
        Finding(
            "brokers",
            FAIL,
            f"{address} is the address of {' and '.join(names)}: requests reach one of them",
            "Give each broker addresses of its own (listen and ha_listen, or advertise and "
            "ha_advertise), and start it again.",
        )
        for address, names in sorted(owners.items())
        if len(names) > 1
    ]
