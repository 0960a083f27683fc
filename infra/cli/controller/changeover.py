"""`regent controller adopt|release`: a set with fixed ids joins the controllers, and goes back.

Responsible for: reading both sides, asking, doing what the plan says step by step with progress,
going on with what an earlier run began, proving it.
Refuses to know: what makes a set fit to change over (`infra.changeover.plan`), how a replica does
it.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from brokers.changeover.order import Kind
from infra.changeover import calls, plan
from infra.changeover.facts import Found, Look
from infra.changeover.plan import BEGUN, DONE, FRESH, Changeover, SetPlan
from infra.changeover.set_fields import set_again, waits_for_brokers
from infra.cli import confirmation
from infra.cluster.data_folder import DataFolder
from infra.controllers.admin import ControllerAdmin, add_where, admin_of
from infra.controllers.calls import Refused
from infra.migration import java_controller
from infra.migration import plan as move_plan
from infra.migration.java_controller import require_address
from infra.migration.plan import Check
from infra.migration.report import check_lines, step_lines
from infra.problems import EXIT_DONE, EXIT_FAILED, Problem

WAIT_S = 60.0
POLL_S = 0.2
AGAIN_S = 1.0
BEGIN_MS = 30_000
CODE_BYTES = 16
ARRIVE_WITHIN_S = 2.0
"""Brokers that begin anew speak to the controllers sooner, if they are believed."""

ADOPTS = """
The controllers learn the set: ids from 1 up, no master. Its master holds writes until every
replica has every byte and table, gives up on its disk, and all replicas begin anew in their
processes; an election follows, and what was held is answered. If the master cannot give up it
serves on, and nothing has changed. Nobody starts a broker by hand: change the lines that are
printed in each broker's file afterwards. Run it on a host of one of the brokers. A set with a
broker of RocketMQ's is refused."""
RELEASES = """
The master holds writes until every replica has everything; the others leave the controllers,
then the master, which leads on with broker_id 0; the controllers forget the set. If a replica
cannot leave, the master serves on. Nobody starts a broker by hand: change the lines that are
printed in each broker's file afterwards. Run it on a host of one of the brokers."""

Document = Mapping[str, Any] | None


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """Flags of the verb, and what it does."""
    parser.description = f"{parser.description}\n{ADOPTS if verb == 'adopt' else RELEASES}"
    parser.add_argument("name", metavar="SET", help="the broker set")
    asked = "" if verb == "adopt" else ", asked when the controllers do not run the set any more"
    parser.add_argument(
        "--namesrv",
        metavar="HOST:PORT[;HOST:PORT]",
        help=(
            f"name servers that know its brokers{asked} (default: those of the cluster in --dir; "
            "run it on a host of one of the brokers)"
        ),
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="read, check and show the steps; change nothing"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--wait",
        type=float,
        default=WAIT_S,
        metavar="S",
        help=(
            "how long to wait for replicas that have to follow, and for what proves it (default "
            "%(default)g); interrupted or too late, the same command goes on where it was"
        ),
    )
    add_where(parser)
    parser.add_argument("--json", action="store_true", help="one JSON document")


def run(arguments: argparse.Namespace) -> int:
    """Exit 1 when a check refuses, before or after; a refusal before changes nothing."""
    work = _Work(arguments)
    found = work.plan()
    if not found.is_ready or arguments.dry_run:
        work.show(found, [])
        return EXIT_DONE if found.is_ready else EXIT_FAILED
    if found.stage == FRESH:
        if not arguments.json:
            work.show(found, [])
        confirmation.require(f"The set {found.name} {work.says}", arguments.yes)
    proof = work.carry_out(found)
    work.show(found, proof)
    return EXIT_FAILED if move_plan.failed(proof) else EXIT_DONE


