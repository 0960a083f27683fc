"""The blows of the demo of a set that replicates by majority, one function each: what is hit, what
must follow, what it cost.

Each gives a dictionary for the report. Refuses to know how the workload sends and how the report
looks.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from infra.cluster.majority_running import MajorityCluster
from infra.demo.faults import outage_since, recovered, wait_calm
from infra.demo.load import Load

ELECTION_LIMIT_S = 60.0
WHOLE_LIMIT_S = 120.0


def led(cluster: MajorityCluster, behind_term: int = -1) -> dict[str, Any]:
    """The set, once it has a leader of a later term."""
    found: list[dict[str, Any]] = []

    def is_led() -> bool:
        now = cluster.look()
        if now["leader"] is not None and now["term"] > behind_term:
            found.append(now)
        return bool(found)

    cluster.wait("a leader whom a majority follows", is_led, ELECTION_LIMIT_S)
    return found[0]


def _whole(cluster: MajorityCluster) -> None:
    cluster.wait("a leader whom every member follows", cluster.is_whole, WHOLE_LIMIT_S)


def _changed(
    cluster: MajorityCluster, load: Load, before: dict[str, Any], outages: int, began: float
) -> dict[str, Any]:
    """Another one leads, and messages flow."""
    after = led(cluster, before["term"])
    led_s = time.monotonic() - began
    cluster.wait(
        "the end of the producer's outage", lambda: recovered(load, outages), ELECTION_LIMIT_S
    )
    return {
        "leader_before": before["leader"],
        "leader_after": after["leader"],
        "term_before": before["term"],
        "term_after": after["term"],
        "seen_led_s": round(led_s, 2),
    }


def _came_back(
    cluster: MajorityCluster, load: Load, before: dict[str, Any], outages: int, at_ms: float
) -> dict[str, Any]:
    """Who was killed at `at_ms`, a moment ago, is started anew by its supervisor, and follows."""
    began = time.monotonic()
    changed = _changed(cluster, load, before, outages, began)
    _whole(cluster)
    whole_s = round(time.monotonic() - began, 2)
    return {**changed, "whole_s": whole_s, "outage": outage_since(load, at_ms)}


def _outages(load: Load) -> int:
    return len(load.produced().get("outages", []))


def kill_leader(cluster: MajorityCluster, load: Load, label: str) -> dict[str, Any]:
    """`kill -9`: another one is elected, clients go on, the killed one comes back and follows."""
    before, outages = led(cluster), _outages(load)
    at_ms = cluster.kill(cluster.broker(before["leader"]))
    after = _came_back(cluster, load, before, outages, at_ms)
    return {"step": label, "kind": "killed", **after}


def pause_leader(cluster: MajorityCluster, load: Load, label: str) -> dict[str, Any]:
    """SIGSTOP: the others elect one of them; when it wakes it follows, and what it had not got to a
    majority is cut.
    """
    before, outages = led(cluster), _outages(load)
    pid = cluster.broker(before["leader"])["pid"]
    began, at_ms = time.monotonic(), time.time() * 1000
    os.kill(pid, signal.SIGSTOP)
    try:
        changed = _changed(cluster, load, before, outages, began)
        wait_calm(cluster, load)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    paused_s = time.monotonic() - began
    _whole(cluster)
    return {
        "step": label,
        "kind": "paused",
        **changed,
        "paused_s": round(paused_s, 2),
        "whole_s": round(time.monotonic() - began, 2),
        "outage": outage_since(load, at_ms),
    }


def leave_leader_alone(cluster: MajorityCluster, load: Load, label: str) -> dict[str, Any]:
    """All but a minority around the leader are killed. What it writes then nobody else has, and
    nobody is told that it is stored; it dies with it, the others come back, elect, and go on. When
    it comes back as well, those entries are cut.
    """
    before, outages = led(cluster), _outages(load)
    leader = before["leader"]
    others = [one["name"] for one in cluster.processes("broker") if one["name"] != leader]
    gone = others[(len(others) - 1) // 2 :]
    began, at_ms = time.monotonic(), time.time() * 1000
    for name in gone:
        cluster.kill_and_hold(name)
    alone: dict[str, int] = {}

    def writes_alone() -> bool:
        status = cluster.broker_status(cluster.broker(leader)["address"]) or {}
        alone["end"], alone["committed"] = status.get("log_end", 0), status.get("confirm_offset", 0)
        return alone["end"] > alone["committed"] > 0

    cluster.wait(f"entries that only {leader} has", writes_alone, ELECTION_LIMIT_S)
    acknowledged = load.produced().get("acknowledged", 0)
    cluster.kill_and_hold(leader)
    for name in gone:
        cluster.start(name)
    changed = _changed(cluster, load, before, outages, began)
    cluster.start(leader)
    _whole(cluster)
    return {
        "step": label,
        "kind": "alone",
        **changed,
        "others_killed": gone,
        "alone_bytes": alone["end"] - alone["committed"],
        "acknowledged_before": acknowledged,
        "whole_s": round(time.monotonic() - began, 2),
        "outage": outage_since(load, at_ms),
    }


def empty_follower(cluster: MajorityCluster, load: Load, label: str) -> dict[str, Any]:
    """A follower loses its disk: it copies the whole log and follows, while messages flow."""
    before, outages = led(cluster), _outages(load)
    name = next(
        one["name"] for one in cluster.processes("broker") if one["name"] != before["leader"]
    )
    cluster.kill_and_hold(name)
    shutil.rmtree(Path(cluster.broker(name)["store_dir"]))
    wait_calm(cluster, load)
    began = time.monotonic()
    cluster.start(name)
    _whole(cluster)
    status = cluster.broker_status(cluster.broker(name)["address"]) or {}
    return {
        "step": label,
        "kind": "emptied",
        "emptied": name,
        "copied_bytes": status.get("log_end", 0),
        "whole_s": round(time.monotonic() - began, 2),
        "outages": _outages(load) - outages,
    }


def kill_all(cluster: MajorityCluster, load: Load, label: str) -> dict[str, Any]:
    """`kill -9` all brokers at once: their supervisor starts them anew, and they have all that was
    acknowledged.
    """
    before, outages = led(cluster), _outages(load)
    at_ms = time.time() * 1000
    for one in cluster.processes("broker"):
        cluster.kill(one)
    after = _came_back(cluster, load, before, outages, at_ms)
    return {"step": label, "kind": "all", **after}
