"""Sets of a local cluster that replicate by majority, as their brokers say: who leads, who follows,
who lacks what.

Refuses to know how it is shown, and how a leader is elected (PROTOCOL 10).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Process = Mapping[str, Any]


def sets_of(processes: Sequence[Process]) -> dict[str, dict[str, Any]]:
    """Each set: `leader` (its process, None without one) and its `term`, its `size`, how many are
    `answering`, and of each member that does, whether it `follows` the leader or is it, and what
    it lacks of the leader's log in bytes.
    """
    brokers = [one for one in processes if one["kind"] == "broker"]
    names = {_set_of(one) for one in brokers}
    return {name: _set([one for one in brokers if _set_of(one) == name]) for name in sorted(names)}


def _set_of(one: Process) -> str:
    return str(one["name"]).rpartition("-")[0]


def _set(brokers: Sequence[Process]) -> dict[str, Any]:
    known = [one for one in brokers if one.get("status")]
    leads = [one for one in known if one["status"]["role"] == "MASTER"]
    # one that does not know yet that it was replaced has an older term
    leader = max(leads, key=lambda one: int(one["status"]["master_epoch"]), default=None)
    if leader is not None and 2 * len(_with(leader, known)) <= len(brokers):
        leader = None
    members = [_member(one, leader, known) for one in known]
    return {
        "leader": None if leader is None else leader["name"],
        "address": None if leader is None else leader["address"],
        "term": None if leader is None else leader["status"]["master_epoch"],
        "size": len(brokers),
        "answering": len(known),
        "members": sorted(members, key=lambda one: int(one["id"])),
    }


def _with(leader: Process, known: Sequence[Process]) -> list[Process]:
    """The leader, and who follows it."""
    term, address = leader["status"]["master_epoch"], leader["address"]
    return [
        one
        for one in known
        if one is leader
        or (
            one["status"]["role"] == "SLAVE"
            and one["status"]["master_epoch"] == term
            and one["status"].get("master_address") == address
        )
    ]


def _member(one: Process, leader: Process | None, known: Sequence[Process]) -> dict[str, Any]:
    status = one["status"]
    end = int(status["log_end"] if leader is None else leader["status"]["log_end"])
    return {
        "name": one["name"],
        "id": status["broker_id"],
        "address": one["address"],
        "follows": leader is not None and any(one is other for other in _with(leader, known)),
        "term": status["master_epoch"],
        "store_refusal": status.get("store_refusal"),
        "log_end": status["log_end"],
        "committed": status["confirm_offset"],
        "behind": max(0, end - int(status["log_end"])),
    }


def is_whole(one: Mapping[str, Any]) -> bool:
    """It has a leader, every member follows, and has what the leader knows to be committed."""
    if one["leader"] is None or one["answering"] < one["size"]:
        return False
    (leader,) = (member for member in one["members"] if member["name"] == one["leader"])
    return all(
        member["follows"] and member["log_end"] >= leader["committed"] for member in one["members"]
    )


def problems_of(sets: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What of these sets a person should know, in sentences."""
    found = []
    for name, one in sets.items():
        if one["leader"] is None:
            found.append(
                f"{name} has no leader: {one['answering']} of its {one['size']} members answer, "
                f"and {one['size'] // 2 + 1} that reach each other are needed"
            )
        found += [
            f"{member['name']} takes nothing onto its disk: {member['store_refusal']}"
            for member in one["members"]
            if member["store_refusal"]
        ]
    return found
