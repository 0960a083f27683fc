"""What a running cluster looks like now, gathered from its processes, its log and its tables into
one document.

Refuses to know how it is shown. Nothing here waits longer than a second per process.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from events import topics
from infra.cluster import acting_view, majority_view
from infra.cluster.data_folder import DataFolder
from infra.cluster.options import ACTING, CONTROLLED, MAJORITY
from infra.cluster.plan import ACTING_SETS
from infra.processes import children
from infra.processes import status as process_status
from lakehouse.errors import LakehouseError
from lakehouse.landing import log_probe
from lakehouse.landing import status as landing_status


def collect(folder: DataFolder, cluster: Mapping[str, Any]) -> dict[str, Any]:
    """The document of `regent status --json`."""
    identity = folder.require()
    processes = cluster["processes"]
    answers = process_status.ask_all(
        [one["status_address"] for one in processes if one["status_address"]]
    )
    shown = [_process(one, answers.get(one["status_address"])) for one in processes]
    lands = landing(cluster)
    stands = [lands["standstill"]] if lands and lands["standstill"] else []
    mode = mode_of(identity["options"])
    majority = majority_view.sets_of(shown) if mode == MAJORITY else {}
    acting = _acting_sets(cluster, shown) if mode == ACTING else {}
    troubles = problems_of(shown, cluster["kafka"].get("bootstrap.servers", ""))
    return {
        "cluster_id": identity["cluster_id"],
        "mode": mode,
        "problems": [
            *troubles,
            *acting_view.problems_of(acting),
            *majority_view.problems_of(majority),
            *stands,
        ],
        "dir": str(folder.root),
        "state": cluster["state"],
        "kafka": cluster["kafka"],
        "controllers": cluster["controllers"],
        "name_servers": cluster["name_servers"],
        "processes": shown,
        "sets": sets_of(shown),
        "acting_sets": acting,
        "majority_sets": majority,
        "landing": lands,
    }


def mode_of(options: Mapping[str, Any]) -> str:
    """Who says who leads: "controllers", "acting" (its configuration), "majority"."""
    if options.get("replication") == MAJORITY:
        return MAJORITY
    return str(options.get("mode", CONTROLLED))


def _acting_sets(cluster: Mapping[str, Any], shown: list[dict[str, Any]]) -> dict[str, Any]:
    members = acting_view.ask_members(cluster["name_servers"], ACTING_SETS)
    return acting_view.sets_of(shown, members)


def _process(known: Mapping[str, Any], answer: Mapping[str, Any] | None) -> dict[str, Any]:
    shown = {
        key: known[key]
        for key in (
            "name",
            "kind",
            "state",
            "pid",
            "address",
            "ha_address",
            "restarts",
            "last_exit",
        )
    }
    pid = known["pid"]
    shown["paused"] = pid is not None and children.state_of(pid) in children.STOPPED_STATES
    shown["answers"] = answer is not None if known["status_address"] else None
    shown["status"] = dict(answer) if answer else None
    shown["role"] = role_of(known["kind"], answer)
    return shown


def problems_of(processes: list[dict[str, Any]], kafka: str) -> list[str]:
    """What the processes say that none of them is to blame for alone: decisions that nobody can
    take.
    """
    asked = [one for one in processes if one["kind"] == "controller"]
    cut_off = [one["name"] for one in asked if (one["status"] or {}).get("log_answers") is False]
    problems = []
    if cut_off:
        problems.append(f"{', '.join(cut_off)} {process_status.NO_LOG} ({kafka})")
    if asked and not any(leads(one["status"]) for one in asked):
        problems.append(
            "NOTHING CAN BE DECIDED: no controller leads; masters go on serving, and none is "
            "elected"
        )
    return problems


def leads(status: Mapping[str, Any] | None) -> bool:
    """This controller is active, and the log answers it."""
    return bool(status and status.get("role") == "active" and status.get("ready"))


def role_of(kind: str, answer: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the process is doing: `kind`, with a controller's `term`, with a broker's `id` and
    `epoch`. Empty where that is not known.
    """
    if answer is None:
        return {}
    if kind == "controller":
        return {"kind": answer.get("role"), "term": answer.get("term")}
    if kind == "broker":
        return {
            "kind": str(answer.get("role", "")).lower(),
            "id": answer.get("broker_id"),
            "epoch": answer.get("master_epoch"),
            **({"acts": True} if answer.get("acts") else {}),
        }
    return {}


