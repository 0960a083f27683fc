"""The set as controllers get it when it is adopted (19006): ids, all replicas in the
SyncStateSet, no master, the epoch that labels every byte of before.

Refuses to know: sockets, whether a set may change over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from brokers.changeover.order import Order
from infra.changeover.facts import Look

FIRST_EPOCH = 1
NOTHING_BEFORE: Mapping[str, Any] = {
    "next_broker_id": 1,
    "highest_epoch_seen": 0,
    "sync_state_set_epoch": 0,
}


def waits_for_brokers(here: Mapping[str, Any]) -> bool:
    """The controllers have it as it was written to them, and no broker of it has spoken since."""
    arrived = any(one["alive"] and one["reason"] == "heartbeat" for one in here["replicas"])
    return bool(here["imported"]) and not arrived


def new_set(
    name: str,
    master: Look,
    members: Mapping[int, str],
    here: Mapping[str, Any] | None,
    codes: Mapping[str, str],
) -> dict[str, Any]:
    """Ids begin at 1, in the order of the fixed ones. What a cleaned set of this name left, and an
    adoption that never began, are not undercut (S9). `codes`: by address.
    """
    before = here or NOTHING_BEFORE
    epoch = max(FIRST_EPOCH, before["highest_epoch_seen"] + (0 if before.get("imported") else 1))
    addresses = [members[key] for key in sorted(members)]
    replicas = [(number, one, codes[one]) for number, one in enumerate(addresses, start=1)]
    return _fields(master.cluster_name, name, master.address, before, epoch, replicas)


def set_again(orders: Sequence[Order], here: Mapping[str, Any]) -> dict[str, Any]:
    """The same by orders that its master has taken. Another run of the command may have written
    other check codes for it: the brokers would be refused for ever.
    """
    first = orders[0]
    replicas = [(one.broker_id, one.address, one.check_code) for one in orders]
    return _fields(first.cluster_name, first.broker_name, first.leader, here, first.epoch, replicas)


def _fields(
    cluster_name: str,
    name: str,
    master: str,
    before: Mapping[str, Any],
    epoch: int,
    replicas: Sequence[tuple[int, str, str]],
) -> dict[str, Any]:
    ids = [broker_id for broker_id, _, _ in replicas]
    return {
        "cluster_name": cluster_name,
        "broker_name": name,
        "next_broker_id": max(max(ids) + 1, before["next_broker_id"]),
        "master_broker_id": None,
        "master_epoch": epoch,
        "sync_state_set": sorted(ids),
        "sync_state_set_epoch": before["sync_state_set_epoch"] + 1,
        "replicas": [
            {"broker_id": number, "address": at, "register_check_code": code}
            for number, at, code in replicas
        ],
        "source": f"adopted from fixed ids, master {master}",
        "evidence_epoch": epoch,
    }
