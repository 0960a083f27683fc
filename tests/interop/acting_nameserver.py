"""Java sets without a controller at Regent's name server and, beside it, at a Java one: the master
is killed, stopped, frozen, and returns; what both name servers say, and how soon.

Responsible for: the faults, the rows. Refuses to know: how a set is configured and asked.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from infra.problems import Problem
from tests.interop.acting_sets import MASTER, SLAVES, ActingSet, seconds_until, start_sets
from tests.interop.regent_name_server import RegentNameServer
from tests.interop.stage import Row, Stage

SETTINGS = {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true"}
OURS, JAVAS = "ours", "Java's"
EQUAL_WITHIN_S = 40.0
TOLD_WITHIN_S = 10.0
BEHIND_S = 2.0
"""So much later than Java's, on a machine where eight JVMs share two cores, is not later."""
SCAN_S = 5.0
"""Who is silent is found by a scan: each name server has its own beat."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What takes the master away, what has to end before it can come back, and what brings it
    back; the times include the wait for the broker's own next registration.
    """

    what: str
    strike: Callable[[ActingSet], object]
    settle: Callable[[ActingSet], object]
    undo: Callable[[ActingSet], object]
    acts_within_s: float
    returns_within_s: float
    waits_for_scan: bool = False


FAULTS = (
    Fault(
        "killed (kill -9)",
        lambda one: one.master.kill(),
        lambda one: None,
        lambda one: one.master.start(wait=False),
        30.0,
        150.0,
    ),
    Fault(
        "stopped (SIGTERM)",
        lambda one: os.kill(one.master.pid, signal.SIGTERM),
        lambda one: one.master.stop(),
        lambda one: one.master.start(wait=False),
        60.0,
        150.0,
    ),
    # 10 s that it may be silent, 5 s between two scans
    Fault(
        "frozen (SIGSTOP)",
        lambda one: one.master.pause(),
        lambda one: None,
        lambda one: one.master.resume(),
        30.0,
        120.0,
        waits_for_scan=True,
    ),
)


def run(stage: Stage) -> list[Row]:
    """Both dialects: with compatibleWithOldNameSrv heartbeats are 322 and members come from a
    route, without it they are 904 and 901.
    """
    rows = []
    for compatible in (False, True):
        with ExitStack() as stack:
            label = "old dialect" if compatible else "new dialect"
            rows += [
                Row(f"{label}: {row.what}", row.result, row.ok)
                for row in _played(stage, stack, compatible, f"acting{int(compatible)}")
            ]
    return rows


def _played(stage: Stage, stack: ExitStack, compatible: bool, prefix: str) -> list[Row]:
    java = stage.java.name_server(f"{prefix}-java-namesrv", SETTINGS, start=False)
    ours = RegentNameServer(stage.java, f"{prefix}-namesrv", SETTINGS)
    for process in (java, ours):
        stack.callback(process.end)
        process.start()
    stage.say("starting two Java sets of a master and two slaves, without a controller")
    places = {OURS: ours.address, JAVAS: java.address}
    sets = start_sets(stage, stack, places, compatible, prefix)
    rows = [_equal(stage, sets, "all well")]
    for fault in FAULTS:
        rows += _struck(stage, sets, fault)
    return rows


def _struck(stage: Stage, sets: list[ActingSet], fault: Fault) -> list[Row]:
    before = _notices(sets, 1)
    stage.say(f"the masters are {fault.what}")
    acts = seconds_until(
        sets,
        fault.strike,
        _slave_acts,
        f"a slave acts, the master {fault.what}",
        fault.acts_within_s,
    )
    rows = [
        _times(f"master {fault.what}: acting route after", acts, SCAN_S * fault.waits_for_scan),
        _equal(stage, sets, f"master {fault.what}"),
        _told(stage, sets, 1, before, f"master {fault.what}: slaves told (905)"),
    ]
    for one in sets:
        fault.settle(one)
    back_before = _notices(sets, 0)
    stage.say("the masters return")
    back = seconds_until(
        sets, fault.undo, ActingSet.is_whole, "the master is back", fault.returns_within_s
    )
    return [
        *rows,
        _times(f"master {fault.what}, back: in the route after", back),
        _equal(stage, sets, f"master {fault.what}, back"),
        _told(stage, sets, 0, back_before, f"master {fault.what}, back: slaves told (905)"),
    ]


def _slave_acts(one: ActingSet) -> bool:
    return one.who_leads() == (SLAVES[0], False)


def _times(what: str, took: dict[str, float], beat_s: float | None = None) -> Row:
    """Ours may not be later than Java's by more than `beat_s`; None: the brokers decide when, and
    it is only shown.
    """
    text = ", ".join(f"{name} {took[name]:.2f} s" for name in (OURS, JAVAS))
    return Row(what, text, beat_s is None or took[OURS] <= took[JAVAS] + BEHIND_S + beat_s)


def _equal(stage: Stage, sets: list[ActingSet], when: str) -> Row:
    what = f"{when}: routes, members, cluster"
    try:
        stage.java.wait_until(
            lambda: sets[0].said() == sets[1].said(), "both name servers agree", EQUAL_WITHIN_S
        )
    except Problem:
        shown = " | ".join(f"{one.name} {json.dumps(one.said(), sort_keys=True)}" for one in sets)
        return Row(what, shown[:2_000], ok=False)
    leads, writable = sets[0].who_leads()
    members = sets[0].said()["members"]["brokerMemberGroup"]["brokerAddrs"]
    text = f"equal: {leads} as master, {'' if writable else 'not '}writable, ids {list(members)}"
    return Row(what, text, (leads, writable) in ((MASTER, True), (SLAVES[0], False)))


def _notices(sets: list[ActingSet], min_id: int) -> dict[str, dict[str, int]]:
    return {one.name: one.notices(min_id) for one in sets}


def _told(
    stage: Stage, sets: list[ActingSet], min_id: int, before: dict[str, dict[str, int]], what: str
) -> Row:
    """Every slave once more that this is the smallest id, at both."""

    def counts(one: ActingSet) -> dict[str, int]:
        return {role: now - before[one.name][role] for role, now in one.notices(min_id).items()}

    try:
        stage.java.wait_until(
            lambda: all(all(counts(one).values()) for one in sets),
            "the slaves have heard of it",
            TOLD_WITHIN_S,
        )
    except Problem:
        pass
    text = "; ".join(f"{one.name} {counts(one)}" for one in sets)
    return Row(what, text, counts(sets[0]) == counts(sets[1]) and all(counts(sets[0]).values()))
