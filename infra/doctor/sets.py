"""The broker sets as the controllers have them: a living master, strength, addresses.

Refuses to know: what brokers say of their own stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infra.cli.controller.state import notes_of
from infra.doctor import addresses
from infra.doctor.commands import Commands
from infra.doctor.findings import Finding, fail, warn, well

Document = Mapping[str, Any]
AREA = "sets"
UNCLAIMED = "unclaimed ids"


def living(document: Document) -> dict[str, Document]:
    """Those that were not cleaned away."""
    return {name: one for name, one in document["sets"].items() if not one["tombstone"]}


def check(
    document: Document, answers: Mapping[str, Mapping[str, Any]], commands: Commands
) -> list[Finding]:
    """What is wrong with broker sets. `answers`: what brokers say of themselves, by SET/ID."""
    found = living(document)
    findings = []
    for name, one in found.items():
        for note in notes_of(one):
            findings.append(_noted(name, one, note, commands))
        learners = [
            replica["id"]
            for replica in one["replicas"]
            if answers.get(f"{name}/{replica['id']}", {}).get("async_learner")
        ]
        findings += strength(name, one, learners, commands)
    return findings or [well(AREA, f"{len(found)} broker set(s), each with a living master")]


def _noted(name: str, one: Document, note: str, commands: Commands) -> Finding:
    text = f"{name}: {note}"
    if note == UNCLAIMED:
        way_out = "Ids that were given out and that nobody took; forget them:"
        return warn(AREA, text, way_out, commands.controller("clean", name, "--unclaimed"))
    masterless = one["master"] is None or not any(
        replica["id"] == one["master"] and replica["alive"] for replica in one["replicas"]
    )
    needed = one.get("operator_needed")
    if needed and note.startswith("OPERATOR NEEDED"):
        text = f"{name} waits for a person: {needed['reason']}"
        way_out = f"{needed['way_out'][:1].upper()}{needed['way_out'][1:]}. Who is there:"
        return fail(AREA, text, way_out, commands.controller("set", name))
    if masterless and "MASTER" in note:
        way_out = "It elects one within seconds if it can; what stands in the way:"
        return fail(AREA, text, way_out, commands.controller("set", name))
    return warn(AREA, text, "More of it:", commands.controller("set", name))


def strength(
    name: str, one: Document, learners: Sequence[int], commands: Commands
) -> list[Finding]:
    """Registered replicas that are not in sync: what the set still has to lose. Learners stay
    out.
    """
    out = [
        replica["id"]
        for replica in one["replicas"]
        if replica["registered"] and replica["id"] not in (*one["sync_state_set"], *learners)
    ]
    if not out or one["master"] is None:
        return []
    dead = [r["id"] for r in one["replicas"] if r["id"] in out and not r["alive"]]
    text = (
        f"{name}: replica(s) {', '.join(map(str, out))} not in sync, "
        f"{len(one['sync_state_set'])} are"
    )
    way_out = (
        f"Start replica(s) {', '.join(map(str, dead))}, which no controller hears. Where they were:"
        if dead
        else "They live and copy; when that does not end, see their logs. How far they are:"
    )
    return [warn(AREA, text, way_out, commands.controller("set", name))]


def reached(document: Document, commands: Commands) -> list[Finding]:
    """Whether living brokers are reached at the addresses given to clients and slaves."""
    named, owners = {}, {}
    for name, one in living(document).items():
        for replica in one["replicas"]:
            who = f"{name}/{replica['id']}"
            for place, what in (("address", who), ("ha_address", f"{who} HA")):
                if replica["alive"] and replica[place]:
                    named[what], owners[what] = replica[place], name
    return [
        *shared(document, commands),
        *addresses.reached(
            "brokers",
            named,
            "It is alive and not reached where it says: let it advertise an address that others "
            "reach, or open the port between the machines. What it told:",
            lambda who: commands.controller("set", owners[who]),
        ),
    ]


def shared(document: Document, commands: Commands) -> list[Finding]:
    """Addresses that two living replicas give as their own: requests reach one of them."""
    owners: dict[str, list[tuple[str, str]]] = {}
    for name, one in living(document).items():
        for replica in one["replicas"]:
            for place in ("address", "ha_address") if replica["alive"] else ():
                if replica[place]:
                    who = f"{name}/{replica['id']}"
                    owners.setdefault(replica[place], []).append((who, name))
    return [
        fail(
            "brokers",
            f"{address} is the address of {' and '.join(who for who, _ in named)}: requests reach "
            "one of them",
            "Give each broker addresses of its own (listen and ha_listen, or advertise and "
            "ha_advertise), and start it again. Who tells which:",
            commands.controller("set", named[-1][1]),
        )
        for address, named in sorted(owners.items())
        if len(named) > 1
    ]


def asked(document: Document) -> dict[str, str]:
    """Living brokers that can be asked of themselves: name -> address."""
    return {
        f"{name}/{replica['id']}": replica["address"]
        for name, one in living(document).items()
        for replica in one["replicas"]
        if replica["alive"] and replica["address"]
    }
