"""The blows of the demo, one function each: what is hit, what must follow, what it cost.

Each gives a dictionary for the report. Refuses to know how the workload sends and how the report
looks.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
import uuid
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from brokers.membership import controller_messages
from brokers.membership.identity_file import IdentityFiles
from brokers.remoting.client import RemotingClient
from brokers.remoting.command import RemotingCommand
from infra.cluster.plan import BROKER_SET, CLUSTER_NAME
from infra.cluster.running import DemoCluster, SetView
from infra.demo.load import Load

ELECTION_LIMIT_S = 60.0
REJOIN_LIMIT_S = 90.0
SHRINK_LIMIT_S = 30.0
TAKEOVER_LIMIT_S = 60.0
# three seconds of the workload
CALM_MESSAGES = 1_500
CALL_TIMEOUT_MS = 10_000
VIEW_LIMIT_S = 30.0
# a call that the blow hit may have been invoked this long before it
OUTAGE_SLACK_MS = 2_000


def wait_calm(cluster: DemoCluster, load: Load, limit_s: float = 60.0) -> None:
    """Messages flow and no outage is open."""
    start = load.produced().get("acknowledged", 0)

    def flows() -> bool:
        load.check()
        figures = load.produced()
        return figures.get("acknowledged", 0) >= start + CALM_MESSAGES and not figures.get(
            "outage", True
        )

    cluster.wait("a calm stretch of sending", flows, limit_s)


def require_view(cluster: DemoCluster) -> SetView:
    """The set with a master; Problem when there is none. Asked more than once: a busy controller
    may leave a question without an answer.
    """
    return cluster.wait_for_view(
        "an answer that names a master", lambda view: view.master_address is not None, VIEW_LIMIT_S
    )


def kill_master(cluster: DemoCluster, load: Load, label: str) -> dict[str, Any]:
    """`kill -9` the master: another is elected, clients go on, the killed one comes back into the
    set.
    """
    before = require_view(cluster)
    victim = cluster.process_at(before.master_address or "")
    outages = len(load.produced().get("outages", []))
    at_ms = cluster.kill(victim)
    began = time.monotonic()
    after = cluster.wait_for_view(
        "the election of another master",
        lambda view: view.master_id is not None and view.master_epoch > before.master_epoch,
        ELECTION_LIMIT_S,
    )
    elected_s = time.monotonic() - began
    cluster.wait(
        "the end of the producer's outage", lambda: recovered(load, outages), ELECTION_LIMIT_S
    )
    cluster.wait_for_view(
        f"the return of {victim['name']} into the SyncStateSet",
        lambda view: before.master_id in view.in_sync and len(view.in_sync) == len(view.members),
        REJOIN_LIMIT_S,
    )
    return {
        "step": label,
        "kind": "master",
        "killed": victim["name"],
        "at_ms": round(at_ms),
        "master_before": before.master_id,
        "master_after": after.master_id,
        "epoch_before": before.master_epoch,
        "epoch_after": after.master_epoch,
        "led_by": after.controller,
        "seen_elected_s": round(elected_s, 2),
        "set_whole_again_s": round(time.monotonic() - began, 2),
        "outage": outage_since(load, at_ms),
    }


def recovered(load: Load, outages_before: int) -> bool:
    """An outage more than then is over. Problem when a process of the workload has ended."""
    load.check()
    figures = load.produced()
    return len(figures.get("outages", [])) > outages_before and not figures.get("outage", True)


def outage_since(load: Load, at_ms: float) -> dict[str, Any] | None:
    """The longest outage that began with this blow."""
    mine = [
        one
        for one in load.produced().get("outages", [])
        if one["started_wall_ms"] >= at_ms - OUTAGE_SLACK_MS
    ]
    return max(mine, key=lambda one: one["rto_ms"], default=None)


def kill_controller(cluster: DemoCluster, load: Load, label: str) -> dict[str, Any]:
    """`kill -9` the active controller: the standby claims leadership; sending does not notice."""
    before = require_view(cluster)
    victim = cluster.process_at(before.controller_address)
    outages = len(load.produced().get("outages", []))
    at_ms = cluster.kill(victim)
    began = time.monotonic()
    after = cluster.wait_for_view(
        "the claim of the standby controller",
        lambda view: view.controller != before.controller and view.term > before.term,
        TAKEOVER_LIMIT_S,
    )
    seconds = time.monotonic() - began
    wait_calm(cluster, load)
    return {
        "step": label,
        "kind": "controller",
        "killed": victim["name"],
        "at_ms": round(at_ms),
        "leader_after": after.controller,
        "term_before": before.term,
        "term_after": after.term,
        "takeover_s": round(seconds, 2),
        "failed_sends": len(load.produced().get("outages", [])) - outages,
    }


def pause_slave(cluster: DemoCluster, load: Load, label: str) -> dict[str, Any]:
    """Stop a slave's process without ending it: it leaves the set, sending goes on; the supervisor
    ends what stands still, and its successor comes back.
    """
    before = require_view(cluster)
    masters = cluster.process_at(before.master_address or "")
    victim = next(one for one in cluster.processes("broker") if one["name"] != masters["name"])
    acknowledged = load.produced().get("acknowledged", 0)
    began = time.monotonic()
    at_ms = time.time() * 1000
    os.kill(victim["pid"], signal.SIGSTOP)
    try:
        without = cluster.wait_for_view(
            f"{victim['name']} out of the SyncStateSet",
            lambda view: len(view.in_sync) < len(before.in_sync),
            SHRINK_LIMIT_S,
        )
        left_s = time.monotonic() - began
        wait_calm(cluster, load)
    finally:
        with suppress(ProcessLookupError):  # the supervisor ended it
            os.kill(victim["pid"], signal.SIGCONT)
    cluster.wait_for_view(
        f"{victim['name']} back in the SyncStateSet",
        lambda view: set(before.in_sync) <= set(view.in_sync),
        REJOIN_LIMIT_S,
    )
    return {
        "step": label,
        "kind": "paused_slave",
        "paused": victim["name"],
        "at_ms": round(at_ms),
        "left_after_s": round(left_s, 2),
        "in_sync_without": list(without.in_sync),
        "acknowledged_meanwhile": load.produced().get("acknowledged", 0) - acknowledged,
        "back_after_s": round(time.monotonic() - began, 2),
        "outage": outage_since(load, at_ms),
    }


def late_proposal(cluster: DemoCluster, failover: dict[str, Any], label: str) -> dict[str, Any]:
    """The killed master's proposal arrives after its epoch is over: refused, and recorded as
    refused.
    """
    view = require_view(cluster)
    identity = IdentityFiles(cluster.folder.data_of(failover["killed"])).read_identity()
    code = "" if identity is None else identity.register_check_code
    me = controller_messages.Introduction(
        CLUSTER_NAME, BROKER_SET, "127.0.0.1:1", "127.0.0.1:2", "late", check_code=code
    )
    request = controller_messages.alter_sync_state_set(
        me,
        failover["master_before"],
        [failover["master_before"]],
        view.in_sync_epoch,
        failover["epoch_before"],
        uuid.uuid4().hex,
        time.time_ns() // 1_000_000,
    )
    answer = asyncio.run(_call(view.controller_address, request))
    return {"step": label, "kind": "refusal", "code": answer.code, "remark": answer.remark or ""}


async def _call(address: str, request: RemotingCommand) -> RemotingCommand:
    client = RemotingClient()
    try:
        return await client.call(address, request, CALL_TIMEOUT_MS)
    finally:
        await client.close()


def add_empty_replica(cluster: DemoCluster, number: int, label: str) -> dict[str, Any]:
    """One more slave with an empty disk: it gets an id, copies the whole log and joins the
    SyncStateSet.
    """
    before = require_view(cluster)
    began = time.monotonic()
    name = cluster.folder.ask({"action": "add_broker", "number": number}, timeout_s=30.0)["name"]
    after = cluster.wait_for_view(
        f"{name} in the SyncStateSet",
        lambda view: (
            len(view.members) > len(before.members) and len(view.in_sync) == len(view.members)
        ),
        REJOIN_LIMIT_S,
    )
    new = sorted(set(after.members) - set(before.members))
    seconds = round(time.monotonic() - began, 2)
    address = next(one["address"] for one in cluster.processes("broker") if one["name"] == name)
    status = cluster.broker_status(address) or {}
    return {
        "step": label,
        "kind": "empty_replica",
        "started": name,
        "broker_id": new[0],
        "joined_s": seconds,
        "copied_bytes": status.get("log_end", 0),
        "in_sync": list(after.in_sync),
    }


def final_view(cluster: DemoCluster) -> dict[str, Any]:
    """The set at the end."""
    return asdict(require_view(cluster))
