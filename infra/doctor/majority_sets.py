"""The set of a local cluster that replicates by majority: a leader, and members that follow it.

Refuses to know: how a leader is elected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.cluster.data_folder import DataFolder
from infra.cluster.majority_running import MajorityCluster
from infra.cluster.plan import BROKER_SET
from infra.doctor.commands import Commands
from infra.doctor.findings import Finding, fail, warn, well

AREA = "sets"
BEHIND_BYTES_MAX = 1 << 20
"""What a member that copies may lack for a moment."""


def check(folder: DataFolder, commands: Commands) -> list[Finding]:
    """As it is now."""
    return judged(MajorityCluster(folder, lambda: None).look(), commands)


def judged(one: Mapping[str, Any], commands: Commands) -> list[Finding]:
    """What is wrong with it."""
    size, needed = one["size"], one["size"] // 2 + 1
    if one["leader"] is None:
        text = (
            f"{BROKER_SET} has no leader, {one['answering']} of its {size} members answer: what is "
            "there is read, and nothing is written"
        )
        way_out = f"It elects when {needed} of them reach each other. What runs:"
        return [fail(AREA, text, way_out, commands.look())]
    findings = []
    if one["answering"] < size:
        text = f"{one['answering']} of the {size} members of {BROKER_SET} answer"
        way_out = f"It goes on with {needed} of them, and no fewer. What runs:"
        findings.append(warn(AREA, text, way_out, commands.look()))
    for member in one["members"]:
        if (refusal := member["store_refusal"]) is not None:
            text = f"{member['name']} takes nothing onto its disk: {refusal}"
            way_out = "Make room there, or look at the disk; it goes on by itself then. What runs:"
            findings.append(fail(AREA, text, way_out, commands.look()))
        if not member["follows"]:
            text = f"{member['name']} answers, and does not follow {one['leader']}"
            way_out = "When that does not end, its log says why. What runs:"
            findings.append(warn(AREA, text, way_out, commands.look()))
        elif member["behind"] > BEHIND_BYTES_MAX:
            text = f"{member['name']} lacks {member['behind']} bytes of its leader's log"
            way_out = "It copies; when that does not end, see its log. How far it is:"
            findings.append(warn(AREA, text, way_out, commands.look()))
    led = f"{BROKER_SET} is led by {one['leader']}, and its {size} members follow"
    return findings or [well(AREA, led)]
