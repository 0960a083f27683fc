"""The controllers, and what brokers get from them: who leads, clocks, releases.

The view is that of a broker on this machine: it asks a controller for the leader (1005) and must
reach that address.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from infra.controllers.admin import ControllerAdmin, versions
from infra.doctor import addresses
from infra.doctor.commands import Commands
from infra.doctor.findings import Finding, fail, warn, well
from infra.doctor.log import NTP
from infra.problems import Problem
from infra.processes import status

SKEW_WARN_MS, SKEW_FAIL_MS = 1_000, 60_000
ALIEN_TIMEOUT_MS = 2_000
"""For the one question that Java controllers answer too."""
STATE_TIMEOUT_MS = 3_000
"""For what the leader answers behind the log's end; it gives up itself after 2.5 s."""
CONTROLLER = "controller"
Document = Mapping[str, Any]
LEADER_CHANGES_MAX = 6
"""Within ten minutes: a restart of every controller makes fewer."""


def check(
    controllers: Mapping[str, str], commands: Commands
) -> tuple[list[Finding], Document | None]:
    """`controllers`: name -> advertised address. Also gives the leader's document, None when nobody
    gave one.
    """
    findings, living = _answers(controllers, commands)
    if not living:
        return findings, None
    findings += leaders({name: controllers[name] for name in living}, commands)
    admin = ControllerAdmin(
        [controllers[name] for name in living], STATE_TIMEOUT_MS, STATE_TIMEOUT_MS
    )
    try:
        document = admin.state()
    except Problem as problem:
        way_out = "Nothing is decided until that ends; nearly always it is the log:"
        return [*findings, fail("state", problem.what, way_out, commands.why_nobody_leads())], None
    return [*findings, *releases(document, commands)], document


def _answers(controllers: Mapping[str, str], commands: Commands) -> tuple[list[Finding], list[str]]:
    began_ms = time.time_ns() // 1_000_000
    answers = status.ask_all(controllers.values(), sets=False)
    now_ms = time.time_ns() // 1_000_000
    findings, living = [], []
    for name, address in controllers.items():
        answer = answers[address]
        if answer is None:
            findings.append(_silent(name, address, commands))
            continue
        if answer.get("kind", CONTROLLER) != CONTROLLER:
            text = f"{name} at {address} is a {answer['kind']}"
            way_out = "Name a controller's address; the controllers know each other:"
            findings.append(fail("controllers", text, way_out, commands.look()))
            continue
        living.append(name)
        text = (
            f"{name} at {address}: {answer.get('role')}, term {answer.get('term', '?')}, applied "
            f"offset {answer.get('applied_offset')}"
        )
        if answer.get("ready"):
            findings.append(well("controllers", text))
        else:
            way_out = "It is starting, hears no leader, or does not reach the log. Who leads:"
            command = commands.controller("status")
            findings.append(warn("controllers", f"{text}; it is not ready", way_out, command))
        findings += skew(name, answer.get("wall_ms"), began_ms, now_ms)
        findings += quarrel(name, answer, commands)
    return findings, living


def quarrel(name: str, answer: Document, commands: Commands) -> list[Finding]:
    """What one controller's status says of leaders that it cannot hear, and of leaders that
    change.
    """
    leader, changes = answer.get("leader"), int(answer.get("leader_changes") or 0)
    if answer.get("leader_unlisted"):
        peer = f"{leader}={answer.get('leader_address')}"
        text = (
            f"{leader} leads and is not among the peers of {name}, which cannot hear it and "
            "deposes it again and again"
        )
        way_out = f'Add to [peers] of {name}: {leader} = "{answer.get("leader_address")}"; or:'
        own = commands.start(name, "--peers", peer)
        return [fail("peers", text, way_out, own or commands.controller("status"))]
    if changes < LEADER_CHANGES_MAX:
        return []
    text = f"{name} saw {changes} changes of the leader within ten minutes"
    way_out = (
        "Do all controllers have each other in [peers], and an id of their own? See their logs for "
        "'another process leads as' and 'not among the peers'. Who there is:"
    )
    return [fail("peers", text, way_out, commands.controller("status"))]