class _Work:
    """One run of either verb."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._adopts = arguments.verb == "adopt"
        self._admin: ControllerAdmin = admin_of(arguments)
        self._timeout_ms = int(arguments.timeout * 1000)
        self._until = time.monotonic() + arguments.wait
        self._known_at = time.monotonic()
        self.says = (
            "joins the controllers" if self._adopts else "leaves the controllers for fixed ids"
        )

    # -- facts -------------------------------------------------------------------------------------

    def plan(self) -> SetPlan:
        """What there is to do."""
        name, document = self._arguments.name, self._admin.state()
        here = document["sets"].get(name)
        if self._adopts:
            members = calls.members_of(self._name_servers(), name, self._timeout_ms)
            looks = calls.looks_of(members.values(), self._timeout_ms)
            controllers = [one["address"] for one in document["controllers"]]
            found = plan.plan_adoption(
                name, members, looks, here, controllers, _new(members.values())
            )
            if found.stage != FRESH:
                return found
            return replace(found, checks=(*found.checks, _rules_check(document["rules_version"])))
        looks = calls.looks_of(self._known(here), self._timeout_ms)
        return plan.plan_release(name, looks, here, _new(()))

    def _known(self, here: Document) -> list[str]:
        """Addresses of the replicas; of a set that was released only name servers tell them."""
        if here is not None and not here["tombstone"]:
            return [one["address"] for one in here["replicas"]]
        try:
            name_servers = self._name_servers()
        except Problem:
            if self._arguments.namesrv is not None:
                raise
            return []
        members = calls.members_of(name_servers, self._arguments.name, self._timeout_ms)
        return list(members.values())

    def _name_servers(self) -> list[str]:
        if self._arguments.namesrv is not None:
            named = self._arguments.namesrv.replace(",", ";").split(";")
            return [require_address("--namesrv", one.strip()) for one in named]
        try:
            folder = DataFolder(self._arguments.dir.absolute())
            return list(folder.running_cluster()["name_servers"])
        except Problem as problem:
            raise Problem(
                problem.what, "Name a name server with --namesrv HOST:PORT.", problem.exit_code
            ) from None

    def _here(self) -> Document:
        found: Document = self._admin.state(self._arguments.name)["sets"].get(self._arguments.name)
        return found

    def _looks(self, found: SetPlan) -> dict[str, Found]:
        return calls.looks_of([one.address for one in found.orders], self._timeout_ms)

    # -- doing it ----------------------------------------------------------------------------------

    def carry_out(self, found: SetPlan) -> list[Check]:
        """From where it is to its proof, or to the end of the time."""
        if not found.orders:
            return []
        if found.stage == FRESH:
            self._begin(found)
        if found.stage in (FRESH, BEGUN):
            self._wait(lambda: self._bring_along(found), "every replica has followed")
        if found.stage != FRESH:
            self._known_at = float("-inf")  # an earlier run has waited
        proof = self._wait(lambda: self._proof(found), "the set is whole")
        if not self._adopts and not move_plan.failed(proof):
            self._forget(found)
        return proof

    def _begin(self, found: SetPlan) -> None:
        if found.fields is not None:
            self._admin.import_set(found.fields)
            self._say(
                f"the controllers know {found.name}: ids, no master, epoch "
                f"{found.fields['master_epoch']}"
            )
        told = self._begun(found)
        self._known_at = time.monotonic()
        self._say(
            f"{found.leader} gave up; it held writes for {told.get('heldMs', '?')} ms until "
            "everybody was told"
        )
        if told.get("left"):
            self._say(f"not there yet: {told['left']}")

    def _begun(self, found: SetPlan) -> dict[str, str]:
        """Where the master serves on, for want of a replica or of time, it is asked again."""
        said = ""
        while True:
            try:
                return calls.begin(found.orders, max(BEGIN_MS, self._timeout_ms))
            except calls.NotNow as problem:
                if time.monotonic() >= self._until:
                    raise
                if problem.what != said:
                    self._say(f"not yet: {problem.what}")
                said = problem.what
                time.sleep(AGAIN_S)

    def _bring_along(self, found: SetPlan) -> list[Check]:
        """Those that were not reached are told again."""
        looks = self._looks(found)
        left = plan.left_of(found.orders, looks)
        for order in found.orders:
            if order.address in left and isinstance(looks[order.address], Look):
                try:
                    calls.follow(order, self._timeout_ms)
                    self._say(f"{order.address} follows")
                except Problem as problem:
                    self._say(f"{order.address} does not follow yet: {problem.what}")
        return [Check("followed", not left, f"not there yet: {', '.join(left) or 'nobody'}")]

    def _proof(self, found: SetPlan) -> list[Check]:
        looks = self._looks(found)
        if self._adopts:
            here = self._here()
            self._make_known(found, here)
            return plan.adopted(found.name, found.orders, looks, here)
        links = java_controller.ha_links([found.leader], self._timeout_ms)[found.leader]
        return plan.released(found.name, found.orders, looks, 0 if links is None else links.links)

    def _make_known(self, found: SetPlan, here: Document) -> None:
        """Where another run told the controllers other codes than the orders have."""
        if here is None or not waits_for_brokers(here):
            return
        if time.monotonic() - self._known_at < ARRIVE_WITHIN_S:
            return
        self._known_at = time.monotonic()
        try:
            self._admin.import_set(set_again(found.orders, here))
            self._say(f"the controllers know {found.name} by the orders that its master has")
        except Refused as refusal:  # it has arrived meanwhile
            self._say(f"not written again: {refusal.what}")

    def _forget(self, found: SetPlan) -> None:
        """What the controllers have of it is a tombstone: ids and epochs go on from there (S9)."""
        here = self._here()
        if here is not None and not here["tombstone"]:
            self._admin.clean(found.orders[0].cluster_name, found.name, living=True)
            self._say(f"the controllers have forgotten {found.name}")

    def _wait(self, look: Callable[[], list[Check]], what: str) -> list[Check]:
        told = False
        while True:
            checks = look()
            if not move_plan.failed(checks):
                self._say(what)
                return checks
            if time.monotonic() >= self._until:
                return checks
            if not told:
                self._say(f"waiting until {what}: {move_plan.failed(checks)[0].what}")
                told = True
            time.sleep(POLL_S)

    # -- what is shown -----------------------------------------------------------------------------

    def _say(self, line: str) -> None:
        """Progress: on standard error where a machine reads the rest."""
        print(line, file=sys.stderr if self._arguments.json else sys.stdout, flush=True)

    def show(self, found: SetPlan, proof: Sequence[Check]) -> None:
        """The plan before, the proof afterwards."""
        begins = not proof and found.is_ready and found.stage == FRESH
        steps = plan.steps(found, self._command(found)) if begins else []
        lines = self._lines(found) if proof or found.stage == DONE else []
        if self._arguments.json:
            document = {
                "set": found.name,
                "to": found.kind.value,
                "stage": found.stage,
                "dry_run": self._arguments.dry_run,
                "ready": found.is_ready,
                "checks": [one.as_dict() for one in found.checks],
                "orders": [_shown(one.document()) for one in found.orders],
                "steps": [one.as_dict() for one in steps],
                "proof": [one.as_dict() for one in proof],
                "lines": lines,
                "done": bool(found.stage == DONE or proof) and not move_plan.failed(proof),
            }
            print(json.dumps(document, indent=1))
            return
        text = check_lines(proof or found.checks, True)
        text += step_lines(steps, 0) if steps else []
        text += ["change these lines:", *(f"  {line}" for line in lines)] if lines else []
        if not found.is_ready:
            text.append("nothing was changed")
        print("\n".join([_head(found, self.says), *text]))

    def _lines(self, found: SetPlan) -> list[str]:
        looks = self._looks(found)
        lines = []
        for order in found.orders:
            one = looks[order.address]
            lines += plan.lines_to_change(order, one.lines if isinstance(one, Look) else None)
        return lines

    def _command(self, found: SetPlan) -> str:
        where = self._arguments
        asked = f" --namesrv '{where.namesrv}'" if where.namesrv else ""
        at = f" --controller '{where.controller}'" if where.controller else ""
        return f"regent controller {where.verb} {found.name}{asked}{at}"


def _head(found: SetPlan, says: str) -> str:
    if not found.is_ready:
        return f"set {found.name}: cannot change over"
    if found.stage == DONE:
        return f"set {found.name}: is with {_whom(found.kind)} already"
    return f"set {found.name}: {says}"


def _whom(kind: Kind) -> str:
    return "the controllers" if kind is Kind.CONTROLLERS else "fixed ids"


def _shown(document: dict[str, Any]) -> dict[str, Any]:
    """Without what proves an id."""
    return {key: value for key, value in document.items() if key != "check_code"}


def _new(addresses: Any) -> Changeover:
    codes = {address: f"{address};{secrets.token_hex(CODE_BYTES)}" for address in addresses}
    return Changeover(secrets.token_hex(CODE_BYTES), codes)


def _rules_check(version: int) -> Check:
    return Check(
        "rules",
        version >= plan.NEEDED_RULES,
        f"rules {version} are active here",
        f"Adopting needs rules {plan.NEEDED_RULES}: 'regent controller upgrade' activates them.",
    )