def active_controller(processes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Status of the controller that leads: of those that say so, the one with the highest term."""
    leading = [
        one["status"]
        for one in processes
        if one["kind"] == "controller" and one["status"] and one["status"].get("role") == "active"
    ]
    return max(leading, key=lambda status: status.get("term", 0), default=None)


def sets_of(processes: list[dict[str, Any]]) -> dict[str, Any]:
    """Each broker set as the active controller has it (else the controller that is furthest)."""
    status = active_controller(processes)
    if status is None:
        known = [
            one["status"] for one in processes if one["kind"] == "controller" and one["status"]
        ]
        status = max(known, key=lambda one: one.get("applied_offset", -1), default=None)
    sets: dict[str, Any] = dict(status.get("sets", {})) if status else {}
    brokers = {
        one["address"]: one["status"]
        for one in processes
        if one["kind"] == "broker" and one["status"]
    }
    for one in sets.values():
        for member in one.get("members", []):
            own = brokers.get(member["address"]) or {}
            for shown, name in (("end_offset", "log_end"), ("confirm_offset", "confirm_offset")):
                if own.get(name) is not None:  # newer than what the last heartbeat said
                    member[shown] = own[name]
    return sets


def log_ends(kafka: Mapping[str, str]) -> dict[str, int]:
    """End offset of every partition of our topics, keys `topic-partition`; empty when Kafka does
    not answer.
    """
    names = tuple(spec.name for spec in topics.TOPICS)
    with contextlib.suppress(LakehouseError):
        return {
            f"{topic}-{number}": ends.end
            for (topic, number), ends in log_probe.log_ends(kafka, names).items()
        }
    return {}


def landing(cluster: Mapping[str, Any]) -> dict[str, Any] | None:
    """How far the tables are behind the log, and what the job says of itself; None when there is no
    landing job.
    """
    if not any(one["kind"] == "land" for one in cluster["processes"]):
        return None
    status = landing_status.read_status(Path(cluster["landing_dir"]))
    ends = log_ends(cluster["kafka"])
    landed = dict(status.landed) if status else {}
    stands = landing_standstill(Path(cluster["landing_dir"]), _pid_of_landing(cluster))
    # without the ends nobody knows how far it is behind
    lag = {name: max(0, end - landed.get(name, 0)) for name, end in ends.items()}
    return {
        "ready": bool(status and status.ready),
        "stage": status.stage if status else "none",
        "error": status.error if status else None,
        "standstill": stands.text if stands and stands.is_certain else None,
        "landed": landed,
        "lag": lag,
        "lag_records": sum(lag.values()) if ends else None,
        "rows": status.rows if status else 0,
        "last_batch_ms": status.last_batch_ms if status else 0,
        "lag_ms": max(status.lag_ms.values(), default=0) if status else 0,
        "lost_records": sum(status.lost_records.values()) if status else 0,
        "alarms": status.alarms if status else None,
        "troubles": dict(status.troubles) if status else {},
        "metrics": status.metrics if status else None,
    }


def _pid_of_landing(cluster: Mapping[str, Any]) -> int | None:
    """None while its supervisor has none running."""
    return next((one["pid"] for one in cluster["processes"] if one["kind"] == "land"), None)


def landing_standstill(work_dir: Path, pid: int | None = None) -> landing_status.Standstill | None:
    """Why the job whose status lies there lands nothing; None while it does what it should, and
    where no job ever was. What a process before `pid` has left behind says nothing.
    """
    try:
        found = landing_status.read_status(work_dir)
    except ValueError as error:
        return landing_status.Standstill(
            f"the landing job's status in {work_dir} cannot be read: {error}",
            "The job writes it anew when it starts.",
        )
    if found is None or pid not in (None, found.pid):
        return None
    now_ms = time.time_ns() // 1_000_000
    lives = children.is_alive(found.pid)
    return landing_status.standstill(found, lives=lives, now_ms=now_ms)