def _silent(name: str, address: str, commands: Commands) -> Finding:
    """Why a controller did not tell its status."""
    way_out, command = "Is it running? Is this its address as seen from here?", ""
    why = addresses.reason_of(address)
    if why is None:
        try:
            ControllerAdmin([address], ALIEN_TIMEOUT_MS).metadata(address)
            why = "it is a controller, but none of Regent's"
            way_out = "Its brokers and sets can be read:"
            command = commands.of_stranger(address)
        except Problem:
            why, way_out = "it takes connections and does not answer", "Start it again."
    text = f"{name} at {address}: {why}"
    return fail("controllers", text, way_out, command or commands.revive(name))


def skew(name: str, told_ms: int | None, began_ms: int, now_ms: int) -> list[Finding]:
    """A controller's clock against ours; what the question itself may have taken is no
    difference.
    """
    if told_ms is None:
        return []
    off_ms = max(0, told_ms - now_ms, began_ms - told_ms)
    if off_ms <= SKEW_WARN_MS:
        text = f"{name}'s clock is within {SKEW_WARN_MS / 1000:.0f} s of this machine's"
        return [well("clocks", text)]
    way_out = (
        "Keep the clock of every machine by NTP: nothing is decided by clocks, but the history's "
        "times are wrong."
    )
    text = f"{name}'s clock is {off_ms / 1000:.1f} s off"
    return [(fail if off_ms > SKEW_FAIL_MS else warn)("clocks", text, way_out, NTP)]


def leaders(controllers: Mapping[str, str], commands: Commands) -> list[Finding]:
    """Each controller's answer to a broker's first question, and whether the broker could go
    there.
    """
    findings: list[Finding] = []
    told: dict[str, str | None] = {}
    for name, address in controllers.items():
        try:
            told[name] = (
                ControllerAdmin([address]).metadata(address).get("controllerLeaderAddress") or None
            )
        except Problem as problem:
            findings.append(fail("leader", problem.what, problem.way_out, commands.revive(name)))
    for leader in sorted({one for one in told.values() if one}):
        askers = [name for name, one in told.items() if one == leader]
        findings.append(_leader(leader, askers, commands))
    lost = [name for name, one in told.items() if one is None]
    if lost:
        text = f"{', '.join(lost)} name(s) no leader"
        way_out = "Can they reach Kafka and each other? See their logs."
        findings.append(fail("leader", text, way_out, commands.why_nobody_leads()))
    if len({one for one in told.values() if one}) > 1 and not lost:
        text = "controllers name different leaders"
        way_out = "Right after a takeover that passes; else they do not hear each other."
        findings.append(warn("leader", text, way_out, commands.controller("status")))
    return findings


def _leader(leader: str, askers: Sequence[str], commands: Commands) -> Finding:
    text = f"{', '.join(askers)} send(s) brokers to {leader}, which is"
    why = addresses.reason_of(leader)
    if why is None:
        return well("leader", f"{text} reached from here")
    way_out = (
        "Set the leader's advertise (or advertise_by_network) to an address that brokers reach. "
        "Who that is:"
    )
    command = commands.controller("status")
    return fail("leader", f"{text} not reached from here: {why}", way_out, command)


def releases(document: Document, commands: Commands) -> list[Finding]:
    """Releases and rules of all controllers."""
    active, known = document["rules_version"], document["controllers"]
    text = "; ".join(
        (
            f"{one['id']} {one['release'] or '?'} (rules "
            f"{','.join(map(str, versions(one['rules']))) or '?'})"
        )
        for one in known
    )
    dry_run, status_verb = (
        commands.controller("upgrade", "--dry-run"),
        commands.controller("status"),
    )
    findings = [
        fail(
            "versions",
            f"{one['id']} lacks rules {active}, which are active",
            "Install the newer release there. Who has which:",
            status_verb,
        )
        for one in known
        if versions(one["rules"]) and active not in versions(one["rules"])
    ]
    if len({one["release"] for one in known if one["alive"]}) > 1:
        way_out = "Finish the upgrade: when all have one release, without --dry-run:"
        findings.append(warn("versions", f"mixed releases: {text}", way_out, dry_run))
    newest = max((max(versions(one["rules"]), default=0) for one in known), default=0)
    if not findings and all(newest in versions(one["rules"]) for one in known) and newest > active:
        behind = f"rules {active} are active, all controllers have {newest}"
        upgrade = commands.controller("upgrade")
        findings.append(warn("versions", behind, "Activate them:", upgrade))
    return findings or [well("versions", f"rules {active} active; {text}")]
