"""Sets without controllers of a local cluster: a master that leads, slaves that follow, somebody
who acts while it is away.

Refuses to know: by which rule who acts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.cluster.acting_running import ActingCluster
from infra.cluster.data_folder import DataFolder
from infra.doctor.commands import Commands
from infra.doctor.findings import Finding, fail, warn, well

AREA = "sets"
ROOM = "Make room there, or look at the disk; it goes on by itself then. What runs:"
BEHIND_BYTES_MAX = 1 << 20
"""What a slave that copies may lack for a moment."""

Sets = Mapping[str, Mapping[str, Any]]


def check(folder: DataFolder, commands: Commands) -> list[Finding]:
    """As they are now."""
    return judged(ActingCluster(folder, lambda: None).sets(), commands)


def judged(sets: Sets, commands: Commands) -> list[Finding]:
    """What is wrong with them."""
    findings = [finding for name, one in sets.items() for finding in _of_set(name, one, commands)]
    return findings or [well(AREA, f"{len(sets)} sets, each with its master and all slaves")]


def _of_set(name: str, one: Mapping[str, Any], commands: Commands) -> list[Finding]:
    if one["registered"] is None:
        text = f"no name server says who is there of {name}"
        return [fail(AREA, text, "Is it running? What runs:", commands.look())]
    if one["master"] is None and one["acting"] is None:
        text = f"{name} has no master, and nobody acts for it: it is neither written nor read"
        return [fail(AREA, text, "Its processes, and their last words:", commands.look())]
    findings = []
    if one["master"] is None:
        text = (
            f"{name} has no master; {one['acting']} acts for it and is read from, sends go to "
            "other sets"
        )
        way_out = "Start its master, which takes over what was done without it. What runs:"
        findings.append(warn(AREA, text, way_out, commands.look()))
    for member in one["members"]:
        if (refusal := member["store_refusal"]) is not None:
            findings.append(fail(AREA, _without_room(member, refusal), ROOM, commands.look()))
        if member["waits_for"]:
            text = f"{member['name']} is not online: it waits for {member['waits_for']}"
            findings.append(warn(AREA, text, "That passes by itself. What runs:", commands.look()))
        elif not member["registered"]:
            text = f"{member['name']} answers, and no name server knows it"
            way_out = "It registers every 30 s at the latest. What runs:"
            findings.append(warn(AREA, text, way_out, commands.look()))
        elif one["master"] is not None and member["behind"] > BEHIND_BYTES_MAX:
            text = f"{member['name']} lacks {member['behind']} bytes of its set's log"
            way_out = "It copies; when that does not end, see its log. How far it is:"
            findings.append(warn(AREA, text, way_out, commands.look()))
    return findings


def _without_room(member: Mapping[str, Any], refusal: str) -> str:
    text = f"{member['name']} takes nothing onto its disk: {refusal}"
    if member["acts"]:
        text += (
            "; what is due leaves all the same, and leaves once more if this broker ends before "
            "there is room"
        )
    return text
