"""`regent controller transfer SET [ID]`: the master of a broker set hands over in an orderly way.

Responsible for: whom to ask, and what came of it. Refuses to know: how a hand-over goes (the master
does it), elections.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from brokers.remoting.codes import ResponseCode
from brokers.remoting.command import RemotingCommand
from infra.cli.controller.state import find_set, ids_text
from infra.controllers.calls import Refused
from infra.problems import EXIT_USAGE, Problem


class Asks(Protocol):
    """What reaches a broker."""

    def hand_over(self, address: str, broker_id: int | None = None) -> RemotingCommand: ...


def transfer(
    admin: Asks, document: Mapping[str, Any], name: str, wanted: int | None
) -> tuple[dict[str, Any], str]:
    """The result, and a line that says it. Problem when nothing was handed over; then the master
    serves on.
    """
    one = find_set(document, name)
    replicas = {replica["id"]: replica for replica in one["replicas"]}
    if wanted is not None and wanted not in replicas:
        raise Problem(
            f"set {name} has no replica {wanted}",
            f"It has {ids_text(list(replicas))}; 'regent controller set {name}' shows them.",
            EXIT_USAGE,
        )
    before = one["master"]
    if before is None or not replicas[before]["alive"]:
        raise Problem(
            f"set {name} has no living master that could hand over",
            f"'regent controller elect {name}' makes one.",
        )
    result: dict[str, Any] = {
        "set": name,
        "result": "kept",
        "master": before,
        "master_epoch": one["master_epoch"],
        "previous": before,
    }
    if wanted == before:
        return result, (
            f"set {name}: replica {before} is master already, epoch {one['master_epoch']}"
        )
    ext = _asked(admin, name, replicas[before], wanted).ext
    result |= {
        "result": "handed over",
        "master": int(ext["masterBrokerId"]),
        "master_address": ext["masterAddress"],
        "master_epoch": int(ext["masterEpoch"]),
    }
    text = (
        f"set {name}: replica {result['master']} is master at {result['master_address']}, epoch "
        f"{result['master_epoch']} (before: replica {before})"
    )
    return result, text


def _asked(
    admin: Asks, name: str, master: Mapping[str, Any], wanted: int | None
) -> RemotingCommand:
    try:
        return admin.hand_over(master["address"], wanted)
    except Refused as refused:
        if refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
            raise
        raise Problem(
            f"the master of set {name} at {master['address']} cannot hand over: it is a Java "
            "broker, or one of an older release",
            f"'regent controller elect {name} ID' moves the mastership all the same; sends under "
            "way may fail and be repeated.",
        ) from None
